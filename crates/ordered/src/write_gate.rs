//! The check before every write: the slab must be marked as being written, the tree must not be
//! read-only, and the medium must not have failed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use halocline_media::MediaError;
use halocline_pool::{PoolError, Slab};

use crate::TreeError;
use crate::seal::fault::{CloseFault, injected};

/// The slab is marked as being written, and the medium has not failed.
const READY: u8 = 0;
/// Nothing has been written since the tree was opened.
const AT_REST: u8 = 1;
/// The medium has failed.
const FAILED: u8 = 2;

/// The write permission of a tree. It records the first error of the medium. While there is none, a
/// check costs one load.
#[derive(Debug)]
pub(crate) struct WriteGate {
    state: AtomicU8,
    first: OnceLock<String>,
}

impl Default for WriteGate {
    fn default() -> WriteGate {
        WriteGate {
            state: AtomicU8::new(AT_REST),
            first: OnceLock::new(),
        }
    }
}

impl WriteGate {
    /// Permits a write. Must be called before anything is stored to the tree.
    ///
    /// # Errors
    /// [`TreeError::Poisoned`] after a failure, [`TreeError::ReadOnly`], and as [`Slab::begin_writing`].
    #[inline]
    pub(crate) fn check(&self, slab: &Slab) -> Result<(), TreeError> {
        match self.state.load(Ordering::Acquire) {
            READY => Ok(()),
            _ => self.wake(slab),
        }
    }

    #[cold]
    fn wake(&self, slab: &Slab) -> Result<(), TreeError> {
        if let Some(first) = self.first.get() {
            return Err(TreeError::Poisoned {
                name: slab.name().to_owned(),
                first: first.clone(),
            });
        }
        if slab.is_read_only() {
            return Err(TreeError::ReadOnly {
                name: slab.name().to_owned(),
            });
        }
        if !injected(CloseFault::StayClosed) {
            slab.begin_writing()?;
        }
        // Not a plain store: another thread may have recorded a failure in the meantime.
        let _ = self
            .state
            .compare_exchange(AT_REST, READY, Ordering::AcqRel, Ordering::Relaxed);
        Ok(())
    }

    /// Records an error of the medium and returns the result.
    #[inline]
    pub(crate) fn keep(&self, result: Result<(), MediaError>) -> Result<(), TreeError> {
        result.map_err(|error| self.failed(error))
    }

    /// Records an error of the medium.
    #[cold]
    fn failed(&self, error: MediaError) -> TreeError {
        self.first.get_or_init(|| error.to_string());
        self.state.store(FAILED, Ordering::Release);
        error.into()
    }

    /// Allocates a node, for which the pool may have to grow.
    ///
    /// # Errors
    /// As [`Slab::alloc`]; a failure of the medium is kept.
    pub(crate) fn alloc(&self, slab: &Slab) -> Result<u64, TreeError> {
        self.keep_failure(slab.alloc())
    }

    /// Allocates a node if the pool need not grow.
    ///
    /// # Errors
    /// As [`Slab::alloc_present`]; a failure of the medium is kept.
    pub(crate) fn alloc_present(&self, slab: &Slab) -> Result<Option<u64>, TreeError> {
        self.keep_failure(slab.alloc_present())
    }

    /// Records a failure of the medium and returns the result.
    fn keep_failure<T>(&self, result: Result<T, PoolError>) -> Result<T, TreeError> {
        match result {
            Err(PoolError::Media(error @ (MediaError::Io { .. } | MediaError::Poisoned { .. }))) => {
                Err(self.failed(error))
            }
            other => Ok(other?),
        }
    }

    /// Returns true after a failure of the medium.
    pub(crate) fn has_failed(&self) -> bool {
        self.first.get().is_some()
    }
}
