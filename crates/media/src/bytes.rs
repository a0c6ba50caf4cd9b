//! Read access to immutable bytes, wherever they live.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::{AccessObserver, flush};

/// Bytes of a block in [`Bytes::verified_blocks`].
pub const VERIFIED_BLOCK: usize = 4096;

/// A block of bytes that does not match its checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDamage {
    /// The object that the bytes belong to, and which part of it they are.
    pub object: String,
    /// Offset of the block in the bytes.
    pub offset: u64,
    /// Length of the block in bytes.
    pub len: u64,
}

/// Immutable bytes that are cheap to clone: an extent of a pool, a DRAM copy of one, a slice of a test.
///
/// An index reads through this trait, so that an emulated medium can count and delay what is read; on a real
/// medium [`touch`](Bytes::touch) compiles to nothing.
pub trait Bytes: Clone + Send + Sync + 'static {
    /// All of the bytes; the same slice at each call.
    fn as_slice(&self) -> &[u8];

    /// Says that `len` bytes from `offset` on are about to be read. Costs nothing on a real medium.
    #[inline(always)]
    fn touch(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }

    /// Says that a few bytes at each offset are about to be read, which wait for each other no more than for one of them. Costs
    /// nothing on a real medium.
    #[inline(always)]
    fn touch_each(&self, offsets: impl Iterator<Item = usize>) {
        let _ = offsets;
    }

    /// Says that `len` bytes from `offset` on are about to be read from front to back while work is done on them. Costs
    /// nothing on a real medium.
    #[inline(always)]
    fn scan(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }

    /// Says that the CPU was asked to fetch `len` bytes from `offset` on, which a [`scan`](Bytes::scan) is to read soon. Costs
    /// nothing on a real medium.
    #[inline(always)]
    fn scan_ahead(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }

    /// Asks the CPU to fetch the line at `offset`; out of range it does no harm.
    #[inline(always)]
    fn prefetch(&self, offset: usize) {
        prefetch(self.as_slice(), offset);
    }

    /// One bit for each block of [`VERIFIED_BLOCK`] bytes, set when the block is known to match its checksum; bit `i % 64` of word
    /// `i / 64` is that of block `i`. Empty if nothing of them has to be verified before it is read, which is so for bytes
    /// in DRAM, and once all blocks are verified.
    #[inline(always)]
    fn verified_blocks(&self) -> &[AtomicU64] {
        &[]
    }

    /// Verifies the blocks that hold `len` bytes from `offset` on, those not yet verified. Reads whole blocks. Damage is kept for
    /// [`damage`](Bytes::damage), so that a search need not stop where it meets it.
    fn verify(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }

    /// The first damaged block that [`verify`](Bytes::verify) has met since the bytes were opened, by whichever thread.
    /// Whoever has read through `verify` asks this before the result is used.
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

/// Asks the CPU to fetch the line at `offset` of the bytes; out of range it does no harm.
#[inline(always)]
pub fn prefetch(bytes: &[u8], offset: usize) {
    flush::prefetch(bytes.as_ptr().wrapping_add(offset));
}

/// Asks the CPU to fetch the first line of the value.
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
