//! The filter [`within`](super::filter::within) with AVX-512, whose comparisons give a bit for each value: by
//! the same rows of lanes as in `filter_avx2.rs`.
#![allow(clippy::wildcard_imports, reason = "names of instructions")]

use std::arch::x86_64::*;

use zerocopy::IntoBytes;

use super::BlockMask;
use super::filter::Values;
use super::filter_rows::{each, put};
use super::simd::load_line;
use super::{Lane, in_lanes};
use crate::format::BLOCK;

/// A row of lanes.
type LaneRow = [__m512i; 2];

/// Implements [`filter::within`](super::filter::within) with AVX-512.
#[target_feature(enable = "avx512bw")]
pub(super) fn within<L: Lane>(values: Values<'_, L>, lo: L, span: L) -> BlockMask {
    let (lo, span) = (splat(lo), splat(span));
    let mut mask = [0; BLOCK / 64];
    match values {
        // Without bits all values are 0, so one test serves all rows of lanes.
        Values::Packed(0, _) => {
            let row = row_within::<L>([_mm512_setzero_si512(); 2], lo, span);
            for number in 0..L::BITS {
                put::<L>(&mut mask, number * each::<L>(), row);
            }
        }
        Values::Packed(width, packed) => {
            for number in 0..L::BITS {
                // The order of fastlanes.
                let first = fastlanes::FL_ORDER[number / 8] * 16 + number % 8 * 128;
                let row = unpack_row(width, packed, number);
                put::<L>(&mut mask, first, row_within::<L>(row, lo, span));
            }
        }
        Values::Lanes(lanes) => {
            let (rows, rest) = lanes.split_at(lanes.len() / each::<L>() * each::<L>());
            for (number, row) in rows.chunks_exact(each::<L>()).enumerate() {
                put::<L>(
                    &mut mask,
                    number * each::<L>(),
                    row_within::<L>(load(row), lo, span),
                );
            }
            if !rest.is_empty() {
                let mut room = [L::default(); 128];
                room[..rest.len()].copy_from_slice(rest);
                // The padding may match, so its bits are cleared.
                let bits = row_within::<L>(load(&room[..each::<L>()]), lo, span) & ((1 << rest.len()) - 1);
                put::<L>(&mut mask, rows.len(), bits);
            }
        }
    }
    mask
}

/// Unpacks the values of a row of lanes of a packed block. A shift moves bits of the neighbouring lane into
/// positions outside of the value; masks clear them.
#[target_feature(enable = "avx512bw")]
#[inline]
fn unpack_row<L: Lane>(width: usize, packed: &[L], number: usize) -> LaneRow {
    let (at, shift) = (number * width / L::BITS, number * width % L::BITS);
    let here = L::BITS - shift;
    let row = load(&packed[at * each::<L>()..][..each::<L>()]);
    let by = _mm_cvtsi64_si128(shift as i64);
    let all = _mm512_set1_epi64(in_lanes::<L>(width) as i64);
    // Not `map`, which would be called without the instructions.
    let own = [_mm512_srl_epi64(row[0], by), _mm512_srl_epi64(row[1], by)];
    if here >= width {
        return [_mm512_and_si512(own[0], all), _mm512_and_si512(own[1], all)];
    }
    let low = _mm512_set1_epi64(in_lanes::<L>(here) as i64);
    let next = load(&packed[(at + 1) * each::<L>()..][..each::<L>()]);
    let by_next = _mm_cvtsi64_si128(here as i64);
    let next = [
        _mm512_sll_epi64(next[0], by_next),
        _mm512_sll_epi64(next[1], by_next),
    ];
    // Bits of the first where `low` has ones, of the second elsewhere.
    let joined = [
        _mm512_ternarylogic_epi64::<0xCA>(low, own[0], next[0]),
        _mm512_ternarylogic_epi64::<0xCA>(low, own[1], next[1]),
    ];
    [_mm512_and_si512(joined[0], all), _mm512_and_si512(joined[1], all)]
}

#[target_feature(enable = "avx512bw")]
#[inline]
fn load<L: Lane>(lanes: &[L]) -> LaneRow {
    let (halves, _) = lanes.as_bytes().as_chunks::<64>();
    [load_line(&halves[0]), load_line(&halves[1])]
}

/// Broadcasts a value to every lane.
#[target_feature(enable = "avx512bw")]
#[inline]
fn splat<L: Lane>(value: L) -> __m512i {
    // A word with 1 in every lane.
    let ones = u64::MAX / L::truncate(u64::MAX).widen();
    _mm512_set1_epi64((value.widen().wrapping_mul(ones)) as i64)
}

#[target_feature(enable = "avx512bw")]
#[inline]
fn row_within<L: Lane>([a, b]: LaneRow, lo: __m512i, span: __m512i) -> u128 {
    match L::BITS {
        8 => {
            let is = |value| u128::from(_mm512_cmple_epu8_mask(_mm512_sub_epi8(value, lo), span));
            is(a) | is(b) << 64
        }
        16 => {
            let is = |value| u128::from(_mm512_cmple_epu16_mask(_mm512_sub_epi16(value, lo), span));
            is(a) | is(b) << 32
        }
        32 => {
            let is = |value| u128::from(_mm512_cmple_epu32_mask(_mm512_sub_epi32(value, lo), span));
            is(a) | is(b) << 16
        }
        _ => {
            let is = |value| u128::from(_mm512_cmple_epu64_mask(_mm512_sub_epi64(value, lo), span));
            is(a) | is(b) << 8
        }
    }
}
