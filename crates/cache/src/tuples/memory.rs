//! Zeroed arrays that are read at random: in a mapping of their own, which the system has back as soon as they are dropped
//! (an allocator may keep it), and which is on huge pages as soon as it is as long as one, where a miss costs half.

use crate::CacheError;
use halocline_media::{HugeVec, PAGE};
use std::ops::Deref;
use zerocopy::FromZeros;

/// Arrays of so many bytes have a mapping of their own: of smaller ones the pages it is rounded up to would be a large part.
const OWN: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum ZeroedArray<T> {
    Small(Box<[T]>),
    Own(HugeVec<T>),
}

impl<T: FromZeros> ZeroedArray<T> {
    /// The most that [`Self::bytes`] may be for `len` values.
    pub(super) fn bytes_for(len: usize) -> usize {
        let bytes = len * size_of::<T>();
        if bytes < OWN {
            bytes
        } else {
            bytes.next_multiple_of(PAGE as usize)
        }
    }

    pub(super) fn zeroed(len: usize) -> Result<Self, CacheError> {
        let bytes = len * size_of::<T>();
        if bytes < OWN {
            return Ok(Self::Small((0..len).map(|_| T::new_zeroed()).collect()));
        }
        let out_of_memory = |_| CacheError::OutOfMemory { bytes: bytes as u64 };
        HugeVec::zeroed(len).map(Self::Own).map_err(out_of_memory)
    }

    pub(super) fn bytes(&self) -> usize {
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
