//! Zeroed arrays for random access. Large ones have their own mapping, which is returned to the system when
//! it is dropped (an allocator might keep it) and uses huge pages if it is long enough, which halves the cost
//! of a miss.

use crate::CacheError;
use halocline_media::{HugeVec, PAGE};
use std::ops::Deref;
use zerocopy::FromZeros;

/// Minimum size of an array with its own mapping. Rounding a smaller one up to whole pages would waste
/// a large fraction.
const OWN: usize = 64 << 10;

#[derive(Debug)]
pub(crate) enum ZeroedArray<T> {
    Small(Box<[T]>),
    Own(HugeVec<T>),
}

impl<T: FromZeros> ZeroedArray<T> {
    /// Returns the maximum of [`Self::bytes`] for `len` values.
    pub(crate) fn bytes_for(len: usize) -> usize {
        let bytes = len * size_of::<T>();
        if bytes < OWN {
            bytes
        } else {
            bytes.next_multiple_of(PAGE as usize)
        }
    }

    pub(crate) fn zeroed(len: usize) -> Result<Self, CacheError> {
        let bytes = len * size_of::<T>();
        if bytes < OWN {
            return Ok(Self::Small((0..len).map(|_| T::new_zeroed()).collect()));
        }
        let out_of_memory = |_| CacheError::OutOfMemory { bytes: bytes as u64 };
        HugeVec::zeroed(len).map(Self::Own).map_err(out_of_memory)
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Small(values) => size_of_val(&**values),
            Self::Own(values) => values.mapped_bytes(),
        }
    }
}

impl<T> Deref for ZeroedArray<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Small(values) => values,
            Self::Own(values) => values,
        }
    }
}
