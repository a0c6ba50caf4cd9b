//! The choice of a codec: the one that takes the fewest bits, where faster ones are allowed a few more.
//!
//! A codec that is slower to decode must save about one bit per row. On SSB's lineorder, dates become
//! dictionaries, order keys deltas, and what an order has once (customer, date, total) runs. A table with the
//! encoding `plain` stores every value in the lane of its type, for comparisons.

use super::{Encoder, encoders, run_length};
use crate::codec::sketch::mix;
use crate::format::{BLOCK, CODEC_BIT_PACKED};
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
    fn new(width: usize, offsets: &'v [u64]) -> Self {
        let (mut runs, mut ascends) = (0, true);
        let (mut smallest, mut largest) = (u64::MAX, 0);
        for block in offsets.chunks(BLOCK) {
            // A long run is stored in pieces: an upper bound of their number.
            runs += 1 + block.len() / run_length::LONGEST;
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

/// An encoded chunk.
#[derive(Debug)]
pub(crate) struct ChosenCodec {
    /// The number of the codec.
    pub(crate) codec: u8,
    pub(crate) words: Vec<u64>,
    /// The number of distinct offsets, to a few percent.
    pub(crate) distinct: usize,
}

/// Encodes offsets of this width with the codec of the least cost.
///
/// # Panics
/// If there are no offsets.
pub(crate) fn choose(width: usize, offsets: &[u64]) -> ChosenCodec {
    if width == 0 {
        return ChosenCodec {
            codec: CODEC_BIT_PACKED,
            words: Vec::new(),
            distinct: 1,
        };
    }
    let stats = ChunkStats::new(width, offsets);
    let estimate = |encoder: Encoder| Some(((encoder.estimate)(&stats)?, encoder.id, encoder));
    let mut candidates: Vec<_> = encoders().into_iter().filter_map(estimate).collect();
    candidates.sort_unstable_by_key(|(cost, id, _)| (*cost, *id));
    let limits = candidates
        .iter()
        .skip(1)
        .map(|(cost, ..)| *cost)
        .chain([usize::MAX]);
    let encoded = candidates
        .iter()
        .zip(limits)
        .find_map(|((_, id, encoder), limit)| Some((*id, (encoder.encode)(&stats, limit)?)));
    let (codec, words) = encoded.expect("offsets can be bit-packed");
    ChosenCodec {
        codec,
        words,
        distinct: stats.distinct(),
    }
}

/// Encodes with a given codec, whatever it costs. `None` if it cannot store these offsets.
#[cfg(test)]
pub(crate) fn encode_with(codec: u8, width: usize, offsets: &[u64]) -> Option<Vec<u64>> {
    let stats = ChunkStats::new(width, offsets);
    let encoder = encoders()
        .into_iter()
        .find(|encoder| encoder.id == codec && (codec == CODEC_BIT_PACKED || width > 0))?;
    let runs = [crate::format::CODEC_RUN_LENGTHS, crate::format::CODEC_RUN_STARTS];
    if !runs.contains(&codec) && codec != CODEC_BIT_PACKED {
        (encoder.estimate)(&stats)?;
    }
    match codec {
        CODEC_BIT_PACKED => Some(super::bit_packed::encode(width, offsets)),
        _ => (encoder.encode)(&stats, usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::chunk::width_of;
    use crate::format::{CODEC_DELTA, CODEC_DICTIONARY, CODEC_PLAIN, CODEC_RUN_LENGTHS, CODEC_RUN_STARTS};

    /// The encoding of values that `value` makes of their row's number.
    fn encoding_of(value: impl Fn(u64) -> u64) -> u8 {
        let values: Vec<u64> = (0..65_536).map(value).collect();
        let largest = values.iter().max().copied().unwrap_or(0);
        choose(width_of(largest), &values).codec
    }

    fn mixed(row: u64) -> u64 {
        (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
    }

    #[test]
    fn typical_columns_get_their_encodings() {
        assert_eq!(encoding_of(|_| 0), CODEC_BIT_PACKED, "constant");
        assert_eq!(encoding_of(|row| mixed(row) % 50), CODEC_BIT_PACKED, "quantities");
        assert_eq!(encoding_of(|row| mixed(row) % 0xffff_ffff), CODEC_PLAIN, "hashes");
        assert_eq!(encoding_of(|row| row / 4), CODEC_DELTA, "order keys");
        assert_eq!(encoding_of(|row| row), CODEC_DELTA, "numbers of rows");
        assert_eq!(
            encoding_of(|row| mixed(row / 4) % 300_000),
            CODEC_RUN_STARTS,
            "customers of orders"
        );
        assert_eq!(
            encoding_of(|row| mixed(row / 40) % 300_000),
            CODEC_RUN_LENGTHS,
            "customers, sorted by something near"
        );
        assert_eq!(
            encoding_of(|row| mixed(row) % 2406 / 365 * 10_000 + mixed(row) % 365),
            CODEC_DICTIONARY,
            "dates"
        );
        assert_eq!(encoding_of(|row| mixed(row) % 800_000), CODEC_BIT_PACKED, "parts");
    }

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
