//! Read access to immutable bytes, wherever they live.

use std::sync::Arc;

use crate::{Device, flush};

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

    /// The emulated device they are read from: its time is not that of a clock on the wall.
    #[inline]
    fn device(&self) -> Option<&Arc<Device>> {
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
