//! Bits for rows of a block: from bytes, and from those of runs.
#![allow(unsafe_code, reason = "loops that are built for AVX2 and BMI2 too")]

use super::BlockMask;
use crate::format::BLOCK;

/// Packs bytes that are 0 or 1 into bits: byte i becomes bit i % 64 of word i / 64.
#[inline(always)]
fn to_bits_body(keep: &[u8; BLOCK]) -> [u64; BLOCK / 64] {
    std::array::from_fn(|word| {
        let bytes = &keep[word * 64..(word + 1) * 64];
        bytes.chunks_exact(8).enumerate().fold(0, |bits, (i, eight)| {
            let eight = eight.try_into().map_or(0, u64::from_le_bytes);
            // Moves bit 0 of byte j to bit 56 + j.
            bits | (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (i * 8)
        })
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn to_bits_avx2(keep: &[u8; BLOCK]) -> [u64; BLOCK / 64] {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_slli_epi16};
    let mut bits = [0; BLOCK / 64];
    for (at, bytes) in keep.as_chunks::<32>().0.iter().enumerate() {
        // SAFETY: 32 bytes are there, and the load needs no alignment.
        let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast::<__m256i>()) };
        // The lowest bit of every byte becomes its highest.
        let half = _mm256_movemask_epi8(_mm256_slli_epi16::<7>(bytes)) as u32;
        bits[at / 2] |= u64::from(half) << (at % 2 * 32);
    }
    bits
}

/// Packs bytes that are 0 or 1 into bits: byte i becomes bit i % 64 of word i / 64. Uses AVX2 where
/// available.
pub(crate) fn to_bits(keep: &[u8; BLOCK]) -> [u64; BLOCK / 64] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { to_bits_avx2(keep) };
    }
    to_bits_body(keep)
}

/// Returns the 64 bits of `runs` from bit `from` on; bits beyond the end are 0.
#[inline(always)]
fn bits_from(runs: &[u64; BLOCK / 64], from: usize) -> u64 {
    let low = runs.get(from / 64).map_or(0, |word| word >> (from % 64));
    // Two shifts, because `from % 64` may be 0, and a shift by 64 would overflow.
    let high = runs
        .get(from / 64 + 1)
        .map_or(0, |word| word << (63 - from % 64) << 1);
    low | high
}

/// Returns bit `run` of `runs`; 0 beyond the end.
#[inline(always)]
fn bit_of(runs: &[u64; BLOCK / 64], run: usize) -> u64 {
    runs.get(run / 64).map_or(0, |word| word >> (run % 64) & 1)
}

/// Computes the prefix XOR: every bit becomes the XOR of itself and all lower bits.
#[inline(always)]
fn prefix_xor(mut word: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        word ^= word << shift;
    }
    word
}

/// Gives every bit between two marks that of their run: bit i of the result is bit r of `runs`, where r + 1
/// is the number of bits of `marks` up to i; 0 before the first mark. Bits that differ from the one before
/// are put where their runs begin, then each row takes the parity of those up to it.
#[inline(always)]
fn spread_body(
    marks: &[u64; BLOCK / 64],
    runs: &[u64; BLOCK / 64],
    deposit: impl Fn(u64, u64) -> u64,
    prefix_xor: impl Fn(u64) -> u64,
) -> [u64; BLOCK / 64] {
    let (mut rows, mut run, mut last) = ([0; BLOCK / 64], 0, 0);
    for (rows, &marks) in rows.iter_mut().zip(marks) {
        let bits = bits_from(runs, run);
        let changes = deposit(bits ^ (bits << 1 | last), marks);
        *rows = prefix_xor(changes) ^ 0_u64.wrapping_sub(last);
        run += marks.count_ones() as usize;
        // The highest bit of `rows`, taken from the runs: the next word need not wait for this prefix XOR.
        last = run.checked_sub(1).map_or(0, |run| bit_of(runs, run));
    }
    rows
}

/// Moves the lowest bits of `bits` to where `mask` has ones.
#[inline(always)]
fn deposit(mut bits: u64, mut mask: u64) -> u64 {
    let mut moved = 0;
    while mask != 0 {
        let place = mask & mask.wrapping_neg();
        moved |= place * (bits & 1);
        (bits, mask) = (bits >> 1, mask ^ place);
    }
    moved
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi2,popcnt,pclmulqdq")]
fn spread_bmi2(marks: &[u64; BLOCK / 64], runs: &[u64; BLOCK / 64]) -> [u64; BLOCK / 64] {
    use std::arch::x86_64::{
        _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_set1_epi8, _pdep_u64,
    };
    spread_body(
        marks,
        runs,
        |bits, mask| _pdep_u64(bits, mask),
        // The carry-less product with all ones is the prefix XOR: its bit i is the XOR of bits 0 to i.
        |word| {
            let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(word as i64), _mm_set1_epi8(-1));
            _mm_cvtsi128_si64(product) as u64
        },
    )
}

/// Gives every bit between two marks that of their run, the bits before the first mark 0; with BMI2 and
/// PCLMULQDQ where the machine has them.
pub(crate) fn spread_bits(marks: &[u64; BLOCK / 64], runs: &[u64; BLOCK / 64]) -> [u64; BLOCK / 64] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("popcnt")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
    {
        // SAFETY: the machine has all of them.
        return unsafe { spread_bmi2(marks, runs) };
    }
    spread_body(marks, runs, deposit, prefix_xor)
}

/// Writes the run of each row to `runs`: the number of `marks` up to and including the row, less one (0
/// before the first mark). Rows may be counted from the start of any block; only their position within the
/// block matters. Uses POPCNT where available.
///
/// # Panics
/// If `runs` and `rows` differ in length.
pub(crate) fn runs_of(marks: &BlockMask, rows: &[u16], runs: &mut [u16]) {
    assert!(rows.len() == runs.len(), "one run for each row");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the machine has the instruction.
        return unsafe { runs_of_popcnt(marks, rows, runs) };
    }
    runs_of_body(marks, rows, runs);
}

#[inline(always)]
fn runs_of_body(marks: &BlockMask, rows: &[u16], runs: &mut [u16]) {
    // Marks before each word.
    let mut before = [0; BLOCK / 64];
    for word in 1..before.len() {
        before[word] = before[word - 1] + marks[word - 1].count_ones();
    }
    for (run, row) in runs.iter_mut().zip(rows) {
        let (word, bit) = (usize::from(row / 64) % before.len(), row % 64);
        let to_row = (marks[word] << (63 - bit)).count_ones();
        *run = (before[word] + to_row).saturating_sub(1) as u16;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn runs_of_popcnt(marks: &BlockMask, rows: &[u16], runs: &mut [u16]) {
    runs_of_body(marks, rows, runs);
}

/// Iterates over the positions of the set bits in ascending order.
pub(crate) fn set_bits(mask: &BlockMask) -> impl Iterator<Item = usize> + '_ {
    (0..).step_by(64).zip(mask).flat_map(|(first, word)| {
        let left = |word: u64| (word != 0).then_some(word);
        let words = std::iter::successors(left(*word), move |word| left(word & (word - 1)));
        words.map(move |word| first + word.trailing_zeros() as usize)
    })
}

/// Returns the number of rows in a mask, i.e. of set bits. Uses POPCNT where available.
pub fn rows_in(mask: &BlockMask) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the machine has the instruction.
        return unsafe { rows_in_popcnt(mask) };
    }
    rows_in_body(mask)
}

#[inline(always)]
fn rows_in_body(mask: &BlockMask) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn rows_in_popcnt(mask: &BlockMask) -> usize {
    rows_in_body(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_bits() {
        for part in [1, 2, 3, 64, 1000] {
            let keep: [u8; BLOCK] = std::array::from_fn(|i| u8::from(i % part == 0 || i > 1000));
            for bits in [to_bits(&keep), to_bits_body(&keep)] {
                for (i, &keep) in keep.iter().enumerate() {
                    assert_eq!(bits[i / 64] >> (i % 64) & 1, u64::from(keep), "row {i}");
                }
            }
        }
    }

    #[test]
    fn set_bits_are_found() {
        for part in [1, 2, 63, 64, 65, 1000] {
            let mut mask = [0; BLOCK / 64];
            let rows: Vec<usize> = (0..BLOCK).step_by(part).collect();
            rows.iter().for_each(|row| mask[row / 64] |= 1 << (row % 64));
            assert!(set_bits(&mask).eq(rows));
        }
        assert_eq!(set_bits(&[0; BLOCK / 64]).count(), 0);
    }

    #[test]
    fn spreading_loops_agree() {
        let word = |seed: usize| (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for density in 0..3 {
            let marks: [u64; BLOCK / 64] = std::array::from_fn(|i| match density {
                0 => word(i) & word(i + 50) & word(i + 90),
                1 => word(i) | word(i + 50),
                _ => u64::MAX * u64::from(i % 5 == 2),
            });
            let runs = std::array::from_fn(|i| word(i + 7) ^ word(i + 3) << 5);
            assert_eq!(
                spread_bits(&marks, &runs),
                spread_body(&marks, &runs, deposit, prefix_xor)
            );
        }
    }
}
