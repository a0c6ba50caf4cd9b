//! Whether a tree may be written: not before its slab says that it is being written, not if it is opened to be read, and not after the first
//! failure of the medium.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use halocline_media::MediaError;
use halocline_pool::{PoolError, Slab};

use crate::TreeError;
use crate::seal::mistake::{Mistake, made};

/// The slab says that it is being written, and the medium has not failed.
const READY: u8 = 0;
/// Nothing has been written since the tree was opened.
const AT_REST: u8 = 1;
/// The medium has failed.
const FAILED: u8 = 2;

/// Remembers the first error; costs a load to ask while there is none.
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
    /// Called before anything is stored to a tree.
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
        if !made(Mistake::StayClosed) {
            slab.begin_writing()?;
        }
        // Another thread may have met a failure meanwhile.
        let _ = self
            .state
            .compare_exchange(AT_REST, READY, Ordering::AcqRel, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps an error and hands the result on.
    #[inline]
    pub(crate) fn keep(&self, result: Result<(), MediaError>) -> Result<(), TreeError> {
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                self.first.get_or_init(|| error.to_string());
                self.state.store(FAILED, Ordering::Release);
                Err(error.into())
            }
        }
    }

    /// Takes a node from the pool, which may have to grow for that.
    ///
    /// # Errors
    /// As [`Slab::alloc`]; a failure of the medium is kept.
    pub(crate) fn alloc(&self, slab: &Slab) -> Result<u64, TreeError> {
        match slab.alloc() {
            Err(PoolError::Media(error @ (MediaError::Io { .. } | MediaError::Poisoned { .. }))) => {
                self.keep(Err(error)).map(|()| 0)
            }
            other => Ok(other?),
        }
    }

    /// Returns true after a failure.
    pub(crate) fn has_failed(&self) -> bool {
        self.first.get().is_some()
    }
}
