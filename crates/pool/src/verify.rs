//! What is known of the extents of a pool since it was opened: [`VerificationState`], and of one extent [`ExtentVerification`].
//!
//! A block is read and compared with its checksum the first time anything of it is needed, and not again while the pool is open:
//! the bit that says so is shared by all readers and outlives the generation, as an extent never changes. Volatile: nothing
//! here is stored.
//!
//! Reading an unverified block costs that block, and a page of 4 KiB with the checksums of 2 MiB, once. When
//! no block of an extent is left, readers skip the test. A [`VerifiedReads`], which each transaction holds,
//! keeps verification on for whoever stores what it reads, even if the mode is off.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::directory::ExtentRef;
use crate::layout::{BLOCK, SUMMED_FROM, SUMS_PER_PAGE, checksum};
use crate::sums::BlockSums;

/// Bytes of an extent for each of the bits that its owner may set.
const NOTED: u64 = 64;

/// When the bytes of extents are compared with their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyMode {
    /// When they are first read after the pool was opened.
    #[default]
    Lazy,
    /// Not when they are read, unless something is made of them that is stored.
    Off,
    /// When they are first read after [`Pool::forget_verified`](crate::Pool::forget_verified), which a query calls when it begins.
    Always,
}

/// Longest list of states that is kept without a look at which of them are of use.
const FEW: usize = 64;

/// What a handle knows of all extents that were read through it.
#[derive(Debug, Default)]
pub(crate) struct VerificationState {
    off: AtomicBool,
    always: AtomicBool,
    /// Those who need verified bytes even if the mode is off.
    copying: AtomicUsize,
    states: Mutex<VerifiedExtents>,
}

#[derive(Debug, Default)]
struct VerifiedExtents {
    by_extent: HashMap<ExtentRef, Arc<ExtentVerification>>,
    /// Entries from which on unused ones are looked for.
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

    /// Whether a read is to be verified at this moment.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.off.load(Ordering::Relaxed) || self.copying.load(Ordering::Relaxed) > 0
    }

    /// What is known of an extent.
    pub(crate) fn state(self: &Arc<VerificationState>, extent: &ExtentRef) -> Arc<ExtentVerification> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.by_extent.len() >= states.room.max(FEW) {
            // Those that only this map holds belong to no object that is open or was opened in the newest generation.
            states.by_extent.retain(|_, state| Arc::strong_count(state) > 1);
            states.room = states.by_extent.len() * 2;
        }
        let new = || Arc::new(ExtentVerification::new(*extent, Arc::clone(self)));
        Arc::clone(states.by_extent.entry(*extent).or_insert_with(new))
    }

    /// Takes note that an extent was written: what was known of bytes like its own at its place, which are gone, means nothing.
    pub(crate) fn written(&self, extent: &ExtentRef) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.by_extent.remove(extent);
    }

    /// Forgets what was found to be intact, so that it is verified again.
    pub(crate) fn forget(&self) {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.by_extent.values().for_each(|state| state.forget());
    }
}

/// Has everything verified that is read while this lives, whatever the mode: for whoever stores what it makes of it.
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

/// What is known of one extent.
#[derive(Debug)]
pub(crate) struct ExtentVerification {
    extent: ExtentRef,
    verification: Arc<VerificationState>,
    /// The object that was first opened with it, for messages.
    name: OnceLock<String>,
    /// One bit for each block that is verified. Made by the first who needs it.
    blocks: OnceLock<Box<[AtomicU64]>>,
    /// One bit for each page of sums that is verified.
    pages: OnceLock<Box<[AtomicU64]>>,
    /// Blocks that are not verified.
    left: AtomicU64,
    /// The first block that a read found damaged, plus 1; 0 while there is none.
    damaged: AtomicU64,
    /// Bits that belong to the extent's owner.
    notes: OnceLock<Box<[AtomicU64]>>,
}

fn bits(count: u64) -> Box<[AtomicU64]> {
    (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
}

fn is_set(bits: &[AtomicU64], number: u64) -> bool {
    let word = bits[(number / 64) as usize].load(Ordering::Acquire);
    word >> (number % 64) & 1 == 1
}

/// Sets a bit; returns whether it was not set before.
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

    /// Whether parts of it can be verified: it is short, or has sums of its blocks.
    fn has_sums(&self) -> bool {
        self.extent.sums || self.extent.len <= SUMMED_FROM
    }

    fn blocks(&self) -> &[AtomicU64] {
        self.blocks.get_or_init(|| bits(self.extent.len.div_ceil(BLOCK)))
    }

    /// As [`Bytes::verified_blocks`](halocline_media::Bytes::verified_blocks).
    #[inline]
    pub(crate) fn verified_blocks(&self) -> &[AtomicU64] {
        if self.left.load(Ordering::Acquire) == 0 || !self.has_sums() || !self.is_on() {
            return &[];
        }
        self.blocks()
    }

    /// Bits that the extent's owner may use to note what of it, in pieces of 64 bytes, it has verified itself.
    pub(crate) fn notes(&self) -> &[AtomicU64] {
        self.notes.get_or_init(|| bits(self.extent.len.div_ceil(NOTED)))
    }

    /// The first block that [`note_damage`](ExtentVerification::note_damage) was told of.
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

    /// Verifies blocks that are not verified yet, or all if `again`. `space` is all bytes that the extent takes; `read` is
    /// told of ranges of it before they are read.
    ///
    /// # Errors
    /// The number of the first block that is damaged.
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
                return self.verify_whole(space, read).map_err(|()| block);
            }
            let sums = BlockSums::of(space, self.extent.len, self.extent.checksum);
            let page = block / SUMS_PER_PAGE;
            let pages = self.pages.get_or_init(|| bits(sums.pages()));
            if !is_set(pages, page) || again {
                read(sums.page_start(self.extent.len, page), BLOCK);
                if !sums.is_sound(page) {
                    // The data may still be intact: the extent's own checksum tells.
                    return self.verify_whole(space, read).map_err(|()| block);
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

    /// Compares the whole extent with its checksum.
    fn verify_whole(&self, space: &[u8], mut read: impl FnMut(u64, u64)) -> Result<(), ()> {
        read(0, self.extent.len);
        if checksum(&space[..self.extent.len as usize]) != self.extent.checksum {
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

    /// Verifies all of it, by its own checksum if it has no others.
    ///
    /// # Errors
    /// The number of a block that is damaged; 0 if only the whole is known to be.
    pub(crate) fn verify_all(&self, space: &[u8], read: impl FnMut(u64, u64)) -> Result<(), u64> {
        if self.left.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        match self.extent.sums {
            true => self.verify(space, 0..self.extent.len, false, read),
            false => self.verify_whole(space, read).map_err(|()| 0),
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
}
