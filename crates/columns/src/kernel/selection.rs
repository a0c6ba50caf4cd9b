//! Selection vectors: positions of bits, and which of them stay; eight at a time with AVX2.
#![allow(unsafe_code, reason = "loops that are built for AVX2")]

use super::BlockMask;
#[cfg(target_arch = "x86_64")]
use super::filter_avx2::{Bits, eight_places};
#[cfg(target_arch = "x86_64")]
use super::simd::{load_eight, load_rows, store_rows};
use crate::format::BLOCK;
use crate::read::bitset::Bitset;

/// Room that [`rows_of`] needs after what it finds.
pub(crate) const ROOM: usize = 8;

/// Up to this number of rows of 64 are written one by one.
const MAX_SINGLE_ROWS: usize = 4;

/// Writes `first` and more for each bit that is set to the start of `rows`: `first + i` for bit i % 64 of
/// word i / 64, in order. Returns how many there are. What is after them means nothing.
///
/// # Panics
/// If there may be no room for all rows of a block and [`ROOM`] more.
pub(crate) fn rows_of(mask: &BlockMask, first: u16, rows: &mut [u16]) -> usize {
    assert!(rows.len() >= BLOCK + ROOM, "no room for the rows of a block");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the machine has all of them.
        return unsafe { rows_avx2(mask, first, rows) };
    }
    rows_each(mask, first, rows)
}

/// Moves those of `rows` to the front, in order, whose place has a bit; `places` has one for each. Returns
/// how many there are. What is after them means nothing.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn keep_rows(rows: &mut [u16], places: &[u32], bits: &Bitset) -> usize {
    assert!(rows.len() == places.len(), "one place for each row");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the machine has both.
        return unsafe { keep_avx2(rows, places, bits) };
    }
    keep_each(rows, 0, 0, places, bits)
}

fn rows_each(mask: &BlockMask, first: u16, rows: &mut [u16]) -> usize {
    let mut count = 0;
    for (at, word) in (0..).step_by(64).zip(mask) {
        let mut word = *word;
        while word != 0 {
            rows[count] = first + at + word.trailing_zeros() as u16;
            count += 1;
            word &= word - 1;
        }
    }
    count
}

/// Filters the rows from position `from` on, after the first `kept` ones, which have already been kept, and
/// returns the new count. No branch depends on which rows are kept.
#[inline(always)]
fn keep_each(rows: &mut [u16], from: usize, mut kept: usize, places: &[u32], bits: &Bitset) -> usize {
    for (at, place) in (from..).zip(&places[from..]) {
        rows[kept] = rows[at];
        kept += bits.has(*place);
    }
    kept
}

/// The positions of the bits of every byte.
#[cfg(target_arch = "x86_64")]
pub(super) static POSITIONS: [[u16; 8]; 256] = {
    let mut positions = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                positions[byte][count] = bit;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    positions
};

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn rows_avx2(mask: &BlockMask, first: u16, rows: &mut [u16]) -> usize {
    use std::arch::x86_64::{_mm_add_epi16, _mm_set1_epi16};
    let mut count = 0;
    for (at, word) in (0..).step_by(64).zip(mask) {
        let of_word = word.count_ones() as usize;
        if of_word <= MAX_SINGLE_ROWS {
            // Most often: without a branch that depends on how many.
            let mut word = *word;
            for row in &mut rows[count..count + MAX_SINGLE_ROWS] {
                // Entries past the word's last row are written over by the next word, and may be anything.
                *row = (first + at).wrapping_add(word.trailing_zeros() as u16);
                word &= word.wrapping_sub(1);
            }
            count += of_word;
            continue;
        }
        for byte in 0..8 {
            let bits = (word >> (byte * 8)) as u8;
            let positions = &POSITIONS[usize::from(bits)];
            let of_byte = _mm_set1_epi16((first + at + byte * 8) as i16);
            let found = _mm_add_epi16(load_rows(positions), of_byte);
            if let Some(rows) = rows[count..].first_chunk_mut() {
                store_rows(rows, found);
            }
            count += bits.count_ones() as usize;
        }
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn keep_avx2(rows: &mut [u16], places: &[u32], bits: &Bitset) -> usize {
    use std::arch::x86_64::{_mm_add_epi16, _mm_mullo_epi16, _mm_set1_epi16, _mm_shuffle_epi8};
    let (lookup, mut kept) = (Bits::new(bits), 0);
    for (at, eight) in (0..).step_by(8).zip(places.as_chunks::<8>().0) {
        let found = eight_places(load_eight(eight), lookup) as u8;
        let positions = load_rows(&POSITIONS[usize::from(found)]);
        // Position p as the bytes 2p and 2p + 1.
        let bytes = _mm_add_epi16(
            _mm_mullo_epi16(positions, _mm_set1_epi16(0x0202)),
            _mm_set1_epi16(0x0100),
        );
        // There are as many rows as places, and `kept` is at most `at`: what is overwritten has been read.
        if let Some(of_places) = rows[at..].first_chunk() {
            let left = _mm_shuffle_epi8(load_rows(of_places), bytes);
            if let Some(front) = rows[kept..].first_chunk_mut() {
                store_rows(front, left);
            }
        }
        kept += found.count_ones() as usize;
    }
    keep_each(rows, places.len() / 8 * 8, kept, places, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_agree() {
        let word = |seed: usize| (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut bits = Bitset::new(1000);
        (0..1000).filter(|place| place % 3 == 0).for_each(|place| {
            bits.set(place);
        });
        // The last block that positions reach, and one before.
        for (density, first) in (0..4).flat_map(|density| [(density, 3000), (density, 63 * BLOCK as u16)]) {
            let mask: BlockMask = std::array::from_fn(|i| match density {
                0 => word(i) & word(i + 50) & word(i + 90),
                1 => word(i) | word(i + 50),
                2 => u64::MAX * u64::from(i % 5 == 2),
                _ => u64::MAX,
            });
            let (mut fast, mut plain) = ([0; BLOCK + ROOM], [0; BLOCK + ROOM]);
            let count = rows_of(&mask, first, &mut fast);
            assert_eq!(count, rows_each(&mask, first, &mut plain));
            assert_eq!(fast[..count], plain[..count]);
            let expected = (0..BLOCK).filter(|row| mask[row / 64] >> (row % 64) & 1 == 1);
            assert!(
                expected
                    .map(|row| row as u16 + first)
                    .eq(fast[..count].iter().copied())
            );

            let places: Vec<u32> = (0..count).map(|i| (word(i) >> 40) as u32 % 1002).collect();
            let kept = keep_rows(&mut fast[..count], &places, &bits);
            assert_eq!(kept, keep_each(&mut plain[..count], 0, 0, &places, &bits));
            assert_eq!(fast[..kept], plain[..kept]);
        }
    }
}
