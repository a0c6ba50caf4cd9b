//! Immutable bytes: in a pool extent, or in DRAM before they are written.

use halocline_media::Bytes;
use halocline_pool::ExtentBytes;
use std::ops::Range;
use std::sync::Arc;

/// A range of an extent (which it keeps mapped), or bytes in DRAM.
#[derive(Clone)]
pub(crate) enum Blob {
    Extent(ExtentBytes, Range<usize>),
    Memory(Arc<[u8]>),
}

impl Blob {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            // The range was checked when the blob was made.
            Self::Extent(bytes, range) => &bytes.as_slice()[range.clone()],
            Self::Memory(bytes) => bytes,
        }
    }

    /// Announces a read, so that an emulated medium can count it.
    #[inline]
    pub(crate) fn touch(&self, offset: usize, len: usize) {
        if let Self::Extent(bytes, range) = self {
            bytes.touch(range.start + offset, len);
        }
    }
}
