//! Reads from index bytes that may be damaged.
//!
//! Invariant: every read is checked against the slice here, in this file, so that no other file needs a contract about
//! offsets. A read beyond the end gives zeros. Sound indexes end in [`PAD`] zero bytes, so that the wide loads below
//! never pass the end there and the check is one predicted branch.
#![allow(
    unsafe_code,
    reason = "unaligned loads checked once for a whole value or vector"
)]

use halocline_media::Bytes;

/// Zero bytes that follow the last list, so that wide loads may pass its end.
pub(crate) const PAD: usize = 64;

/// Index bytes being read.
#[derive(Debug)]
pub(crate) struct View<'a, B> {
    bytes: &'a B,
    slice: &'a [u8],
    /// Offsets below this have [`PAD`] bytes behind them: one comparison for most reads.
    padded: usize,
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
    pub(crate) fn new(bytes: &'a B) -> Self {
        let slice = bytes.as_slice();
        Self {
            bytes,
            slice,
            padded: slice.len().saturating_sub(PAD - 1),
        }
    }

    /// Says that these bytes are about to be read (an emulated medium counts and delays here).
    #[inline(always)]
    pub(crate) fn touch(&self, at: usize, len: usize) {
        self.bytes.touch(at, len);
    }

    /// Fetches the line at `at`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        self.bytes.prefetch(at);
    }

    /// Pointer to `len` readable bytes at `at`, if they are within the slice.
    #[inline(always)]
    pub(crate) fn pointer(&self, at: usize, len: usize) -> Option<*const u8> {
        let short = len <= PAD && at < self.padded;
        if short || at.checked_add(len)? <= self.slice.len() {
            // SAFETY: `at + len` was just found to be within the slice (`at < padded` means `at + PAD <= slice.len()`, and
            // `short` that `len` is at most PAD), so the pointer stays inside it.
            Some(unsafe { self.slice.as_ptr().add(at) })
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
        match self.slice.get(at) {
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

    /// The index bytes.
    #[inline(always)]
    pub(crate) fn slice(&self) -> &'a [u8] {
        self.slice
    }
}
