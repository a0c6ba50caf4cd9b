//! Verification of extents on first read: [`VerificationState`] for all extents, [`ExtentVerification`] for
//! one.
//!
//! A block is compared with its checksum the first time any part of it is read while the pool is open. The
//! bit that records this is shared by all readers and outlives the generation, because an extent never
//! changes. The state is volatile.
//!
//! Reading an unverified block costs that block, and once a page of 4 KiB with the checksums of 2 MiB. When
//! no unverified block of an extent is left, readers skip the test. A [`VerifiedReads`], which each
//! transaction holds, keeps verification on for code that stores what it reads, even if the mode is off.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::layout::{BLOCK, SUMMED_FROM, SUMS_PER_PAGE, checksum};
use crate::object::ExtentRef;
use crate::sums::BlockSums;

/// Bytes of an extent per bit that its owner may set.
const BYTES_PER_NOTE: u64 = 64;

/// The time at which extents are compared with their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyMode {
    /// On the first read after the pool was opened.
    #[default]
    Lazy,
    /// Never, except for reads whose result is stored.
    Off,
    /// On the first read after [`Pool::forget_verified`](crate::Pool::forget_verified), which a query calls
    /// at its start.
    Always,
}

/// Number of extents up to which unused entries are kept without a check.
const MAX_UNCHECKED_EXTENTS: usize = 64;

/// Verification state of all extents that were read through a handle.
#[derive(Debug, Default)]
pub(crate) struct VerificationState {
    off: AtomicBool,
    always: AtomicBool,
    /// Number of users that need verified bytes even if the mode is off.
    copying: AtomicUsize,
    states: Mutex<VerifiedExtents>,
}

#[derive(Debug, Default)]
struct VerifiedExtents {
    by_extent: HashMap<ExtentRef, Arc<ExtentVerification>>,
    /// Number of entries at which unused ones are removed.
    room: usize,
}

impl VerificationState {
    pub(crate) fn set_mode(&self, mode: VerifyMode) {
        self.off.store(mode == VerifyMode::Off, Ordering::Relaxed);
        self.always.store(mode == VerifyMode::Always, Ordering::Relaxed);
    }

    pub(crate) fn mode(&self) -> VerifyMode {
        match (
            self.off.load(Ordering::Relaxed),
            self.always.load(Ordering::Relaxed),
        ) {
            (true, _) => VerifyMode::Off,
            (false, true) => VerifyMode::Always,
            (false, false) => VerifyMode::Lazy,
        }
    }

    /// Returns true if reads must be verified at this moment.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.off.load(Ordering::Relaxed) || self.copying.load(Ordering::Relaxed) > 0
    }

    /// Returns the verification state of an extent.
    pub(crate) fn state(self: &Arc<VerificationState>, extent: &ExtentRef) -> Arc<ExtentVerification> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.by_extent.len() >= states.room.max(MAX_UNCHECKED_EXTENTS) {
            // Entries that only this map holds belong to no object that is open or was opened in the newest
            // generation.
            states.by_extent.retain(|_, state| Arc::strong_count(state) > 1);
            states.room = states.by_extent.len() * 2;
        }
        let new = || Arc::new(ExtentVerification::new(*extent, Arc::clone(self)));
        Arc::clone(states.by_extent.entry(*extent).or_insert_with(new))
    }

    /// Discards the state of an earlier extent with the same reference, because its space was rewritten.
    pub(crate) fn written(&self, extent: &ExtentRef) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.by_extent.remove(extent);
    }

    /// Discards all results, so that everything is verified again.
    pub(crate) fn forget(&self) {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.by_extent.values().for_each(|state| state.forget());
    }
}

/// Keeps verification on while it lives, whatever the mode. For code that stores data derived from what it
/// reads.
#[derive(Debug)]
pub struct VerifiedReads(Arc<VerificationState>);

impl VerifiedReads {
    pub(crate) fn new(verification: &Arc<VerificationState>) -> VerifiedReads {
        verification.copying.fetch_add(1, Ordering::SeqCst);
        VerifiedReads(Arc::clone(verification))
    }
}

impl Drop for VerifiedReads {
    fn drop(&mut self) {
        self.0.copying.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The verification state of one extent.
#[derive(Debug)]
pub(crate) struct ExtentVerification {
    extent: ExtentRef,
    verification: Arc<VerificationState>,
    /// Name of the object that was first opened with it, for messages.
    name: OnceLock<String>,
    /// One bit per verified block, allocated on first use.
    blocks: OnceLock<Box<[AtomicU64]>>,
    /// One bit per verified page of block checksums.
    pages: OnceLock<Box<[AtomicU64]>>,
    /// Number of unverified blocks.
    left: AtomicU64,
    /// The first block that was found damaged, plus 1; 0 if there is none.
    damaged: AtomicU64,
    /// Set when the whole extent did not match its checksum, so that later reads do not hash it again.
    whole_damaged: AtomicBool,
    /// Bits for use by the extent's owner.
    notes: OnceLock<Box<[AtomicU64]>>,
}

fn bits(count: u64) -> Box<[AtomicU64]> {
    (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
}

fn is_set(bits: &[AtomicU64], number: u64) -> bool {
    let word = bits[(number / 64) as usize].load(Ordering::Acquire);
    word >> (number % 64) & 1 == 1
}

/// Sets a bit; returns true if it was not set before.
fn set(bits: &[AtomicU64], number: u64) -> bool {
    let bit = 1 << (number % 64);
    bits[(number / 64) as usize].fetch_or(bit, Ordering::AcqRel) & bit == 0
}

impl ExtentVerification {
    fn new(extent: ExtentRef, verification: Arc<VerificationState>) -> ExtentVerification {
        ExtentVerification {
            extent,
            verification,
            name: OnceLock::new(),
            blocks: OnceLock::new(),
            pages: OnceLock::new(),
            left: AtomicU64::new(extent.len.div_ceil(BLOCK)),
            damaged: AtomicU64::new(0),
            whole_damaged: AtomicBool::new(false),
            notes: OnceLock::new(),
        }
    }

    pub(crate) fn set_name(&self, name: impl FnOnce() -> String) {
        self.name.get_or_init(name);
    }

    pub(crate) fn name(&self) -> String {
        let unnamed = || format!("the extent at {}", self.extent.offset);
        self.name.get().cloned().unwrap_or_else(unnamed)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.verification.is_on()
    }

    /// Returns true if parts of it can be verified because it is short or has block checksums.
    fn has_sums(&self) -> bool {
        self.extent.sums || self.extent.len <= SUMMED_FROM
    }

    fn blocks(&self) -> &[AtomicU64] {
        self.blocks.get_or_init(|| bits(self.extent.len.div_ceil(BLOCK)))
    }

    /// Implements [`Bytes::verified_blocks`](halocline_media::Bytes::verified_blocks).
    #[inline]
    pub(crate) fn verified_blocks(&self) -> &[AtomicU64] {
        if self.left.load(Ordering::Acquire) == 0 || !self.has_sums() || !self.is_on() {
            return &[];
        }
        self.blocks()
    }

    /// Returns one bit per 64 bytes in which the extent's owner can record its own verification.
    pub(crate) fn notes(&self) -> &[AtomicU64] {
        self.notes
            .get_or_init(|| bits(self.extent.len.div_ceil(BYTES_PER_NOTE)))
    }

    /// Returns the first block reported to [`note_damage`](ExtentVerification::note_damage).
    #[inline]
    pub(crate) fn damaged(&self) -> Option<u64> {
        self.damaged.load(Ordering::Acquire).checked_sub(1)
    }

    pub(crate) fn note_damage(&self, block: u64) {
        let first = self
            .damaged
            .compare_exchange(0, block + 1, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            tracing::warn!(extent = %self.name(), block, "a block does not match its checksum");
        }
    }

    /// Verifies blocks that are not verified yet, or all if `again` is true. `space` is all bytes that the
    /// extent occupies; `read` is called with each range before it is read.
    ///
    /// # Errors
    /// The number of the first damaged block.
    pub(crate) fn verify(
        &self,
        space: &[u8],
        range: std::ops::Range<u64>,
        again: bool,
        mut read: impl FnMut(u64, u64),
    ) -> Result<(), u64> {
        let end = range.end.min(self.extent.len);
        if range.start >= end || !self.has_sums() {
            return Ok(());
        }
        let verified = self.blocks();
        for block in range.start / BLOCK..end.div_ceil(BLOCK) {
            if is_set(verified, block) && !again {
                continue;
            }
            if !self.extent.sums {
                return self.verify_whole(space, again, read).map_err(|()| block);
            }
            let sums = BlockSums::new(space, self.extent.len, self.extent.checksum);
            let page = block / SUMS_PER_PAGE;
            let pages = self.pages.get_or_init(|| bits(sums.pages()));
            if !is_set(pages, page) || again {
                read(sums.page_start(self.extent.len, page), BLOCK);
                if !sums.is_sound(page) {
                    // The data may still be intact, which the extent's own checksum decides.
                    return self.verify_whole(space, again, read).map_err(|()| block);
                }
                set(pages, page);
            }
            let start = block * BLOCK;
            let len = BLOCK.min(self.extent.len - start);
            read(start, len);
            let bytes = &space[start as usize..(start + len) as usize];
            if sums.sum(block) != Some(xxh3_64(bytes)) {
                return Err(block);
            }
            if set(verified, block) {
                self.left.fetch_sub(1, Ordering::AcqRel);
            }
        }
        Ok(())
    }

    /// Compares the whole extent with its checksum, unless it is known not to match and `again` is false.
    fn verify_whole(&self, space: &[u8], again: bool, mut read: impl FnMut(u64, u64)) -> Result<(), ()> {
        if self.whole_damaged.load(Ordering::Acquire) && !again {
            return Err(());
        }
        read(0, self.extent.len);
        if checksum(&space[..self.extent.len as usize]) != self.extent.checksum {
            self.whole_damaged.store(true, Ordering::Release);
            return Err(());
        }
        let verified = self.blocks();
        for block in 0..self.extent.len.div_ceil(BLOCK) {
            if set(verified, block) {
                self.left.fetch_sub(1, Ordering::AcqRel);
            }
        }
        Ok(())
    }

    /// Verifies the whole extent, by its own checksum if it has no others.
    ///
    /// # Errors
    /// The number of a damaged block, or 0 if only the whole is known to be damaged.
    pub(crate) fn verify_all(&self, space: &[u8], read: impl FnMut(u64, u64)) -> Result<(), u64> {
        if self.left.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        if self.extent.sums {
            self.verify(space, 0..self.extent.len, false, read)
        } else {
            self.verify_whole(space, false, read).map_err(|()| 0)
        }
    }

    fn forget(&self) {
        if let Some(blocks) = self.blocks.get() {
            for word in blocks {
                let verified = word.swap(0, Ordering::AcqRel).count_ones();
                self.left.fetch_add(verified.into(), Ordering::AcqRel);
            }
        }
        for bits in [self.pages.get(), self.notes.get()].into_iter().flatten() {
            bits.iter().for_each(|word| word.store(0, Ordering::Release));
        }
        self.damaged.store(0, Ordering::Release);
        self.whole_damaged.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::{BlockSummer, encode};

    #[test]
    fn a_read_costs_its_blocks_and_one_page_once() {
        let mut space = vec![7; 600 * BLOCK as usize];
        let mut summer = BlockSummer::default();
        summer.update(&space);
        let len = space.len() as u64;
        let extent = ExtentRef {
            sums: true,
            ..ExtentRef::plain(0, len, checksum(&space))
        };
        space.extend(encode(&summer.finish(), extent.checksum));
        let state = Arc::<VerificationState>::default().state(&extent);
        let cost = |range| {
            let mut bytes = 0;
            let verified = state.verify(&space, range, false, |_, len| bytes += len);
            verified.unwrap();
            bytes / BLOCK
        };
        assert_eq!(cost(5 * BLOCK + 7..5 * BLOCK + 8), 2);
        assert_eq!(cost(5 * BLOCK..6 * BLOCK), 0);
        assert_eq!(cost(5 * BLOCK + 4000..6 * BLOCK + 100), 1);
        assert_eq!(cost(599 * BLOCK..len), 2);
        assert_eq!(cost(0..len), 600 - 3);
        assert!(state.verified_blocks().is_empty());
        state.forget();
        assert_eq!(cost(0..len), 602);
    }

    #[test]
    fn a_damaged_extent_without_block_checksums_is_hashed_once() {
        let space = vec![7; 3 * BLOCK as usize];
        let len = space.len() as u64;
        let extent = ExtentRef::plain(0, len, !checksum(&space));
        let state = Arc::<VerificationState>::default().state(&extent);
        let cost = |again| {
            let mut bytes = 0;
            let verified = state.verify(&space, BLOCK..BLOCK + 1, again, |_, len| bytes += len);
            assert_eq!(verified, Err(1));
            bytes / BLOCK
        };
        assert_eq!([cost(false), cost(false), cost(true)], [3, 0, 3]);
        state.forget();
        assert_eq!(cost(false), 3);
    }
}
