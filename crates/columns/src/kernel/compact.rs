//! Compaction: the values of a block's selected rows side by side, eight at a time with AVX2.
#![allow(unsafe_code, reason = "a loop that is built for AVX2")]

#[cfg(target_arch = "x86_64")]
use super::selection::POSITIONS;
#[cfg(target_arch = "x86_64")]
use super::simd::{load_eight, load_rows, store_eight, store_rows};
use super::{BlockMask, Lane};
use crate::format::BLOCK;
#[cfg(target_arch = "x86_64")]
use zerocopy::{FromBytes, IntoBytes};

/// Rows whose values are moved at once.
const GROUP: usize = 8;

/// Writes the values of the rows whose bits are set to the start of `out`, in order, and returns their
/// number. Elements of `out` behind them are unspecified.
pub(crate) fn compact<L: Lane>(values: &[L; BLOCK], mask: &BlockMask, out: &mut [L; BLOCK]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the machine has both.
        return unsafe { compact_avx2(values, mask, out) };
    }
    compact_body(values, mask, out, move_each)
}

/// Compacts word by word. `move_group` writes the selected values of a group to the start of another one.
#[inline(always)]
fn compact_body<L: Lane>(
    values: &[L; BLOCK],
    mask: &BlockMask,
    out: &mut [L; BLOCK],
    move_group: impl Fn(&[L; GROUP], u8, &mut [L; GROUP]),
) -> usize {
    let mut count = 0;
    for (word, values) in mask.iter().zip(values.as_chunks::<64>().0) {
        match *word {
            0 => {}
            u64::MAX => {
                out[count..count + 64].copy_from_slice(values);
                count += 64;
            }
            word => {
                for (at, group) in values.as_chunks::<GROUP>().0.iter().enumerate() {
                    let selected = (word >> (at * GROUP)) as u8;
                    // No more values were selected than precede the group, so that there is always room.
                    if let Some(out) = out[count..].first_chunk_mut() {
                        move_group(group, selected, out);
                    }
                    count += selected.count_ones() as usize;
                }
            }
        }
    }
    count
}

/// Moves the values of a group one by one.
#[inline(always)]
fn move_each<L: Lane>(values: &[L; GROUP], selected: u8, out: &mut [L; GROUP]) {
    let mut count = 0;
    for (at, value) in values.iter().enumerate() {
        // No branch depends on what is selected; a later value replaces one that is not.
        out[count % GROUP] = *value;
        count += usize::from(selected >> at & 1);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn compact_avx2<L: Lane>(values: &[L; BLOCK], mask: &BlockMask, out: &mut [L; BLOCK]) -> usize {
    compact_body(values, mask, out, |group, selected, out| {
        move_group_avx2(group, selected, out);
    })
}

/// Moves the values of a group with one shuffle, or one by one if a value has 64 bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn move_group_avx2<L: Lane>(values: &[L; GROUP], selected: u8, out: &mut [L; GROUP]) {
    use std::arch::x86_64::{
        _mm_add_epi16, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_mullo_epi16, _mm_packus_epi16,
        _mm_set1_epi16, _mm_shuffle_epi8, _mm256_cvtepu16_epi32, _mm256_permutevar8x32_epi32,
    };
    let numbers = &POSITIONS[usize::from(selected)];
    let positions = load_rows(numbers);
    // The casts cannot fail: both groups have eight values of this size.
    match L::BITS {
        8 => {
            let (Ok(values), Ok(out)) = (
                <[u8; 8]>::try_from(values.as_bytes()),
                <&mut [u8; 8]>::try_from(out.as_mut_bytes()),
            ) else {
                return;
            };
            let values = _mm_cvtsi64_si128(i64::from_le_bytes(values));
            let moved = _mm_shuffle_epi8(values, _mm_packus_epi16(positions, positions));
            *out = _mm_cvtsi128_si64(moved).to_le_bytes();
        }
        16 => {
            let (Ok(values), Ok(out)) = (
                <[u16; 8]>::ref_from_bytes(values.as_bytes()),
                <[u16; 8]>::mut_from_bytes(out.as_mut_bytes()),
            ) else {
                return;
            };
            // Position p as the bytes 2p and 2p + 1.
            let twice = _mm_mullo_epi16(positions, _mm_set1_epi16(0x0202));
            let from = _mm_add_epi16(twice, _mm_set1_epi16(0x0100));
            store_rows(out, _mm_shuffle_epi8(load_rows(values), from));
        }
        32 => {
            let (Ok(values), Ok(out)) = (
                <[u32; 8]>::ref_from_bytes(values.as_bytes()),
                <[u32; 8]>::mut_from_bytes(out.as_mut_bytes()),
            ) else {
                return;
            };
            let numbers = _mm256_cvtepu16_epi32(positions);
            store_eight(out, _mm256_permutevar8x32_epi32(load_eight(values), numbers));
        }
        _ => {
            for (out, number) in out.iter_mut().zip(numbers) {
                *out = values[usize::from(*number) % GROUP];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::with_lane;
    use super::*;

    fn loops_agree_in<L: Lane>() {
        let word = |seed: usize| (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let values: [L; BLOCK] = std::array::from_fn(|row| L::truncate(word(row) >> 5));
        for density in 0..5 {
            let mask: BlockMask = std::array::from_fn(|at| match density {
                0 => word(at) & word(at + 50) & word(at + 90),
                1 => word(at) | word(at + 50),
                2 => u64::MAX * u64::from(at % 5 == 2),
                3 => word(at) | word(at + 3) | word(at + 7) | u64::MAX * u64::from(at % 3 == 0),
                _ => u64::MAX,
            });
            let selected = (0..BLOCK).filter(|row| mask[row / 64] >> (row % 64) & 1 == 1);
            let expected: Vec<L> = selected.map(|row| values[row]).collect();
            let mut out = [L::default(); BLOCK];
            let count = compact(&values, &mask, &mut out);
            assert!(out[..count] == expected, "density {density}, {} bits", L::BITS);
            out.fill(L::default());
            let count = compact_body(&values, &mask, &mut out, move_each);
            assert!(out[..count] == expected, "density {density}, {} bits", L::BITS);
        }
    }

    #[test]
    fn loops_agree() {
        for width in [8, 16, 32, 64] {
            with_lane!(width, L => loops_agree_in::<L>());
        }
    }
}
