//! Reads of a column of 4-byte values: all of them, or every j-th.

use halocline_media::{LINE, Medium};

/// Bytes that are copied at once from a medium without direct words.
const COPY_BYTES: usize = 4096;
/// Values that are prefetched at once from a medium without direct words.
const AHEAD: usize = 32;

/// Returns the wrapping sum of the 8-byte words of a range.
///
/// # Panics
/// If the range is not on the medium, or offset and length are not multiples of a line.
pub fn sum(medium: &Medium, offset: u64, len: u64) -> u64 {
    assert!(
        offset.is_multiple_of(LINE) && len.is_multiple_of(LINE),
        "{len} bytes at {offset} are not lines"
    );
    if let Some(words) = medium.words(offset, (len / 8) as usize) {
        return words.sum();
    }
    let mut copy = [0_u8; COPY_BYTES];
    let mut sum = 0_u64;
    for at in (offset..offset + len).step_by(COPY_BYTES) {
        let part = &mut copy[..COPY_BYTES.min((offset + len - at) as usize)];
        medium.load(at, part);
        for word in part.as_chunks::<8>().0 {
            sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sum
}

/// Returns the number and the wrapping sum of the 4-byte values at every `stride`-th byte of a range, the
/// first one included.
///
/// # Panics
/// If the range is not on the medium; if offset, length or stride is not a multiple of 4, or the stride is 0.
pub fn sum_strided(medium: &Medium, offset: u64, len: u64, stride: u64) -> (u64, u32) {
    assert!(
        stride > 0 && [offset, len, stride].iter().all(|bytes| bytes.is_multiple_of(4)),
        "{len} bytes at {offset} in steps of {stride} are not 4-byte values"
    );
    let (first, end) = (offset / 8 * 8, offset + len);
    let mut sum = 0_u32;
    if let Some(words) = medium.words(first, ((end - first).div_ceil(8)) as usize) {
        let whole_words = offset.is_multiple_of(8) && len.is_multiple_of(8);
        if stride == 4 && whole_words {
            sum = words.sum_halves();
        } else if stride.is_multiple_of(8) && whole_words {
            sum = words.sum_low_halves((stride / 8) as usize);
        } else {
            for at in (offset - first..end - first).step_by(stride as usize) {
                sum = sum.wrapping_add(half(words.load((at / 8) as usize), at));
            }
        }
    } else if stride < LINE {
        sum = sum_by_lines(medium, (offset, end), stride);
    } else if stride == LINE {
        let mut value = [0; 4];
        for at in (offset..end).step_by(LINE as usize) {
            medium.load(at, &mut value);
            sum = sum.wrapping_add(u32::from_le_bytes(value));
        }
    } else {
        sum = sum_ahead(medium, (offset, end), stride);
    }
    (len.div_ceil(stride), sum)
}

/// Reads each line once, which holds several of the values.
fn sum_by_lines(medium: &Medium, (offset, end): (u64, u64), stride: u64) -> u32 {
    let (mut sum, mut at) = (0_u32, offset);
    let mut line = [0; LINE as usize];
    while at < end {
        let start = at / LINE * LINE;
        let stop = (start + LINE).min(end);
        let line = &mut line[..(stop - start) as usize];
        medium.load(start, line);
        while at < stop {
            let from = (at - start) as usize;
            let value = [line[from], line[from + 1], line[from + 2], line[from + 3]];
            sum = sum.wrapping_add(u32::from_le_bytes(value));
            at += stride;
        }
    }
    sum
}

/// Reads values in lines that do not follow each other. The reads are independent, which a core finds out by
/// itself, and a medium that models one has to be told.
fn sum_ahead(medium: &Medium, (offset, end): (u64, u64), stride: u64) -> u32 {
    let (mut sum, mut value) = (0_u32, [0; 4]);
    for first in (offset..end).step_by(AHEAD * stride as usize) {
        let values = || (first..end).step_by(stride as usize).take(AHEAD);
        values().for_each(|at| medium.prefetch(at));
        for at in values() {
            medium.load(at, &mut value);
            sum = sum.wrapping_add(u32::from_le_bytes(value));
        }
    }
    sum
}

/// Returns the 4-byte value at byte `at` of the word that holds it.
#[inline(always)]
fn half(word: u64, at: u64) -> u32 {
    (word >> (at % 8 * 8)) as u32
}

#[cfg(test)]
mod tests {
    use halocline_media::{Counting, Dram, MediumBackend};

    use super::*;

    /// Returns a medium with direct words and one without, both with value `i` at index `i`.
    fn media() -> [Medium; 2] {
        let values: Vec<u8> = (0..4096_u32).flat_map(u32::to_le_bytes).collect();
        let direct = Medium::from(Dram::new(0).unwrap());
        let charged = Counting::new(Dram::new(0).unwrap());
        charged.grow(values.len() as u64).unwrap();
        let media = [direct, Medium::from(charged)];
        for medium in &media {
            medium.grow(values.len() as u64).unwrap();
            medium.store(0, &values);
        }
        media
    }

    #[test]
    fn sums_are_those_of_the_values() {
        for medium in media() {
            let words = |range: std::ops::Range<u64>| {
                range.fold(0_u64, |sum, word| {
                    sum.wrapping_add((2 * word) | ((2 * word + 1) << 32))
                })
            };
            assert_eq!(sum(&medium, 0, 16384), words(0..2048));
            assert_eq!(sum(&medium, 64, 8192 + 64), words(8..1040));
            assert_eq!(sum(&medium, 64, 0), 0);
            for stride in [4, 8, 12, 20, 64, 100, 256, 4096, 1 << 20] {
                for (offset, len) in [(0, 16384), (4, 8000), (60, 12), (16380, 4), (128, 0)] {
                    let expected: Vec<u64> = (offset..offset + len)
                        .step_by(stride as usize)
                        .map(|at| at / 4)
                        .collect();
                    assert_eq!(
                        sum_strided(&medium, offset, len, stride),
                        (expected.len() as u64, expected.iter().sum::<u64>() as u32),
                        "{len} bytes at {offset} by {stride}"
                    );
                }
            }
        }
    }
}
