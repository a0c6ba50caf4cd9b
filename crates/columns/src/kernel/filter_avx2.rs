//! The filters of `filter.rs` with AVX2, by rows of lanes.
#![allow(clippy::wildcard_imports, reason = "names of instructions")]

use std::arch::x86_64::*;

use zerocopy::IntoBytes;

use super::BlockMask;
use super::filter::Values;
use super::filter_rows::{each, put};
use super::simd::{WordSlice, gather, load_bytes};
use super::{Lane, in_lanes};
use crate::format::BLOCK;
use crate::read::bitset::Bitset;

/// A row of lanes.
type LaneRow = [__m256i; 4];

/// Implements [`filter::within`](super::filter::within) with AVX2.
#[target_feature(enable = "avx2")]
pub(super) fn within<L: Lane>(values: Values<'_, L>, lo: L, span: L) -> BlockMask {
    let (lo, span) = (splat(lo), splat(span));
    by_rows(values, |row| row_within::<L>(row, lo, span))
}

/// Implements [`filter::lookup`](super::filter::lookup) with AVX2.
#[target_feature(enable = "avx2")]
pub(super) fn lookup<L: Lane>(values: Values<'_, L>, add: u32, bits: &Bitset) -> BlockMask {
    let (add, bits) = (_mm256_set1_epi32(add as i32), Bits::new(bits));
    by_rows(values, |row| {
        row_lookup::<L>(row, |places| eight_places(_mm256_add_epi32(places, add), bits))
    })
}

/// Applies `test`, which returns a bit per value, to each row of lanes and returns the mask of the block.
#[target_feature(enable = "avx2")]
#[inline]
fn by_rows<L: Lane>(values: Values<'_, L>, test: impl Fn(LaneRow) -> u128) -> BlockMask {
    let mut mask = [0; BLOCK / 64];
    match values {
        // Without bits all values are 0, so one test serves all rows of lanes.
        Values::Packed(0, _) => {
            let row = test([_mm256_setzero_si256(); 4]);
            for number in 0..L::BITS {
                put::<L>(&mut mask, number * each::<L>(), row);
            }
        }
        Values::Packed(width, packed) => {
            // A shift moves bits of the neighbouring lane into some that are not the value's; masks take them
            // out.
            let all = _mm256_set1_epi64x(in_lanes::<L>(width) as i64);
            for number in 0..L::BITS {
                let (at, shift) = (number * width / L::BITS, number * width % L::BITS);
                let here = L::BITS - shift;
                let mut row = load(&packed[at * each::<L>()..][..each::<L>()]);
                let by = _mm_cvtsi64_si128(shift as i64);
                if here >= width {
                    for value in &mut row {
                        *value = _mm256_and_si256(_mm256_srl_epi64(*value, by), all);
                    }
                } else {
                    let low = _mm256_set1_epi64x(in_lanes::<L>(here) as i64);
                    let next = load(&packed[(at + 1) * each::<L>()..][..each::<L>()]);
                    let by_next = _mm_cvtsi64_si128(here as i64);
                    for (value, next) in row.iter_mut().zip(next) {
                        let below = _mm256_and_si256(_mm256_srl_epi64(*value, by), low);
                        let above = _mm256_andnot_si256(low, _mm256_sll_epi64(next, by_next));
                        *value = _mm256_or_si256(below, _mm256_and_si256(above, all));
                    }
                }
                // The order of fastlanes.
                let first = fastlanes::FL_ORDER[number / 8] * 16 + number % 8 * 128;
                put::<L>(&mut mask, first, test(row));
            }
        }
        Values::Lanes(lanes) => {
            let (rows, rest) = lanes.split_at(lanes.len() / each::<L>() * each::<L>());
            for (number, row) in rows.chunks_exact(each::<L>()).enumerate() {
                put::<L>(&mut mask, number * each::<L>(), test(load(row)));
            }
            if !rest.is_empty() {
                let mut room = [L::default(); 128];
                room[..rest.len()].copy_from_slice(rest);
                // The padding may match, so its bits are cleared.
                let bits = test(load(&room[..each::<L>()])) & ((1 << rest.len()) - 1);
                put::<L>(&mut mask, rows.len(), bits);
            }
        }
    }
    mask
}

#[target_feature(enable = "avx2")]
#[inline]
fn load<L: Lane>(lanes: &[L]) -> LaneRow {
    let (quarters, _) = lanes.as_bytes().as_chunks::<32>();
    std::array::from_fn(|at| load_bytes(&quarters[at]))
}

/// Broadcasts a value to every lane.
#[target_feature(enable = "avx2")]
#[inline]
fn splat<L: Lane>(value: L) -> __m256i {
    // A word with 1 in every lane.
    let ones = u64::MAX / L::truncate(u64::MAX).widen();
    _mm256_set1_epi64x((value.widen().wrapping_mul(ones)) as i64)
}

/// Returns the sign bits of the bytes of two vectors, those of `a` in the lower half.
#[target_feature(enable = "avx2")]
#[inline]
fn signs(a: __m256i, b: __m256i) -> u64 {
    let bits = |value| u64::from(_mm256_movemask_epi8(value) as u32);
    bits(a) | bits(b) << 32
}

/// Narrows two vectors of 16-bit lanes, each all ones or all zeros, to bytes in the same order.
#[target_feature(enable = "avx2")]
#[inline]
fn as_bytes(a: __m256i, b: __m256i) -> __m256i {
    // Vectors are packed half by half of 128 bits each; the permutation restores the order.
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(a, b))
}

#[target_feature(enable = "avx2")]
#[inline]
fn row_within<L: Lane>(row: LaneRow, lo: __m256i, span: __m256i) -> u128 {
    match L::BITS {
        8 => {
            // AVX2 compares signed numbers only; `min(above, span) == above` is an unsigned comparison.
            let is = |value| {
                let above = _mm256_sub_epi8(value, lo);
                _mm256_cmpeq_epi8(_mm256_min_epu8(above, span), above)
            };
            let [a, b, c, d] = [is(row[0]), is(row[1]), is(row[2]), is(row[3])];
            u128::from(signs(a, b)) | u128::from(signs(c, d)) << 64
        }
        16 => {
            let is = |value| {
                let above = _mm256_sub_epi16(value, lo);
                _mm256_cmpeq_epi16(_mm256_min_epu16(above, span), above)
            };
            let [a, b, c, d] = [is(row[0]), is(row[1]), is(row[2]), is(row[3])];
            signs(as_bytes(a, b), as_bytes(c, d)).into()
        }
        32 => {
            let is = |value| {
                let above = _mm256_sub_epi32(value, lo);
                let is = _mm256_cmpeq_epi32(_mm256_min_epu32(above, span), above);
                _mm256_movemask_ps(_mm256_castsi256_ps(is)) as u128
            };
            is(row[0]) | is(row[1]) << 8 | is(row[2]) << 16 | is(row[3]) << 24
        }
        _ => {
            // Numbers with a sign are compared: the highest bit turned around keeps the order.
            let sign = _mm256_set1_epi64x(i64::MIN);
            let span = _mm256_xor_si256(span, sign);
            let is = |value| {
                let above = _mm256_xor_si256(_mm256_sub_epi64(value, lo), sign);
                let not = _mm256_cmpgt_epi64(above, span);
                (_mm256_movemask_pd(_mm256_castsi256_pd(not)) ^ 0b1111) as u128
            };
            is(row[0]) | is(row[1]) << 4 | is(row[2]) << 8 | is(row[3]) << 12
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn row_lookup<L: Lane>(row: LaneRow, eight: impl Fn(__m256i) -> u32) -> u128 {
    let mut found = 0;
    for (at, value) in row.into_iter().enumerate() {
        let halves = [
            _mm256_castsi256_si128(value),
            _mm256_extracti128_si256::<1>(value),
        ];
        match L::BITS {
            8 => {
                for (half, bytes) in halves.into_iter().enumerate() {
                    let eights = [
                        _mm256_cvtepu8_epi32(bytes),
                        _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes)),
                    ];
                    for (number, places) in eights.into_iter().enumerate() {
                        found |= u128::from(eight(places)) << (at * 32 + half * 16 + number * 8);
                    }
                }
            }
            16 => {
                for (half, words) in halves.into_iter().enumerate() {
                    found |= u128::from(eight(_mm256_cvtepu16_epi32(words))) << (at * 16 + half * 8);
                }
            }
            _ => {
                found |= u128::from(eight(value)) << (at * 8);
            }
        }
    }
    found
}

/// [`Bitset`] as eight lookups at once want them.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    words: WordSlice<'a>,
    /// The place after the last, which has none.
    last: __m256i,
    shift: __m128i,
}

impl<'a> Bits<'a> {
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn new(bits: &'a Bitset) -> Self {
        Self {
            words: WordSlice::new(bits.words().as_bytes()),
            last: _mm256_set1_epi32(bits.places() as i32),
            shift: _mm_cvtsi32_si128(bits.shift() as i32),
        }
    }
}

/// Looks up eight slots and returns a bit for each: 1 if it is set.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn eight_places(places: __m256i, bits: Bits<'_>) -> u32 {
    let bit = _mm256_srl_epi32(_mm256_min_epu32(places, bits.last), bits.shift);
    let found = gather(bits.words, _mm256_srli_epi32::<5>(bit));
    // Moves the bit of the place to the sign: by `31 - bit % 32`, the complement of its lowest five bits.
    let found = _mm256_sllv_epi32(found, _mm256_andnot_si256(bit, _mm256_set1_epi32(31)));
    _mm256_movemask_ps(_mm256_castsi256_ps(found)) as u32
}
