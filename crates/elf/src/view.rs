//! Reads from index bytes that may be damaged.
//!
//! Invariant: every read is checked against the slice here, in this file, so that no other file needs a contract about
//! offsets. A read beyond the end gives zeros. Sound indexes end in [`PAD`] zero bytes, so that the wide loads below
//! never pass the end there and the check is one predicted branch.
//!
//! Some of the bytes may be copies in DRAM: an [`Image`] takes the place of all offsets from its first one on. What is
//! read there is not told to the medium.
#![allow(
    unsafe_code,
    reason = "unaligned loads checked once for a whole value or vector"
)]

use halocline_cache::AgedCounts;
use halocline_media::{Bytes, HugeVec};
use std::sync::Arc;

/// Zero bytes that follow the last list, so that wide loads may pass its end.
pub(crate) const PAD: usize = 64;

/// Copies of index bytes in DRAM, which stand for the offsets from `from` on.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) from: usize,
    /// They end in [`PAD`] zeros.
    pub(crate) bytes: Arc<HugeVec<u8>>,
}

/// The count of the list at an offset of the index.
#[inline]
pub(crate) fn count_of(at: usize, counts: &AgedCounts) -> u32 {
    let spread = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(spread) * counts.len() as u128) >> 64) as u32
}

/// Index bytes being read.
#[derive(Debug)]
pub(crate) struct View<'a, B> {
    bytes: &'a B,
    slow: Part<'a>,
    dram: Part<'a>,
    image: Option<&'a Image>,
    /// First offset of `dram`.
    from: usize,
}

/// Bytes of one kind of memory.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    slice: &'a [u8],
    /// Offsets below this have [`PAD`] bytes behind them: one comparison for most reads.
    padded: usize,
}

impl<'a> Part<'a> {
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
        Self {
            bytes,
            slow: Part::new(bytes.as_slice()),
            dram: Part::new(dram),
            image,
            from,
        }
    }

    /// The part that has the byte at `at`, and where in it that is.
    #[inline(always)]
    fn part(&self, at: usize) -> (Part<'a>, usize) {
        if at < self.from {
            (self.slow, at)
        } else {
            (self.dram, at - self.from)
        }
    }

    /// Says that these bytes are about to be read (an emulated medium counts and delays here).
    #[inline(always)]
    pub(crate) fn touch(&self, at: usize, len: usize) {
        if at < self.from {
            self.bytes.touch(at, len);
        }
    }

    /// Fetches the line at `at`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        if at < self.from {
            self.bytes.prefetch(at);
        } else if let Some(image) = self.image {
            image.bytes.prefetch(at - self.from);
        }
    }

    /// Pointer to `len` readable bytes at `at`, if they are within the slice.
    #[inline(always)]
    pub(crate) fn pointer(&self, at: usize, len: usize) -> Option<*const u8> {
        let (Part { slice, padded }, at) = self.part(at);
        let short = len <= PAD && at < padded;
        if short || at.checked_add(len)? <= slice.len() {
            // SAFETY: `at + len` was just found to be within the slice (`at < padded` means `at + PAD <= slice.len()`, and
            // `short` that `len` is at most PAD), so the pointer stays inside it.
            Some(unsafe { slice.as_ptr().add(at) })
        } else {
            None
        }
    }

    #[inline(always)]
    fn load<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        // SAFETY: `pointer` gives N readable bytes; a byte array has alignment 1 and no invalid bit patterns.
        self.pointer(at, N)
            .map(|from| unsafe { from.cast::<[u8; N]>().read() })
    }

    /// The [`PAD`] bytes from `at` on, if there are so many: a sound index has them behind the start of each list.
    #[inline(always)]
    pub(crate) fn head(&self, at: usize) -> Option<&'a [u8; PAD]> {
        // SAFETY: `pointer` gives PAD bytes within the slice, which is borrowed for `'a`; a byte array has alignment 1.
        self.pointer(at, PAD).map(|from| unsafe { &*from.cast() })
    }

    /// Byte at `at`.
    #[inline(always)]
    pub(crate) fn u8(&self, at: usize) -> u8 {
        let (part, at) = self.part(at);
        match part.slice.get(at) {
            Some(&byte) => byte,
            None => beyond() as u8,
        }
    }

    /// Little-endian u32 at `at`.
    #[inline(always)]
    pub(crate) fn u32(&self, at: usize) -> u32 {
        match self.load::<4>(at) {
            Some(bytes) => u32::from_le_bytes(bytes),
            None => beyond() as u32,
        }
    }

    /// Little-endian u64 at `at`.
    #[inline(always)]
    pub(crate) fn u64(&self, at: usize) -> u64 {
        match self.load::<8>(at) {
            Some(bytes) => u64::from_le_bytes(bytes),
            None => beyond(),
        }
    }

    /// Little-endian u32 at `at` and u64 behind it, if they are within the slice.
    #[inline(always)]
    pub(crate) fn u32_u64(&self, at: usize) -> Option<(u32, u64)> {
        let [a, b, c, d, rest @ ..] = self.load::<12>(at)?;
        Some((u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(rest)))
    }

    /// Little-endian unsigned number of `len` (1..=8) bytes at `at`; needs eight readable bytes.
    #[inline(always)]
    pub(crate) fn uint(&self, at: usize, len: usize) -> u64 {
        self.u64(at) & (u64::MAX >> ((64 - 8 * len as u32) & 63))
    }

    /// The bytes from `at` on.
    #[inline(always)]
    pub(crate) fn rest(&self, at: usize) -> &'a [u8] {
        let (part, at) = self.part(at);
        part.slice.get(at..).unwrap_or_default()
    }
}
