//! The first I/O error of a medium, kept until it is closed.
//!
//! After a failed `msync` the kernel marks the pages clean although they never reached the disk, so a second
//! attempt would succeed wrongly. Hence every later call that promises durability must fail.

use std::sync::OnceLock;

use crate::MediaError;

/// The first error of a medium; cheap to check while there is none.
#[derive(Debug, Default)]
pub(crate) struct ErrorLatch {
    first: OnceLock<String>,
}

impl ErrorLatch {
    /// Fails with [`MediaError::Poisoned`] if an error has been kept.
    #[inline(always)]
    pub(crate) fn check(&self, name: impl Fn() -> String) -> Result<(), MediaError> {
        match self.first.get() {
            None => Ok(()),
            Some(first) => Err(poisoned(name(), first)),
        }
    }

    /// Keeps the error of `result` if it is the first, and returns the result.
    pub(crate) fn keep<T>(&self, result: Result<T, MediaError>) -> Result<T, MediaError> {
        if let Err(error) = &result {
            tracing::error!(%error, "a write failed; the medium accepts no more writes");
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
