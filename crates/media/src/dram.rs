//! Anonymous memory with huge pages advised, used for tests, temporary pools and the fast tier.

use std::sync::Mutex;
use std::sync::atomic::{Ordering, fence};

use crate::region::{Region, round_up};
use crate::{MediaError, MediumAccess, MediumBackend, MediumKind, PAGE, Words, forward_medium};

/// A medium of anonymous memory. A fence only orders stores, because nothing here outlives the process.
#[derive(Debug)]
pub struct Dram {
    region: Region,
    growth: Mutex<()>,
}

impl Dram {
    /// Creates a medium of `len` zeroed bytes, rounded up to [`PAGE`], that can grow as far as memory allows.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn new(len: u64) -> Result<Dram, MediaError> {
        Dram::with_reserve(len, 0)
    }

    /// Creates a medium like [`new`](Dram::new) with `reserve` bytes of address space, its maximum length (0:
    /// about a TiB).
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn with_reserve(len: u64, reserve: u64) -> Result<Dram, MediaError> {
        let dram = Dram {
            region: Region::reserve(reserve, len, true)?,
            growth: Mutex::new(()),
        };
        dram.grow(len)?;
        Ok(dram)
    }
}

impl MediumAccess for Dram {
    forward_medium!(region: len, load, load_u64, slice, prefetch, prefetch_lines, store, store_u64);

    #[inline]
    fn words(&self, offset: u64, words: usize) -> Option<Words<'_>> {
        self.region.words(offset, words).map(Words::new)
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        self.region.check_range(offset, len);
    }

    #[inline]
    fn fence(&self) -> Result<(), MediaError> {
        fence(Ordering::Release);
        Ok(())
    }
}

impl MediumBackend for Dram {
    fn kind(&self) -> MediumKind {
        MediumKind::Dram
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        self.region.check_fits(new_len)?;
        let new_len = round_up(new_len, PAGE);
        let _growing = self
            .growth
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if new_len <= self.len() {
            Ok(())
        } else {
            self.region.extend_anonymous(new_len)
        }
    }

    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        let len = round_up(len, PAGE);
        let _growing = self
            .growth
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if len < self.len() {
            self.region.shrink(len)?;
        }
        Ok(self.len())
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        Ok(self.len())
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.fence()
    }

    fn fence_is_durable(&self) -> bool {
        false
    }
}
