//! The first I/O error of a medium, kept for good.
//!
//! After a failed `msync` the kernel marks the pages clean although they never reached the disk, so a second
//! try "succeeds". Hence the rule: once latched, every later call that promises durability fails.

use std::sync::OnceLock;

use crate::MediaError;

/// Remembers the first error; cheap to ask while there is none.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    first: OnceLock<String>,
}

impl Latch {
    /// Fails with [`MediaError::Poisoned`] once an error has been kept.
    #[inline(always)]
    pub(crate) fn check(&self, name: impl Fn() -> String) -> Result<(), MediaError> {
        match self.first.get() {
            None => Ok(()),
            Some(first) => Err(poisoned(name(), first)),
        }
    }

    /// Keeps the error of `result` if there is one (the first only) and hands the result on.
    pub(crate) fn keep<T>(&self, result: Result<T, MediaError>) -> Result<T, MediaError> {
        if let Err(error) = &result {
            tracing::error!(%error, "a write failed; the medium takes no more");
            self.first.get_or_init(|| error.to_string());
        }
        result
    }
}

#[cold]
fn poisoned(name: String, first: &str) -> MediaError {
    MediaError::Poisoned {
        name,
        first: first.to_owned(),
    }
}
