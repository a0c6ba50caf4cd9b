//! An array in DRAM that grows without moving: [`HugeArena`].
//!
//! It serves structures that many threads read by index while others append, such as the inner nodes of a
//! tree. Its memory is zeroed, starts at a huge page, and is freed only as a whole.
#![allow(unsafe_code, reason = "lends values in a mapping of its own")]

use std::fmt;
use std::marker::PhantomData;
use std::mem::{align_of, needs_drop, size_of};
use std::sync::{Mutex, PoisonError};

use zerocopy::FromZeros;

use crate::region::{HUGE_PAGE, Region, round_up};
use crate::{MediaError, PAGE};

/// Size up to which an arena uses small pages, in bytes.
const MAX_SMALL_PAGE_BYTES: u64 = 64 << 10;

/// An array of values that start as zero bytes and never move while the arena lives. It gives out shared
/// references only, so the values must synchronise their own changes.
pub struct HugeArena<T> {
    region: Region,
    growth: Mutex<()>,
    values: PhantomData<T>,
}

impl<T: FromZeros + Sync> HugeArena<T> {
    /// Creates an arena of at least `len` values, with address space for `most`.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn new(len: usize, most: usize) -> Result<HugeArena<T>, MediaError> {
        const {
            assert!(size_of::<T>() > 0 && align_of::<T>() <= PAGE as usize);
            assert!(!needs_drop::<T>());
        };
        let arena = HugeArena {
            region: Region::reserve(bytes::<T>(most.max(len)), PAGE, true)?,
            growth: Mutex::new(()),
            values: PhantomData,
        };
        arena.grow(len)?;
        Ok(arena)
    }

    /// Returns the number of usable values.
    #[inline]
    pub fn len(&self) -> usize {
        self.region.len() as usize / size_of::<T>()
    }

    /// Returns true if the arena has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes at least `len` values usable. Memory is allocated when a value is touched.
    ///
    /// # Errors
    /// [`MediaError::AddressSpace`] or [`MediaError::OutOfMemory`]; the arena is unchanged.
    pub fn grow(&self, len: usize) -> Result<(), MediaError> {
        let wanted = bytes::<T>(len);
        self.region.check_fits(wanted)?;
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted <= self.region.len() {
            return Ok(());
        }
        // A huge page would waste memory in a small arena.
        let generous = round_up(
            wanted,
            if wanted <= MAX_SMALL_PAGE_BYTES {
                MAX_SMALL_PAGE_BYTES
            } else {
                HUGE_PAGE
            },
        );
        match self.region.check_fits(generous) {
            Ok(()) => self.region.extend_anonymous(generous),
            Err(_) => self.region.extend_anonymous(round_up(wanted, PAGE)),
        }
    }

    /// Returns the value at `index`, or `None` if it is out of range.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        let end = (index as u64)
            .checked_add(1)?
            .checked_mul(size_of::<T>() as u64)?;
        if end > self.region.len() {
            return None;
        }
        // SAFETY: the value lies in the mapped part of the region (checked above).
        let value = unsafe { self.region.start().cast::<T>().add(index) };
        // SAFETY: the region starts at a huge page, so the value is aligned; its bytes were zeroed by the
        // system, which `T: FromZeros` allows, and are only reached by shared references, which `T:
        // Sync` allows; the mapping does not move while `self` lives.
        Some(unsafe { value.as_ref() })
    }

    /// Prefetches the lines of the first `bytes` bytes of the value at `index`. Does nothing if `index` is
    /// out of range.
    #[inline(always)]
    pub fn prefetch(&self, index: usize, bytes: usize) {
        let start = self
            .region
            .start()
            .as_ptr()
            .wrapping_add(index.wrapping_mul(size_of::<T>()));
        for line in 0..bytes.div_ceil(64) {
            crate::flush::prefetch(start.wrapping_add(line * 64));
        }
    }
}

fn bytes<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}

// SAFETY: the arena owns its memory; sharing it shares `&T`, and nothing is dropped or moved out of it.
unsafe impl<T: Send + Sync> Send for HugeArena<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for HugeArena<T> {}

impl<T: FromZeros + Sync> fmt::Debug for HugeArena<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HugeArena")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn values_stay_while_it_grows() {
        let arena: HugeArena<AtomicU64> = HugeArena::new(3, 1 << 24).unwrap();
        assert!(arena.len() >= 3);
        let first = arena.get(0).unwrap();
        first.store(7, Ordering::Relaxed);
        let before = arena.len();
        assert!(arena.get(before).is_none() && arena.get(usize::MAX).is_none());
        arena.prefetch(usize::MAX, 8);
        arena.grow(before + 1).unwrap();
        assert!(arena.len() > before);
        arena.get(before).unwrap().store(9, Ordering::Relaxed);
        assert_eq!(first.load(Ordering::Relaxed), 7);
        assert_eq!(arena.get(1).unwrap().load(Ordering::Relaxed), 0);
        assert!(std::ptr::eq(first, arena.get(0).unwrap()));
    }

    #[test]
    fn it_does_not_outgrow_its_addresses() {
        let arena: HugeArena<AtomicU64> = HugeArena::new(0, 1024).unwrap();
        assert!(matches!(arena.grow(1025), Err(MediaError::AddressSpace { .. })));
        arena.grow(1024).unwrap();
        assert!(arena.get(1023).is_some());
    }
}
