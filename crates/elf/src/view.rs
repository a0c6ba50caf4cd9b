//! Reads from index bytes that may be damaged.
//!
//! Invariant: every read is checked against the slice here, in this file, so that no other file needs a
//! contract about offsets. A read beyond the end returns zeros. Sound indexes end in [`PAD`] zero bytes, so
//! that the wide loads below never pass the end there and the check is one predicted branch.
//!
//! If the bytes carry block checksums, each block is verified before it is read. Until all blocks are
//! verified no offset counts as padded, so that every read takes the path that checks its block; after that
//! verification costs nothing. Damaged blocks are read too, within the slice: every search checks the bytes
//! for damage before it returns a result.
//!
//! Some of the bytes may be copies in DRAM: an [`Image`] takes the place of all offsets from its first one
//! on. Reads of copies are not reported to the medium.
#![allow(
    unsafe_code,
    reason = "unaligned loads checked once for a whole value or vector"
)]

use halocline_cache::AgedCounts;
use halocline_media::{Bytes, HugeVec, VERIFIED_BLOCK};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Zero bytes that follow the last list, so that wide loads may pass its end.
pub(crate) const PAD: usize = 64;

/// Copies of index bytes in DRAM, which stand for the offsets from `from` on.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) from: usize,
    /// They end in [`PAD`] zeros.
    pub(crate) bytes: Arc<HugeVec<u8>>,
}

/// Returns the counter of the list at an offset of the index.
#[inline]
pub(crate) fn count_of(at: usize, counts: &AgedCounts) -> u32 {
    let spread = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(spread) * counts.len() as u128) >> 64) as u32
}

/// Index bytes being read.
#[derive(Debug)]
pub(crate) struct View<'a, B> {
    bytes: &'a B,
    slow: ViewPart<'a>,
    dram: ViewPart<'a>,
    image: Option<&'a Image>,
    /// First offset of `dram`.
    from: usize,
    /// A bit for each block of `slow` that is verified; empty if none has to be.
    verified: &'a [AtomicU64],
}

/// Bytes of one kind of memory.
#[derive(Debug, Clone, Copy)]
struct ViewPart<'a> {
    slice: &'a [u8],
    /// Offsets below this have [`PAD`] bytes after them: one comparison for most reads.
    padded: usize,
}

impl<'a> ViewPart<'a> {
    #[inline(always)]
    fn new(slice: &'a [u8]) -> Self {
        Self {
            slice,
            padded: slice.len().saturating_sub(PAD - 1),
        }
    }
}

impl<B> Clone for View<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for View<'_, B> {}

#[cold]
#[inline(never)]
fn beyond() -> u64 {
    0
}

impl<'a, B: Bytes> View<'a, B> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a B, image: Option<&'a Image>) -> Self {
        let (from, dram) = image.map_or((usize::MAX, &[][..]), |image| (image.from, &image.bytes[..]));
        let verified = bytes.verified_blocks();
        let mut slow = ViewPart::new(bytes.as_slice());
        if !verified.is_empty() {
            slow.padded = 0;
        }
        Self {
            bytes,
            slow,
            dram: ViewPart::new(dram),
            image,
            from,
            verified,
        }
    }

    /// Verifies the blocks of `len` bytes at `at`, unless they are verified already or in DRAM.
    #[inline(always)]
    fn verify(&self, at: usize, len: usize) {
        if !self.verified.is_empty() && at < self.from {
            self.verify_slow(at, len);
        }
    }

    #[inline(never)]
    fn verify_slow(&self, at: usize, len: usize) {
        let blocks = at / VERIFIED_BLOCK..(at + len).div_ceil(VERIFIED_BLOCK);
        let is_verified = |block: usize| {
            let word = self.verified.get(block / 64);
            word.is_none_or(|word| word.load(Ordering::Acquire) >> (block % 64) & 1 == 1)
        };
        if !blocks.clone().all(is_verified) {
            self.bytes.verify(at, len);
        }
    }

    /// Returns true if damage was found in the bytes.
    pub(crate) fn is_damaged(&self) -> bool {
        self.bytes.damage().is_some()
    }

    /// Returns the part with the byte at `at` and the position in it.
    #[inline(always)]
    fn part(&self, at: usize) -> (ViewPart<'a>, usize) {
        if at < self.from {
            (self.slow, at)
        } else {
            (self.dram, at - self.from)
        }
    }

    /// Announces a read of these bytes: an emulated medium counts and delays here.
    #[inline(always)]
    pub(crate) fn touch(&self, at: usize, len: usize) {
        if at < self.from {
            self.bytes.touch(at, len);
        }
    }

    /// Prefetches the cache line at `at`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        if at < self.from {
            self.bytes.prefetch(at);
        } else if let Some(image) = self.image {
            image.bytes.prefetch(at - self.from);
        }
    }

    /// Returns a pointer to `len` readable bytes at `at`, if they are within the slice.
    #[inline(always)]
    pub(crate) fn pointer(&self, at: usize, len: usize) -> Option<*const u8> {
        let (ViewPart { slice, padded }, offset) = self.part(at);
        if len > PAD || offset >= padded {
            if offset.checked_add(len)? > slice.len() {
                return None;
            }
            self.verify(at, len);
        }
        // SAFETY: `offset + len` was just found to be within the slice (`offset < padded` means `offset + PAD
        // <= slice.len()`, and then `len` is at most PAD), so the pointer stays inside it.
        Some(unsafe { slice.as_ptr().add(offset) })
    }

    #[inline(always)]
    fn load<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        // SAFETY: `pointer` gives N readable bytes; a byte array has alignment 1 and no invalid bit patterns.
        self.pointer(at, N)
            .map(|from| unsafe { from.cast::<[u8; N]>().read() })
    }

    /// Returns the [`PAD`] bytes from `at` on, if they exist: in a sound index they do for every list.
    #[inline(always)]
    pub(crate) fn head(&self, at: usize) -> Option<&'a [u8; PAD]> {
        // SAFETY: `pointer` gives PAD bytes within the slice, which is borrowed for `'a`; a byte array has
        // alignment 1.
        self.pointer(at, PAD).map(|from| unsafe { &*from.cast() })
    }

    /// Returns up to `len` bytes from `at` on where they are stored, not verified; none of those that have a
    /// copy in DRAM.
    pub(crate) fn stored(&self, at: usize, len: usize) -> &'a [u8] {
        let slice = self.slow.slice;
        if at < self.from.min(slice.len()) {
            &slice[at..slice.len().min(at + len)]
        } else {
            &[]
        }
    }

    /// Returns the byte at `at`.
    #[inline(always)]
    pub(crate) fn u8(&self, at: usize) -> u8 {
        match self.load::<1>(at) {
            Some([byte]) => byte,
            None => beyond() as u8,
        }
    }

    /// Returns the little-endian `u32` at `at`.
    #[inline(always)]
    pub(crate) fn u32(&self, at: usize) -> u32 {
        match self.load::<4>(at) {
            Some(bytes) => u32::from_le_bytes(bytes),
            None => beyond() as u32,
        }
    }

    /// Returns the little-endian `u64` at `at`.
    #[inline(always)]
    pub(crate) fn u64(&self, at: usize) -> u64 {
        match self.load::<8>(at) {
            Some(bytes) => u64::from_le_bytes(bytes),
            None => beyond(),
        }
    }

    /// Returns the little-endian `u32` at `at` and the `u64` after it, if they are within the slice.
    #[inline(always)]
    pub(crate) fn u32_u64(&self, at: usize) -> Option<(u32, u64)> {
        let [a, b, c, d, rest @ ..] = self.load::<12>(at)?;
        Some((u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(rest)))
    }

    /// Returns the little-endian unsigned integer of `len` (1..=8) bytes at `at`. Needs eight readable bytes.
    #[inline(always)]
    pub(crate) fn uint(&self, at: usize, len: usize) -> u64 {
        self.u64(at) & (u64::MAX >> ((64 - 8 * len as u32) & 63))
    }

    /// Returns the `len` bytes from `at` on, if they exist.
    #[inline(always)]
    pub(crate) fn slice(&self, at: usize, len: usize) -> Option<&'a [u8]> {
        self.rest(at, len).get(..len)
    }

    /// Returns the bytes from `at` on, of which the caller reads the first `len`.
    #[inline(always)]
    pub(crate) fn rest(&self, at: usize, len: usize) -> &'a [u8] {
        let (part, offset) = self.part(at);
        let rest = part.slice.get(offset..).unwrap_or_default();
        if len > 0 {
            self.verify(at, len.min(rest.len()));
        }
        rest
    }
}
