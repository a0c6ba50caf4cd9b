//! The end of a build that is not wanted any more.

use crate::{ElfError, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the caller wants the end. Once that was heard, it stays so: a build that was cut short is never taken for
/// one that is complete.
pub(super) struct CancellationToken<'a> {
    wanted: &'a AtomicBool,
    heard: AtomicBool,
}

impl<'a> CancellationToken<'a> {
    pub(super) fn new(wanted: &'a AtomicBool) -> Self {
        let heard = AtomicBool::new(false);
        Self { wanted, heard }
    }

    /// What the caller sets.
    pub(super) fn wanted(&self) -> &AtomicBool {
        self.wanted
    }

    pub(super) fn is_heard(&self) -> bool {
        if self.wanted.load(Ordering::Relaxed) {
            self.heard.store(true, Ordering::Relaxed);
        }
        self.heard.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`ElfError::Cancelled`].
    pub(super) fn check(&self) -> Result<()> {
        match self.is_heard() {
            true => Err(ElfError::Cancelled),
            false => Ok(()),
        }
    }
}
