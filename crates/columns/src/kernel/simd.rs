//! Loads, stores and gathers of AVX2 and AVX-512 that know their lengths.
#![allow(unsafe_code, reason = "the instructions take addresses")]

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_storeu_si128, _mm256_i32gather_epi32, _mm256_loadu_si256,
    _mm256_min_epu32, _mm256_set1_epi32, _mm256_storeu_si256, _mm512_loadu_si512, _mm512_storeu_si512,
};

/// Loads 32 bytes.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load_bytes(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: 32 bytes are there, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// Loads eight numbers.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load_eight(numbers: &[u32; 8]) -> __m256i {
    // SAFETY: 32 bytes are there, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
}

/// Stores eight numbers.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn store_eight(numbers: &mut [u32; 8], value: __m256i) {
    // SAFETY: 32 bytes are there, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), value) }
}

/// Loads eight rows.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load_rows(rows: &[u16; 8]) -> __m128i {
    // SAFETY: 16 bytes are there, and the load needs no alignment.
    unsafe { _mm_loadu_si128(rows.as_ptr().cast()) }
}

/// Stores eight rows.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn store_rows(rows: &mut [u16; 8], value: __m128i) {
    // SAFETY: 16 bytes are there, and the store needs no alignment.
    unsafe { _mm_storeu_si128(rows.as_mut_ptr().cast(), value) }
}

/// Loads 64 bytes.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load_line(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes are there, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Stores 64 bytes.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store_line(bytes: &mut [u8; 64], value: __m512i) {
    // SAFETY: 64 bytes are there, and the store needs no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), value) }
}

/// Gathers eight words by their numbers. Numbers beyond the end give the last word.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn gather(words: WordSlice<'_>, numbers: __m256i) -> __m256i {
    let numbers = _mm256_min_epu32(numbers, _mm256_set1_epi32(words.last));
    // SAFETY: the numbers are those of words that are there, and none is negative.
    unsafe { _mm256_i32gather_epi32::<4>(words.bytes.as_ptr().cast(), numbers) }
}

/// Words of 32 bits, one at least.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordSlice<'a> {
    bytes: &'a [u8],
    last: i32,
}

impl<'a> WordSlice<'a> {
    /// Creates a slice of the whole words in `bytes`, leaving out an incomplete one at the end.
    ///
    /// # Panics
    /// If there is no whole word, or more than 2^31 of them.
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let last = (bytes.len() / 4).checked_sub(1);
        let last = last.and_then(|last| i32::try_from(last).ok());
        WordSlice {
            bytes,
            last: last.expect("a word, and not too many"),
        }
    }
}
