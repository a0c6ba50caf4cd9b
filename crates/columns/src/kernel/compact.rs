//! Compaction: the values of a block's selected rows side by side; 64 bytes at a time with AVX-512, eight
//! values with AVX2.
#![allow(unsafe_code, reason = "a loop that is built for AVX2")]

#[cfg(target_arch = "x86_64")]
use super::selection::POSITIONS;
#[cfg(target_arch = "x86_64")]
use super::simd::{load_eight, load_line, load_rows, store_eight, store_line, store_rows};
use super::{BlockMask, Lane};
use crate::format::BLOCK;
#[cfg(target_arch = "x86_64")]
use zerocopy::{FromBytes, IntoBytes};

/// Rows whose values are moved at once.
const GROUP: usize = 8;

/// Writes the values of the rows whose bits are set to the start of `out`, in order, and returns their
/// number. Elements of `out` after them are unspecified.
pub(crate) fn compact<L: Lane>(values: &[L; BLOCK], mask: &BlockMask, out: &mut [L; BLOCK]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the machine has all of it.
        return unsafe { compact_avx512(values, mask, out) };
    }
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
    for (first, word) in (0..BLOCK).step_by(64).zip(mask) {
        match *word {
            0 => {}
            word if word.count_zeros() as usize * size_of::<L>() <= MAX_COPIED_GAP_BYTES => {
                copy_around(values, first, !word, &mut out[count..]);
                count += word.count_ones() as usize;
            }
            word => {
                for (at, group) in values[first..first + 64]
                    .as_chunks::<GROUP>()
                    .0
                    .iter()
                    .enumerate()
                {
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

/// Bytes of the values of a word that are left out, up to which what is between them is copied. More are
/// faster moved group by group.
const MAX_COPIED_GAP_BYTES: usize = 16;

/// Copies the 64 values from row `first` on, without those whose bit is set. What follows a value that is
/// left out is copied over it, 64 values in any case: no length depends on the bits.
#[inline(always)]
fn copy_around<L: Lane>(values: &[L; BLOCK], first: usize, mut left_out: u64, out: &mut [L]) {
    let (mut from, mut to) = (first, 0);
    loop {
        match (
            values[from..].first_chunk::<64>(),
            out[to..].first_chunk_mut::<64>(),
        ) {
            (Some(values), Some(out)) => *out = *values,
            _ => {
                let rest = &values[from..first + 64];
                out[to..to + rest.len()].copy_from_slice(rest);
            }
        }
        if left_out == 0 {
            return;
        }
        let after = first + left_out.trailing_zeros() as usize + 1;
        left_out &= left_out - 1;
        to += after - 1 - from;
        from = after;
    }
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
fn has_avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512bw") && std::arch::is_x86_feature_detected!("avx512vbmi2")
}

/// Compacts line by line: a line has 64 values or fewer, whose bits are those of a word or of a part of one.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
fn compact_avx512<L: Lane>(values: &[L; BLOCK], mask: &BlockMask, out: &mut [L; BLOCK]) -> usize {
    use std::arch::x86_64::{
        _mm512_maskz_compress_epi8, _mm512_maskz_compress_epi16, _mm512_maskz_compress_epi32,
        _mm512_maskz_compress_epi64,
    };
    let (each, mut count) = (64 / size_of::<L>(), 0);
    for (line, first) in values
        .as_bytes()
        .as_chunks::<64>()
        .0
        .iter()
        .zip((0..BLOCK).step_by(each))
    {
        let bits = mask[first / 64] >> (first % 64) & (u64::MAX >> (64 - each));
        let line = load_line(line);
        let moved = match each {
            64 => _mm512_maskz_compress_epi8(bits, line),
            32 => _mm512_maskz_compress_epi16(bits as u32, line),
            16 => _mm512_maskz_compress_epi32(bits as u16, line),
            _ => _mm512_maskz_compress_epi64(bits as u8, line),
        };
        // No more values were selected than precede the line, so that there is always room.
        if let Some(out) = out.as_mut_bytes()[count * size_of::<L>()..].first_chunk_mut() {
            store_line(out, moved);
        }
        count += bits.count_ones() as usize;
    }
    count
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
        for density in 0..7 {
            let mask: BlockMask = std::array::from_fn(|at| match density {
                0 => word(at) & word(at + 50) & word(at + 90),
                1 => word(at) | word(at + 50),
                2 => u64::MAX * u64::from(at % 5 == 2),
                3 => word(at) | word(at + 3) | word(at + 7) | (u64::MAX * u64::from(at % 3 == 0)),
                4 => !(1 << (word(at) >> 58)),
                5 => !(1 << (word(at) >> 58) | 1 << (word(at + 9) >> 58) | 1 << 63 | 1),
                _ => u64::MAX,
            });
            let selected = (0..BLOCK).filter(|row| mask[row / 64] >> (row % 64) & 1 == 1);
            let expected: Vec<L> = selected.map(|row| values[row]).collect();
            let insist = |compact: fn(&[L; BLOCK], &BlockMask, &mut [L; BLOCK]) -> usize| {
                let mut out = [L::default(); BLOCK];
                let count = compact(&values, &mask, &mut out);
                assert!(out[..count] == expected, "density {density}, {} bits", L::BITS);
            };
            insist(compact);
            insist(|values, mask, out| compact_body(values, mask, out, move_each));
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
                // SAFETY: the machine has both.
                insist(|values, mask, out| unsafe { compact_avx2(values, mask, out) });
            }
        }
    }

    #[test]
    fn loops_agree() {
        for width in [8, 16, 32, 64] {
            with_lane!(width, L => loops_agree_in::<L>());
        }
    }
}
