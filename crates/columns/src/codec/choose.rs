//! The choice of a codec: the one that takes the fewest bits, where faster ones are allowed a few more.
//!
//! A codec that is slower to decode must save about one bit per row. On SSB's lineorder, dates become
//! dictionaries, order keys deltas, and what an order has once (customer, date, total) runs. A table with the
//! encoding `plain` stores every value in the lane of its type, for comparisons.

use super::dispatch::{Encoder, encoders};
use super::stats::ChunkStats;
use crate::format::CODEC_BIT_PACKED;

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
    let encoders = encoders().into_iter().filter(|encoder| (encoder.accepts)(width));
    let mut candidates: Vec<_> = encoders.filter_map(estimate).collect();
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
pub(crate) fn encode_with(encoder: &Encoder, width: usize, offsets: &[u64]) -> Option<Vec<u64>> {
    let is_constant = width == 0;
    if !(encoder.accepts)(width) || is_constant && encoder.id != CODEC_BIT_PACKED {
        return None;
    }
    (encoder.encode)(&ChunkStats::new(width, offsets), usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{CODEC_DELTA, CODEC_DICTIONARY, CODEC_PLAIN, CODEC_RUN_LENGTHS, CODEC_RUN_STARTS};
    use crate::kernel::width_of;

    /// Returns the codec chosen for 65,536 values that `value` computes from their row numbers.
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
}
