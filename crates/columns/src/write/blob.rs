//! Immutable bytes: in a pool extent, or in DRAM before they are written.

use halocline_media::{BlockDamage, Bytes};
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

    /// Verifies the blocks that hold these bytes, unless that was done or they are in DRAM.
    #[inline]
    pub(crate) fn is_intact(&self, offset: usize, len: usize) -> bool {
        match self {
            Self::Extent(bytes, range) => bytes.is_intact(range.start + offset, len),
            Self::Memory(_) => true,
        }
    }

    /// Returns the first damage found in the extent; `None` for bytes in DRAM.
    pub(crate) fn damage(&self) -> Option<BlockDamage> {
        match self {
            Self::Extent(bytes, _) => bytes.damage(),
            Self::Memory(_) => None,
        }
    }

    /// Verifies all of it, also what was verified before.
    ///
    /// # Errors
    /// The first block that is damaged.
    pub(crate) fn verify_again(&self) -> Result<(), BlockDamage> {
        match self {
            Self::Extent(bytes, range) => bytes.verify_range_again(range.clone()),
            Self::Memory(_) => Ok(()),
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
