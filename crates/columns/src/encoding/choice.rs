//! Which encoding a chunk gets: the one that takes the fewest bits, where quicker ones are allowed a few more.
//!
//! An encoding that is slower to decode must save about one bit per row. On SSB's lineorder, dates become
//! dictionaries, order keys deltas, and what an order has once (customer, date, total) runs. A table with the
//! encoding `plain` stores every value in the lane of its type, for comparisons.

use super::packed::packed_len;
use super::{list, packed, plain, runs, steps};
use crate::chunk::width_of;
use crate::format::{
    BLOCK, ENCODING_DICTIONARY, ENCODING_MARKED, ENCODING_PACKED, ENCODING_PLAIN, ENCODING_RUNS,
    ENCODING_STEPS, KeysHeader, align_up,
};
use crate::kernel::with_lane;
use crate::select::BlockMask;
use crate::sketch::mix;

/// Bits a row that an encoding must save before it replaces packed values, for what its decoding takes longer. A packed
/// block is decoded in about 0.1 ns a value, a slow tier gives a byte in 0.2 to 1 ns to each thread.
const LIST_DETOUR: f64 = 1.5;
const STEPS_DETOUR: f64 = 1.0;
const RUNS_DETOUR: f64 = 0.5;

/// What is known of the local values of a chunk before they are encoded.
#[derive(Debug)]
struct Survey {
    /// Runs as `runs` would store them, within blocks; long ones count once for each piece.
    runs: usize,
    /// Smallest and largest step within the blocks, if no value is below the one before.
    steps: Option<(u64, u64)>,
    /// About how many distinct values there are.
    distinct: usize,
}

impl Survey {
    fn of(values: &[u64]) -> Self {
        let (mut runs, mut ascends) = (0, true);
        let (mut smallest, mut largest) = (u64::MAX, 0);
        for block in values.chunks(BLOCK) {
            // A run that is cut after so many rows counts as one more; never more of them than these.
            runs += 1 + block.len() / runs::LONGEST;
            for pair in block.windows(2) {
                runs += usize::from(pair[0] != pair[1]);
                let step = pair[1].wrapping_sub(pair[0]);
                ascends &= pair[0] <= pair[1];
                smallest = smallest.min(step);
                largest = largest.max(step);
            }
        }
        Self {
            runs,
            steps: (ascends && largest >= smallest).then_some((smallest, largest)),
            distinct: distinct(values),
        }
    }
}

/// About how many distinct values there are: linear counting (Whang et al., TODS'90), a bit per row.
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

/// A chunk's encoding and words, and about how many distinct values it has.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) encoding: u8,
    pub(crate) words: Vec<u64>,
    pub(crate) distinct: usize,
}

/// Encodes local values of this width. `values` must not be empty.
pub(crate) fn encode(width: usize, values: &[u64]) -> Chosen {
    if width == 0 {
        return Chosen {
            encoding: ENCODING_PACKED,
            words: Vec::new(),
            distinct: 1,
        };
    }
    let survey = Survey::of(values);
    let mut distinct = survey.distinct;
    let lane = with_lane!(width, L => size_of::<L>());
    let (rows, header) = (values.len(), size_of::<KeysHeader>());
    let blocks = rows.div_ceil(BLOCK);
    let detour = |bits: f64| (bits * rows as f64 / 8.0) as usize;
    let list_bytes = |distinct: usize| {
        let positions = packed_len(width_of(distinct as u64 - 1), rows);
        header + align_up(distinct * lane) + positions + detour(LIST_DETOUR)
    };
    let starts = (survey.runs, ENCODING_RUNS).min((blocks * size_of::<BlockMask>(), ENCODING_MARKED));
    let run_bytes =
        header + align_up((blocks + 1) * 4) + align_up(starts.0) + survey.runs * lane + detour(RUNS_DETOUR);
    let mut best = (packed_len(width, rows), ENCODING_PACKED);
    if plain::fills_lane(width) {
        best.1 = ENCODING_PLAIN;
    }
    // Runs that most often have one row would only make reading slow.
    if survey.runs <= rows / 2 {
        best = best.min((run_bytes, starts.1));
    }
    if let Some((smallest, largest)) = survey.steps {
        let steps = packed_len(width_of(largest - smallest), rows);
        let bytes = header + align_up(blocks * lane) + steps + detour(STEPS_DETOUR);
        best = best.min((bytes, ENCODING_STEPS));
    }
    // Only a list that seems worth it is made, then measured exactly.
    if list_bytes(distinct - distinct / 16) < best.0 {
        let list = list::of(values);
        distinct = list.len();
        if list_bytes(distinct) < best.0 {
            return Chosen {
                encoding: ENCODING_DICTIONARY,
                words: list::encode(width, values, &list),
                distinct,
            };
        }
    }
    let words = match (best.1, survey.steps) {
        (ENCODING_PLAIN, _) => plain::encode(width, values),
        (ENCODING_RUNS | ENCODING_MARKED, _) => runs::encode(width, values, best.1 == ENCODING_MARKED),
        (ENCODING_STEPS, Some(steps)) => steps::encode(width, values, steps),
        _ => packed::encode(width, values),
    };
    Chosen {
        encoding: best.1,
        words,
        distinct,
    }
}

/// Encodes in a certain way, whatever it takes; `None` if these values cannot be encoded so.
#[cfg(test)]
pub(crate) fn encode_as(encoding: u8, width: usize, values: &[u64]) -> Option<Vec<u64>> {
    match encoding {
        ENCODING_PACKED => Some(packed::encode(width, values)),
        _ if width == 0 => None,
        ENCODING_PLAIN => plain::fills_lane(width).then(|| plain::encode(width, values)),
        ENCODING_DICTIONARY => Some(list::encode(width, values, &list::of(values))),
        ENCODING_STEPS => Survey::of(values)
            .steps
            .map(|steps| steps::encode(width, values, steps)),
        ENCODING_RUNS | ENCODING_MARKED => Some(runs::encode(width, values, encoding == ENCODING_MARKED)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The encoding of values that `value` makes of their row's number.
    fn encoding_of(value: impl Fn(u64) -> u64) -> u8 {
        let values: Vec<u64> = (0..65_536).map(value).collect();
        let largest = values.iter().max().copied().unwrap_or(0);
        encode(width_of(largest), &values).encoding
    }

    fn mixed(row: u64) -> u64 {
        (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
    }

    #[test]
    fn typical_columns_get_their_encodings() {
        assert_eq!(encoding_of(|_| 0), ENCODING_PACKED, "constant");
        assert_eq!(encoding_of(|row| mixed(row) % 50), ENCODING_PACKED, "quantities");
        assert_eq!(
            encoding_of(|row| mixed(row) % 0xffff_ffff),
            ENCODING_PLAIN,
            "hashes"
        );
        assert_eq!(encoding_of(|row| row / 4), ENCODING_STEPS, "order keys");
        assert_eq!(encoding_of(|row| row), ENCODING_STEPS, "numbers of rows");
        assert_eq!(
            encoding_of(|row| mixed(row / 4) % 300_000),
            ENCODING_MARKED,
            "customers of orders"
        );
        assert_eq!(
            encoding_of(|row| mixed(row / 40) % 300_000),
            ENCODING_RUNS,
            "customers, sorted by something near"
        );
        assert_eq!(
            encoding_of(|row| mixed(row) % 2406 / 365 * 10_000 + mixed(row) % 365),
            ENCODING_DICTIONARY,
            "dates"
        );
        assert_eq!(encoding_of(|row| mixed(row) % 800_000), ENCODING_PACKED, "parts");
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
