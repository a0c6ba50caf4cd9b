//! Statistics of the offsets of a chunk, from which codecs estimate their cost.

use super::run_starts::LONGEST_RUN;
use crate::codec::sketch::mix;
use crate::format::BLOCK;
use crate::kernel::with_lane;
use std::cell::OnceCell;

/// Returns the bytes that a codec must save before it replaces bit-packed offsets: `bits` for each row, for
/// its slower decoding. A bit-packed block is decoded in about 0.1 ns a row; a slow tier delivers a byte in
/// 0.2 to 1 ns per thread.
pub(super) fn decode_penalty(bits: f64, rows: usize) -> usize {
    (bits * rows as f64 / 8.0) as usize
}

/// Statistics of the offsets of a chunk before they are encoded.
#[derive(Debug)]
pub(crate) struct ChunkStats<'v> {
    width: usize,
    offsets: &'v [u64],
    runs: usize,
    deltas: Option<(u64, u64)>,
    distinct: usize,
    dictionary: OnceCell<Vec<u64>>,
}

impl<'v> ChunkStats<'v> {
    pub(super) fn new(width: usize, offsets: &'v [u64]) -> Self {
        let (mut runs, mut ascends) = (0, true);
        let (mut smallest, mut largest) = (u64::MAX, 0);
        for block in offsets.chunks(BLOCK) {
            // A long run is stored in pieces: an upper bound of their number.
            runs += 1 + block.len() / LONGEST_RUN;
            for pair in block.windows(2) {
                runs += usize::from(pair[0] != pair[1]);
                let delta = pair[1].wrapping_sub(pair[0]);
                ascends &= pair[0] <= pair[1];
                smallest = smallest.min(delta);
                largest = largest.max(delta);
            }
        }
        Self {
            width,
            offsets,
            runs,
            deltas: (ascends && largest >= smallest).then_some((smallest, largest)),
            distinct: distinct(offsets),
            dictionary: OnceCell::new(),
        }
    }

    /// Returns the bits of an offset.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns the bytes of a lane of the width.
    pub(super) fn lane_bytes(&self) -> usize {
        with_lane!(self.width, L => size_of::<L>())
    }

    /// Returns the number of rows, at least 1.
    pub(super) fn rows(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the offsets in the order of the rows.
    pub(super) fn offsets(&self) -> &'v [u64] {
        self.offsets
    }

    /// Returns an upper bound of the number of runs within blocks; a run has at most 256 rows.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the smallest and largest difference within the blocks, if no offset is below the one before.
    pub(super) fn deltas(&self) -> Option<(u64, u64)> {
        self.deltas
    }

    /// Returns the number of distinct offsets: exactly once [`dictionary`](Self::dictionary) was called, else
    /// to a few percent.
    pub(super) fn distinct(&self) -> usize {
        self.dictionary.get().map_or(self.distinct, Vec::len)
    }

    /// Returns the distinct offsets, ascending. O(n log n) the first time.
    pub(super) fn dictionary(&self) -> &[u64] {
        self.dictionary.get_or_init(|| {
            let mut distinct = self.offsets.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            distinct
        })
    }
}

/// Estimates the number of distinct values by linear counting (Whang et al., TODS'90) with a bit per row.
pub(crate) fn distinct(values: &[u64]) -> usize {
    let bits = values.len().next_power_of_two().max(1 << 10);
    let mut seen = vec![0u64; bits / 64];
    for &value in values {
        let hash = mix(value) >> (64 - bits.trailing_zeros());
        seen[hash as usize / 64] |= 1 << (hash % 64);
    }
    let set: u32 = seen.iter().map(|word| word.count_ones()).sum();
    let empty = (bits - set as usize).max(1) as f64;
    let estimate = bits as f64 * (bits as f64 / empty).ln();
    (estimate.round() as usize).clamp(1, values.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_values_are_counted_nearly() {
        for expected in [1u64, 10, 1000, 30_000, 65_536] {
            let values: Vec<u64> = (0..65_536).map(|row| row % expected * 7919).collect();
            let error = distinct(&values).abs_diff(expected as usize);
            assert!(
                error as f64 <= 0.03 * expected as f64,
                "{expected}: off by {error}"
            );
        }
    }
}
