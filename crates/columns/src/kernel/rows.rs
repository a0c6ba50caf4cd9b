//! Values of a few rows of packed blocks, eight at a time with AVX2.
#![allow(unsafe_code, reason = "a loop that is built for AVX2")]

#[cfg(target_arch = "x86_64")]
use super::simd::{WordSlice, gather, load_rows, store_eight};
use super::{Lane, ROW_BYTES, packed_len};
use crate::format::BLOCK;
use zerocopy::{FromBytes, IntoBytes};

/// Unpacks the value of each row and writes it to `codes` after a wrapping addition of `add`, capped at
/// `max`. Rows are counted from the first block of `packed`, which holds consecutive blocks.
///
/// # Panics
/// If `packed` is not a whole number of blocks of `width` bits, a row lies outside of them (never if `width`
/// is 0), or `codes` and `rows` differ in length.
pub(crate) fn unpack_rows<L: Lane, C: Lane>(
    width: usize,
    packed: &[L],
    rows: &[u16],
    (add, max): (C, C),
    codes: &mut [C],
) {
    assert!(rows.len() == codes.len(), "one value for each row");
    assert!(width <= L::BITS, "packed block of the wrong size");
    if width == 0 || rows.is_empty() {
        codes.fill(add.min(max));
        return;
    }
    let block = packed_len::<L>(width);
    // A fold instead of `any`: without an early exit the loop can be vectorised.
    let last = rows.iter().fold(0, |last, row| last.max(*row));
    assert!(
        packed.len().is_multiple_of(block) && usize::from(last) < packed.len() / block * BLOCK,
        "row outside of the blocks"
    );
    #[cfg(target_arch = "x86_64")]
    if L::BITS <= 32 && C::BITS == 32 && std::arch::is_x86_feature_detected!("avx2") {
        let codes = <[u32]>::mut_from_bytes(codes.as_mut_bytes()).expect("as wide");
        let onto = (add.widen() as u32, max.widen() as u32);
        // SAFETY: the machine has AVX2.
        return unsafe { rows_avx2(width, packed, rows, onto, codes) };
    }
    for (code, &row) in codes.iter_mut().zip(rows) {
        let first = usize::from(row) / BLOCK * block;
        let value = unpack_row(width, &packed[first..first + block], usize::from(row) % BLOCK);
        *code = C::truncate(value).plus(add).min(max);
    }
}

/// Unpacks the value of a row of a block in the layout of fastlanes.
#[inline(always)]
fn unpack_row<L: Lane>(width: usize, packed: &[L], row: usize) -> u64 {
    let lanes = BLOCK / L::BITS;
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let word = |at: usize| packed.get(at).map_or(0, |word| word.widen());
    let (lane, at) = (row % lanes, row_of_lane::<L>(row));
    let bit = at * width;
    let (first, shift) = (bit / L::BITS * lanes + lane, bit % L::BITS);
    let low = word(first) >> shift;
    // Bits that continue in the next word. Two shifts, because `shift` may be 0, and a shift by all 64 bits
    // of a lane would overflow.
    let high = word(first + lanes) << (L::BITS - shift - 1) << 1;
    (low | high) & mask
}

/// Returns the byte offsets, within a block of `width` bits, of the first and the last word that hold the
/// value of a row.
pub(crate) fn places_of<L: Lane>(width: usize, row: usize) -> [usize; 2] {
    let lane = row % (BLOCK / L::BITS) * size_of::<L>();
    let bit = row_of_lane::<L>(row) * width;
    let last = bit + width.max(1) - 1;
    [bit, last].map(|bit| bit / L::BITS * ROW_BYTES + lane)
}

/// Returns the row of lanes that holds a row of a block. Row r of lanes has the values from
/// `FL_ORDER[r / 8] * 16 + r % 8 * 128` on, and the order is its own inverse.
#[inline(always)]
fn row_of_lane<L: Lane>(row: usize) -> usize {
    let sixteenths = BLOCK / L::BITS / 16;
    let start = (row % 128 / 16) & !(sixteenths - 1);
    row / 128 + 8 * fastlanes::FL_ORDER[start]
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn rows_avx2<L: Lane>(width: usize, packed: &[L], rows: &[u16], onto: (u32, u32), codes: &mut [u32]) {
    let (rows, few) = rows.as_chunks::<8>();
    let (codes, of_few) = codes.as_chunks_mut::<8>();
    let words = WordSlice::new(packed.as_bytes());
    for (codes, rows) in codes.iter_mut().zip(rows) {
        eight_rows::<L>(width, words, rows, onto, codes);
    }
    if !few.is_empty() {
        let (mut rows, mut codes) = ([0; 8], [0; 8]);
        rows[..few.len()].copy_from_slice(few);
        eight_rows::<L>(width, words, &rows, onto, &mut codes);
        of_few.copy_from_slice(&codes[..few.len()]);
    }
}

/// Unpacks eight rows like [`unpack_row`], in words of 32 bits, each of which holds one or more lanes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn eight_rows<L: Lane>(
    width: usize,
    words: WordSlice<'_>,
    rows: &[u16; 8],
    (add, max): (u32, u32),
    codes: &mut [u32; 8],
) {
    use std::arch::x86_64::{
        _mm_cvtsi32_si128, _mm256_add_epi32, _mm256_and_si256, _mm256_cvtepu16_epi32, _mm256_min_epu32,
        _mm256_mullo_epi32, _mm256_or_si256, _mm256_set1_epi32, _mm256_slli_epi32, _mm256_sllv_epi32,
        _mm256_srl_epi32, _mm256_srli_epi32, _mm256_srlv_epi32, _mm256_sub_epi32,
    };
    /// Words of a row of lanes.
    const WORDS: i32 = 32;
    let (bits, width) = (L::BITS as i32, width as i32);
    let splat = |number: i32| _mm256_set1_epi32(number);
    let shr = |value, by: u32| _mm256_srl_epi32(value, _mm_cvtsi32_si128(by as i32));
    let row = _mm256_cvtepu16_epi32(load_rows(rows));
    let lane = _mm256_and_si256(row, splat(BLOCK as i32 / bits - 1));
    // As in `row_of_lane`: the FastLanes order reverses bits 4 to 6 of the row. Those that belong to the
    // number of the lane drop out: all three in lanes of 8 bits, none in lanes of 64.
    let mut at = _mm256_and_si256(_mm256_srli_epi32::<7>(row), splat(7));
    if bits >= 16 {
        let half = _mm256_and_si256(_mm256_srli_epi32::<6>(row), splat(1));
        at = _mm256_or_si256(at, _mm256_slli_epi32::<3>(half));
    }
    if bits >= 32 {
        let quarter = _mm256_and_si256(_mm256_srli_epi32::<5>(row), splat(1));
        at = _mm256_or_si256(at, _mm256_slli_epi32::<4>(quarter));
    }
    let bit = _mm256_mullo_epi32(at, splat(width));
    let shift = _mm256_and_si256(bit, splat(bits - 1));
    let row_of_lanes = shr(bit, L::BITS.trailing_zeros());
    let block = _mm256_mullo_epi32(_mm256_srli_epi32::<10>(row), splat(width * WORDS));
    let word = _mm256_add_epi32(
        _mm256_add_epi32(block, _mm256_slli_epi32::<5>(row_of_lanes)),
        shr(lane, (32 / L::BITS).trailing_zeros()),
    );
    // For a number past the last word `gather` returns the last word. No value extends there, so the mask
    // clears what comes from it.
    let (mut low, mut high) = (
        gather(words, word),
        gather(words, _mm256_add_epi32(word, splat(WORDS))),
    );
    if bits < 32 {
        let place = _mm256_and_si256(lane, splat(32 / bits - 1));
        let place = _mm256_mullo_epi32(place, splat(bits));
        let mask = splat((1 << bits) - 1);
        low = _mm256_and_si256(_mm256_srlv_epi32(low, place), mask);
        high = _mm256_and_si256(_mm256_srlv_epi32(high, place), mask);
    }
    let value = _mm256_or_si256(
        _mm256_srlv_epi32(low, shift),
        _mm256_sllv_epi32(high, _mm256_sub_epi32(splat(bits), shift)),
    );
    let value = _mm256_and_si256(value, splat((u32::MAX >> (32 - width)) as i32));
    let code = _mm256_min_epu32(_mm256_add_epi32(value, splat(add as i32)), splat(max as i32));
    store_eight(codes, code);
}

#[cfg(test)]
mod tests {
    use super::super::{pack, with_lane};
    use super::*;

    fn rows_agree<L: Lane, C: Lane>(width: usize) {
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        let value = |row: usize| (row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 3 & mask;
        let mut packed = Vec::new();
        for block in 0..3 {
            let values = std::array::from_fn(|row| L::truncate(value(block * BLOCK + row)));
            let mut lanes = vec![L::default(); packed_len::<L>(width)];
            pack(width, &values, &mut lanes);
            packed.extend(lanes);
        }
        let (add, most) = (C::truncate(77), C::truncate(mask / 2 + 70));
        for step in [1, 3, 700] {
            let rows: Vec<u16> = (0..3 * BLOCK as u16).rev().step_by(step).collect();
            let mut codes = vec![C::default(); rows.len()];
            unpack_rows(width, &packed, &rows, (add, most), &mut codes);
            for (row, code) in rows.iter().zip(codes) {
                let value = if width == 0 { 0 } else { value(usize::from(*row)) };
                let expected = C::truncate(value).plus(add).min(most);
                assert!(code == expected, "width {width}, row {row}");
            }
        }
    }

    /// Asserts that a value is read only from the words that [`places_of`] returns.
    fn places_tell<L: Lane>(width: usize) {
        let mut packed = vec![L::default(); packed_len::<L>(width)];
        pack(
            width,
            &[L::truncate(u64::MAX >> (64 - width)); BLOCK],
            &mut packed,
        );
        for row in [0, 1, 15, 16, 77, 128, 500, 1023] {
            let mut only = vec![L::default(); packed.len()];
            for at in places_of::<L>(width, row).map(|at| at / size_of::<L>()) {
                only[at] = packed[at];
            }
            assert!(
                unpack_row(width, &only, row) == u64::MAX >> (64 - width),
                "width {width}, row {row}"
            );
        }
    }

    #[test]
    fn places_are_where_values_are() {
        for width in 1..=64 {
            with_lane!(width, L => places_tell::<L>(width));
        }
    }

    #[test]
    fn rows_of_every_width_come_back() {
        for width in 0..=64 {
            with_lane!(width, L => rows_agree::<L, u64>(width));
            if width <= 32 {
                with_lane!(width, L => rows_agree::<L, u32>(width));
            }
        }
    }

    #[test]
    #[should_panic(expected = "row outside of the blocks")]
    fn rows_outside_are_refused() {
        unpack_rows::<u8, u32>(8, &[1; 2048], &[3, 2048, 4], (0, 9), &mut [0; 3]);
    }
}
