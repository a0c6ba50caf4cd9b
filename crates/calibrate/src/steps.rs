//! The steps of a calibration, each of which is reported and may be the last: [`CalibrateStep`].

use std::sync::atomic::{AtomicBool, Ordering};

use crate::CalibrateError;

/// The state of a calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrateStep<'a> {
    /// Steps done.
    pub done: usize,
    /// Steps in total.
    pub total: usize,
    /// The step that begins.
    pub name: &'a str,
}

/// Counts the steps of a calibration.
pub(crate) struct Steps<'a> {
    pub(crate) done: usize,
    pub(crate) total: usize,
    pub(crate) cancelled: &'a AtomicBool,
    pub(crate) progress: &'a mut dyn FnMut(CalibrateStep<'_>),
}

impl Steps<'_> {
    /// Begins a step.
    pub(crate) fn next(&mut self, name: &str) -> Result<(), CalibrateError> {
        self.check()?;
        (self.progress)(CalibrateStep {
            done: self.done,
            total: self.total,
            name,
        });
        self.done += 1;
        Ok(())
    }

    /// Fails if the calibration was cancelled.
    pub(crate) fn check(&self) -> Result<(), CalibrateError> {
        if self.cancelled.load(Ordering::Relaxed) {
            Err(CalibrateError::Cancelled)
        } else {
            Ok(())
        }
    }
}
