//! Cancellation of a build.

use crate::{ElfError, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that the caller sets to cancel a build. Once a set flag was seen the cancellation is permanent, so
/// that an incomplete build is never mistaken for a complete one.
pub(super) struct CancellationToken<'a> {
    wanted: &'a AtomicBool,
    heard: AtomicBool,
}

impl<'a> CancellationToken<'a> {
    pub(super) fn new(wanted: &'a AtomicBool) -> Self {
        let heard = AtomicBool::new(false);
        Self { wanted, heard }
    }

    /// Returns the flag that the caller sets.
    pub(super) fn wanted(&self) -> &AtomicBool {
        self.wanted
    }

    pub(super) fn is_heard(&self) -> bool {
        if self.wanted.load(Ordering::Relaxed) {
            self.heard.store(true, Ordering::Relaxed);
        }
        self.heard.load(Ordering::Relaxed)
    }

    /// Checks for cancellation.
    ///
    /// # Errors
    /// [`ElfError::Cancelled`] if the build was cancelled.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_heard() {
            Err(ElfError::Cancelled)
        } else {
            Ok(())
        }
    }
}
