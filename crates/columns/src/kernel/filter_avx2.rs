//! The filters of `filter.rs` with AVX2, by *rows of lanes*: 128 bytes, whose 128, 64, 32 or 16 values lie side by side in the
//! block, so that a test of them makes bits that do too.
#![allow(unsafe_code, reason = "loads and gathers by address")]
#![allow(clippy::wildcard_imports, reason = "names of instructions")]

use std::arch::x86_64::*;

use zerocopy::IntoBytes;

use super::filter::Values;
use super::{Lane, in_lanes};
use crate::format::BLOCK;
use crate::places::PlaceBits;
use crate::select::BlockMask;

/// A row of lanes.
type Row = [__m256i; 4];

/// As [`filter::within`](super::filter::within).
#[target_feature(enable = "avx2")]
pub(super) fn within<L: Lane>(values: Values<'_, L>, lo: L, span: L) -> BlockMask {
    let (lo, span) = (splat(lo), splat(span));
    let mut mask = [0; BLOCK / 64];
    for number in 0..rows(values) {
        let (first, row) = row(values, number);
        put::<L>(&mut mask, first, row_within::<L>(row, lo, span));
    }
    clip(values, &mut mask);
    mask
}

/// As [`filter::lookup`](super::filter::lookup).
#[target_feature(enable = "avx2")]
pub(super) fn lookup<L: Lane>(values: Values<'_, L>, add: u32, bits: &PlaceBits) -> BlockMask {
    let add = _mm256_set1_epi32(add as i32);
    let mut mask = [0; BLOCK / 64];
    for number in 0..rows(values) {
        let (first, row) = row(values, number);
        put::<L>(&mut mask, first, row_lookup::<L>(row, add, bits));
    }
    clip(values, &mut mask);
    mask
}

/// Values of a row of lanes.
const fn each<L: Lane>() -> usize {
    BLOCK / L::BITS
}

/// How many rows of lanes there are.
#[inline(always)]
fn rows<L: Lane>(values: Values<'_, L>) -> usize {
    match values {
        Values::Packed(..) => L::BITS,
        Values::Lanes(lanes) => lanes.len().div_ceil(each::<L>()),
    }
}

/// A row of lanes, and the row of the block that its first value is of.
#[target_feature(enable = "avx2")]
#[inline]
fn row<L: Lane>(values: Values<'_, L>, number: usize) -> (usize, Row) {
    match values {
        Values::Packed(width, packed) => {
            // The order of fastlanes.
            let first = fastlanes::FL_ORDER[number / 8] * 16 + number % 8 * 128;
            (first, packed_row(width, packed, number))
        }
        Values::Lanes(lanes) => {
            let first = number * each::<L>();
            let lanes = &lanes[first..];
            if lanes.len() >= each::<L>() {
                return (first, load(&lanes[..each::<L>()]));
            }
            let mut room = [L::default(); 128];
            room[..lanes.len()].copy_from_slice(lanes);
            (first, load(&room[..each::<L>()]))
        }
    }
}

/// Unpacks a row of lanes. A shift moves bits of the neighbouring lane into some that are not the value's; the masks take
/// them out.
#[target_feature(enable = "avx2")]
#[inline]
fn packed_row<L: Lane>(width: usize, packed: &[L], number: usize) -> Row {
    let (at, shift) = (number * width / L::BITS, number * width % L::BITS);
    let here = (L::BITS - shift).min(width);
    if here == 0 {
        return [_mm256_setzero_si256(); 4];
    }
    let low = in_lanes::<L>(here);
    let (by, mask) = (_mm_cvtsi64_si128(shift as i64), _mm256_set1_epi64x(low as i64));
    let mut row = load(&packed[at * each::<L>()..][..each::<L>()]);
    for value in &mut row {
        *value = _mm256_and_si256(_mm256_srl_epi64(*value, by), mask);
    }
    if here < width {
        let high = in_lanes::<L>(width) & !low;
        let (by, mask) = (_mm_cvtsi64_si128(here as i64), _mm256_set1_epi64x(high as i64));
        let next = load(&packed[(at + 1) * each::<L>()..][..each::<L>()]);
        for (value, next) in row.iter_mut().zip(next) {
            *value = _mm256_or_si256(*value, _mm256_and_si256(_mm256_sll_epi64(next, by), mask));
        }
    }
    row
}

#[target_feature(enable = "avx2")]
#[inline]
fn load<L: Lane>(lanes: &[L]) -> Row {
    let bytes: &[u8; 128] = lanes.as_bytes().try_into().expect("a row of lanes");
    // SAFETY: the loads need no alignment, and end where the array does.
    unsafe {
        let first = bytes.as_ptr().cast::<__m256i>();
        [
            _mm256_loadu_si256(first),
            _mm256_loadu_si256(first.add(1)),
            _mm256_loadu_si256(first.add(2)),
            _mm256_loadu_si256(first.add(3)),
        ]
    }
}

/// A value in every lane.
#[target_feature(enable = "avx2")]
#[inline]
fn splat<L: Lane>(value: L) -> __m256i {
    let ones = u64::MAX / L::truncate(u64::MAX).widen();
    _mm256_set1_epi64x((value.widen().wrapping_mul(ones)) as i64)
}

/// Puts the bits of a row of lanes into the mask.
#[inline(always)]
fn put<L: Lane>(mask: &mut BlockMask, first: usize, bits: u128) {
    let word = first / 64 % mask.len();
    mask[word] |= (bits as u64) << (first % 64);
    if each::<L>() == 128 {
        mask[(word + 1) % mask.len()] = (bits >> 64) as u64;
    }
}

/// Clears what lies behind the last value.
#[inline(always)]
fn clip<L: Lane>(values: Values<'_, L>, mask: &mut BlockMask) {
    if let Values::Lanes(lanes) = values
        && lanes.len() % each::<L>() != 0
    {
        crate::select::clip(mask, 0, &(0..lanes.len()));
    }
}

/// The sign bits of the bytes of two vectors, those of the first in the lower half.
#[target_feature(enable = "avx2")]
#[inline]
fn signs(a: __m256i, b: __m256i) -> u64 {
    let bits = |value| u64::from(_mm256_movemask_epi8(value) as u32);
    bits(a) | bits(b) << 32
}

/// Two vectors of 16-bit lanes, all ones or zeros, as bytes in the same order.
#[target_feature(enable = "avx2")]
#[inline]
fn as_bytes(a: __m256i, b: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(a, b))
}

#[target_feature(enable = "avx2")]
#[inline]
fn row_within<L: Lane>(row: Row, lo: __m256i, span: __m256i) -> u128 {
    match L::BITS {
        8 => {
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
fn row_lookup<L: Lane>(row: Row, add: __m256i, bits: &PlaceBits) -> u128 {
    let mut found = 0;
    for (at, value) in row.into_iter().enumerate() {
        let halves = [_mm256_castsi256_si128(value), _mm256_extracti128_si256::<1>(value)];
        match L::BITS {
            8 => {
                for (half, bytes) in halves.into_iter().enumerate() {
                    let eights = [
                        _mm256_cvtepu8_epi32(bytes),
                        _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes)),
                    ];
                    for (eight, places) in eights.into_iter().enumerate() {
                        let bits = eight_places(_mm256_add_epi32(places, add), bits);
                        found |= u128::from(bits) << (at * 32 + half * 16 + eight * 8);
                    }
                }
            }
            16 => {
                for (half, words) in halves.into_iter().enumerate() {
                    let places = _mm256_cvtepu16_epi32(words);
                    let bits = eight_places(_mm256_add_epi32(places, add), bits);
                    found |= u128::from(bits) << (at * 16 + half * 8);
                }
            }
            _ => {
                let bits = eight_places(_mm256_add_epi32(value, add), bits);
                found |= u128::from(bits) << (at * 8);
            }
        }
    }
    found
}

/// Which of eight places have a bit.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn eight_places(places: __m256i, bits: &PlaceBits) -> u32 {
    let (last, low) = (_mm256_set1_epi32(bits.places() as i32), _mm256_set1_epi32(31));
    let places = _mm256_min_epu32(places, last);
    let words = bits.words().as_ptr().cast::<i32>();
    // SAFETY: there is a bit behind the last place, so the half-word of one of them is among the words; its number is below
    // 2^27.
    let found = unsafe { _mm256_i32gather_epi32::<4>(words, _mm256_srli_epi32::<5>(places)) };
    // Moves the bit of the place to the sign.
    let found = _mm256_sllv_epi32(found, _mm256_andnot_si256(places, low));
    _mm256_movemask_ps(_mm256_castsi256_ps(found)) as u32
}
