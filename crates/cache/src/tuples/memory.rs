//! Zeroed arrays that are read at random: on huge pages as soon as they are as long as one, where a miss costs half.

use crate::CacheError;
use halocline_media::{HugeVec, PAGE};
use std::ops::Deref;
use zerocopy::FromZeros;

/// Arrays of so many bytes have a mapping of their own.
const HUGE: usize = 2 << 20;

#[derive(Debug)]
pub(super) enum Memory<T> {
    Small(Box<[T]>),
    Huge(HugeVec<T>),
}

impl<T: FromZeros> Memory<T> {
    /// The most that [`Self::bytes`] may be for `len` values.
    pub(super) fn bytes_for(len: usize) -> usize {
        let bytes = len * size_of::<T>();
        if bytes < HUGE {
            bytes
        } else {
            bytes.next_multiple_of(PAGE as usize)
        }
    }

    pub(super) fn zeroed(len: usize) -> Result<Self, CacheError> {
        let bytes = len * size_of::<T>();
        if bytes < HUGE {
            return Ok(Self::Small((0..len).map(|_| T::new_zeroed()).collect()));
        }
        let out_of_memory = |_| CacheError::OutOfMemory { bytes: bytes as u64 };
        HugeVec::zeroed(len).map(Self::Huge).map_err(out_of_memory)
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Small(values) => size_of_val(&**values),
            Self::Huge(values) => values.mapped_bytes(),
        }
    }
}

impl<T> Deref for Memory<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Small(values) => values,
            Self::Huge(values) => values,
        }
    }
}
