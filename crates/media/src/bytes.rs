//! Read access to immutable bytes, wherever they are stored.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::{AccessObserver, flush};

/// Bytes per block in [`Bytes::verified_blocks`].
pub const VERIFIED_BLOCK: usize = 4096;

/// A block of bytes that does not match its checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDamage {
    /// The object and the part of it that the bytes belong to.
    pub object: String,
    /// Offset of the block in the bytes.
    pub offset: u64,
    /// Length of the block in bytes.
    pub len: u64,
}

/// Immutable bytes that are cheap to clone: an extent of a pool, a DRAM copy of one, or a slice in a test.
///
/// Indexes read through this trait, so that an emulated medium can count and delay reads. Without an observer
/// [`touch`](Bytes::touch) compiles to nothing.
pub trait Bytes: Clone + Send + Sync + 'static {
    /// Returns all of the bytes, the same slice on each call.
    fn as_slice(&self) -> &[u8];

    /// Reports that `len` bytes from `offset` on are about to be read. Free of cost on a real medium.
    #[inline(always)]
    fn touch(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }

    /// Reports that a few bytes at each offset are about to be read, independently of each other. Free of
    /// cost on a real medium.
    #[inline(always)]
    fn touch_each(&self, offsets: impl Iterator<Item = usize>) {
        let _ = offsets;
    }

    /// Reports that `len` bytes from `offset` on are about to be read sequentially while they are processed.
    /// Free of cost on a real medium.
    #[inline(always)]
    fn scan(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }

    /// Reports that the CPU was asked to fetch `len` bytes from `offset` on, which a [`scan`](Bytes::scan)
    /// will read soon. Free of cost on a real medium.
    #[inline(always)]
    fn scan_ahead(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }

    /// Prefetches the line at `offset`. Does nothing harmful if it is out of range.
    #[inline(always)]
    fn prefetch(&self, offset: usize) {
        prefetch(self.as_slice(), offset);
    }

    /// Returns one bit per block of [`VERIFIED_BLOCK`] bytes, set once the block is known to match its
    /// checksum; bit `i % 64` of word `i / 64` belongs to block `i`. Empty if no block needs verification
    /// before it is read: for bytes in DRAM, and once all blocks are verified.
    #[inline(always)]
    fn verified_blocks(&self) -> &[AtomicU64] {
        &[]
    }

    /// Verifies those blocks that hold `len` bytes from `offset` on and are not verified yet. Reads whole
    /// blocks. Damage is reported by [`damage`](Bytes::damage), so that a search need not stop where it
    /// occurs.
    fn verify(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }

    /// Returns the first damaged block that [`verify`](Bytes::verify) has found since the bytes were opened,
    /// in any thread. A reader that calls `verify` must check this before it uses the result.
    #[inline(always)]
    fn damage(&self) -> Option<BlockDamage> {
        None
    }

    /// Returns the observer that reads are reported to. Its time may differ from wall-clock time.
    #[inline]
    fn observer(&self) -> Option<&dyn AccessObserver> {
        None
    }
}

/// Prefetches the line at `offset` of the bytes. Does nothing harmful if it is out of range.
#[inline(always)]
pub fn prefetch(bytes: &[u8], offset: usize) {
    flush::prefetch(bytes.as_ptr().wrapping_add(offset));
}

/// Prefetches the first line of the value.
#[inline(always)]
pub fn prefetch_value<T>(value: &T) {
    flush::prefetch(std::ptr::from_ref(value).cast());
}

impl Bytes for Arc<[u8]> {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        self
    }
}

impl Bytes for Arc<Vec<u8>> {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        self
    }
}

impl Bytes for &'static [u8] {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        self
    }
}
