//! Durability of the log: fences, and the erasure of batches that failed.
//!
//! Invariant: after an error of the medium nobody knows what is durable, and all later commits fail.

use std::sync::PoisonError;

use halocline_media::MediaError;

use crate::committer::Committer;
use crate::error::Result;
use crate::fault::{StoreFault, injected};
use crate::log::LogMark;
use crate::state::StoresState;

impl StoresState {
    /// Makes all frames of the log durable.
    ///
    /// # Errors
    /// Those of the medium: all later commits fail.
    pub(crate) fn fence_log(&self, committer: &mut Committer) -> std::result::Result<(), MediaError> {
        if !injected(StoreFault::ForgetDeferred) {
            // A fence covers only what its own thread has flushed, and other threads may have stored these
            // frames.
            committer.log.flush_deferred(self.medium());
        }
        if !injected(StoreFault::AcknowledgeEarly) {
            self.medium().fence().inspect_err(|error| self.poison(error))?;
        }
        committer.log.set_fenced();
        Ok(())
    }

    /// Takes back what the log has since a mark.
    ///
    /// # Errors
    /// Those of the medium: all later commits fail.
    pub(crate) fn take_back(&self, committer: &mut Committer, mark: LogMark) -> Result<()> {
        let taken = committer.log.take_back(self.medium(), mark);
        taken.inspect_err(|error| self.poison(error))?;
        Ok(())
    }

    /// Makes all commits that have returned durable. Others go on meanwhile.
    ///
    /// # Errors
    /// Those of the medium: all later commits fail.
    pub(crate) fn flush(&self) -> Result<()> {
        let _one_at_a_time = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.writable()?;
        let sealed = {
            let mut committer = self.committer();
            if committer.log.is_fenced() {
                return Ok(());
            }
            // Sealed ranges do not grow: commits that go on meanwhile are not covered by this fence.
            committer.log.seal()
        };
        // The committer is not locked any more, so that other commits do not wait for the fence.
        if !injected(StoreFault::ForgetDeferred) {
            sealed.flush(self.medium());
        }
        self.medium().fence().inspect_err(|error| self.poison(error))?;
        self.committer().log.set_sealed_fenced(&sealed);
        Ok(())
    }
}
