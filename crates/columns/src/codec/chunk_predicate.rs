//! Predicates on the offsets of one chunk: [`ChunkPredicate`].
//!
//! A predicate on codes is translated to the offsets of a chunk, and on to the numbers that its codec stores.
//! So blocks are compared as they are unpacked, in their narrow lanes, and what the codec stores once for
//! several rows is compared once.

use crate::format::{BLOCK, ChunkEntry};
use crate::kernel::{self, BlockMask, Lane, Values, width_of};
use crate::read::predicate::CodePredicate;

/// One byte per row of a block: 1 = keep.
pub(crate) type Keep = [u8; BLOCK];

/// A predicate on the offsets of one chunk, or on the numbers that its codec stores.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChunkPredicate {
    Nothing,
    All,
    Within {
        lo: u64,
        hi: u64,
    },
    /// One of a few values.
    Few(Vec<u64>),
    /// A bit per value: 1 = keep.
    Table(Vec<u64>),
    /// One of many values, sorted; with a bit for each remainder of a value by [`FILTER`], to pass most
    /// others by.
    Many(Vec<u64>, Box<[u64; FILTER / 64]>),
}

/// Sets up to this size are compared value by value.
const MAX_COMPARED_VALUES: usize = 4;
/// Chunks up to this width look sets up in a table, made per chunk: 256 KiB at most.
const TABLE_WIDTH: usize = 21;
/// Bits of the filter before a binary search.
const FILTER: usize = 1 << 14;

impl ChunkPredicate {
    /// Translates `predicate` to the offsets of the chunk of `entry`. `shift` is added to an offset (not
    /// NULL) to get its code; `zone` is the smallest and largest code of the chunk's values without NULL.
    pub(crate) fn new(predicate: &CodePredicate, entry: &ChunkEntry, shift: u64, zone: (u64, u64)) -> Self {
        let null = entry.null().filter(|_| predicate.matches(0));
        let only_nulls = entry.nulls > 0 && entry.nulls == entry.rows;
        let values = match predicate {
            _ if only_nulls => Self::Nothing,
            CodePredicate::Any => Self::All,
            CodePredicate::Nothing => Self::Nothing,
            CodePredicate::Range { lo, hi } => Self::within(*lo, *hi, shift, zone),
            CodePredicate::Set(codes) => {
                let from = codes.partition_point(|&code| code < zone.0);
                let to = codes.partition_point(|&code| code <= zone.1);
                let inside = codes[from..to.max(from)]
                    .iter()
                    .map(|code| code.wrapping_sub(shift));
                Self::one_of(inside.collect(), entry.width.into())
            }
        };
        values.and_null(entry, null)
    }

    fn within(lo: u64, hi: u64, shift: u64, zone: (u64, u64)) -> Self {
        if lo > zone.1 || hi < zone.0 {
            return Self::Nothing;
        }
        if lo <= zone.0 && hi >= zone.1 {
            return Self::All;
        }
        Self::Within {
            lo: lo.max(zone.0).wrapping_sub(shift),
            hi: hi.min(zone.1).wrapping_sub(shift),
        }
    }

    fn one_of(values: Vec<u64>, width: usize) -> Self {
        match values.len() {
            0 => Self::Nothing,
            1..=MAX_COMPARED_VALUES => Self::Few(values),
            _ if width <= TABLE_WIDTH => {
                let mut table = vec![0; (1 << width) / 64 + 1];
                values
                    .iter()
                    .for_each(|&value| set_bit(&mut table, value as usize));
                Self::Table(table)
            }
            _ => {
                let mut filter = Box::new([0; FILTER / 64]);
                values
                    .iter()
                    .for_each(|&value| set_bit(&mut filter[..], value as usize % FILTER));
                Self::Many(values, filter)
            }
        }
    }

    /// Includes or excludes the chunk's NULLs, which were left aside so far.
    fn and_null(self, entry: &ChunkEntry, null: Option<u64>) -> Self {
        let Some(marker) = entry.null() else { return self };
        match (self, null) {
            // The marker is 0 here: with any other one, 64 bits cannot number the values and NULL, and the
            // column has no codes.
            (Self::All, Some(_)) => Self::All,
            (Self::All, None) if marker == 0 => Self::Within { lo: 1, hi: u64::MAX },
            // NULL is stored right below the smallest value.
            (Self::Within { lo: 1, hi }, Some(0)) => Self::Within { lo: 0, hi },
            (Self::Nothing, Some(marker)) if entry.nulls == entry.rows => {
                debug_assert_eq!(marker, 0);
                Self::All
            }
            (Self::Nothing, Some(marker)) => Self::Within {
                lo: marker,
                hi: marker,
            },
            (Self::Few(mut values), Some(marker)) => {
                values.push(marker);
                Self::Few(values)
            }
            (Self::Table(mut table), Some(marker)) => {
                set_bit(&mut table, marker as usize);
                Self::Table(table)
            }
            (Self::Many(mut values, mut filter), Some(marker)) => {
                let at = values.partition_point(|&value| value < marker);
                values.insert(at, marker);
                set_bit(&mut filter[..], marker as usize % FILTER);
                Self::Many(values, filter)
            }
            (values, _) => values,
        }
    }

    /// Estimates the share of the rows that match, for the order of predicates.
    pub(crate) fn selectivity(&self, entry: &ChunkEntry) -> f64 {
        let domain = (entry.max - entry.min) as f64 + 1.0;
        let kept = match self {
            Self::Nothing => 0.0,
            Self::All => domain,
            Self::Within { lo, hi } => (hi - lo) as f64 + 1.0,
            Self::Few(values) | Self::Many(values, _) => values.len() as f64,
            Self::Table(table) => table.iter().map(|word| f64::from(word.count_ones())).sum(),
        };
        (kept / domain).min(1.0)
    }

    /// Translates the predicate to positions in a sorted list of offsets.
    pub(crate) fn on_positions<L: Lane>(self, list: &[L]) -> Self {
        let below = |value: u64| list.partition_point(|other| other.widen() < value) as u64;
        match self {
            Self::Within { lo, hi } => {
                let end = hi.checked_add(1).map_or(list.len() as u64, below);
                match (below(lo), end) {
                    (lo, end) if lo >= end => Self::Nothing,
                    (0, end) if end == list.len() as u64 => Self::All,
                    (lo, end) => Self::Within { lo, hi: end - 1 },
                }
            }
            Self::Few(values) | Self::Many(values, _) => {
                let find = |value: &u64| list.binary_search_by_key(value, |other| other.widen()).ok();
                let positions: Vec<u64> = values.iter().filter_map(find).map(|at| at as u64).collect();
                Self::one_of(positions, width_of(list.len() as u64))
            }
            Self::Table(table) => {
                let kept = (0u64..)
                    .zip(list)
                    .filter(|(_, value)| bit(&table, value.widen() as usize) == 1);
                Self::one_of(
                    kept.map(|(position, _)| position).collect(),
                    width_of(list.len() as u64),
                )
            }
            same => same,
        }
    }

    /// Returns the positions of the numbers that match, of a block or of fewer.
    pub(crate) fn matches<L: Lane>(&self, values: Values<'_, L>, scratch: &mut [u64]) -> BlockMask {
        if let Self::Within { lo, hi } = self {
            let most = L::truncate(u64::MAX).widen();
            return if *lo <= most {
                kernel::within(values, L::truncate(*lo), L::truncate((*hi).min(most) - lo))
            } else {
                // No value of the lane reaches `lo`.
                [0; BLOCK / 64]
            };
        }
        let (room, keep) = (kernel::lanes::<L>(scratch), &mut [1; BLOCK]);
        match values {
            Values::Packed(width, packed) => kernel::unpack(width, packed, room),
            Values::Lanes(lanes) => {
                room[..lanes.len()].copy_from_slice(lanes);
                // The rest of the room is left over from other blocks.
                keep[lanes.len()..].fill(0);
            }
        }
        self.compare(room, keep);
        kernel::to_bits(keep)
    }

    /// Returns true if no number can match that is at least `smallest`.
    pub(crate) fn excludes_from(&self, smallest: u64) -> bool {
        matches!(self, Self::Within { hi, .. } if *hi < smallest)
    }

    /// Clears `keep` for the values that do not match.
    fn compare<L: Lane>(&self, values: &[L; BLOCK], keep: &mut Keep) {
        match self {
            Self::All => {}
            Self::Nothing => keep.fill(0),
            Self::Within { lo, hi } => {
                for (keep, value) in keep.iter_mut().zip(values) {
                    *keep &= u8::from((*lo..=*hi).contains(&value.widen()));
                }
            }
            Self::Few(few) => {
                let mut any = [0u8; BLOCK];
                for &wanted in few {
                    let wanted = L::truncate(wanted);
                    any.iter_mut()
                        .zip(values.iter())
                        .for_each(|(any, value)| *any |= u8::from(*value == wanted));
                }
                keep.iter_mut().zip(any).for_each(|(keep, any)| *keep &= any);
            }
            Self::Table(table) => {
                for (keep, value) in keep.iter_mut().zip(values.iter()) {
                    *keep &= bit(table, value.widen() as usize);
                }
            }
            Self::Many(many, filter) => {
                for (keep, value) in keep.iter_mut().zip(values.iter()) {
                    let value = value.widen();
                    *keep &= bit(&filter[..], value as usize % FILTER);
                    if *keep == 1 {
                        *keep = u8::from(many.binary_search(&value).is_ok());
                    }
                }
            }
        }
    }
}

fn set_bit(bits: &mut [u64], at: usize) {
    bits[at / 64] |= 1 << (at % 64);
}

/// Returns the bit as 0 or 1; 0 past the end.
#[inline]
fn bit(bits: &[u64], at: usize) -> u8 {
    bits.get(at / 64).map_or(0, |word| (word >> (at % 64) & 1) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::chunk::KeyChunk;
    use crate::codec::encode::{Encoded, encode_each};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn conditions_agree_with_codes(
            width in 0u32..=64,
            seed in proptest::collection::vec(proptest::option::weighted(0.85, any::<u64>()), 1..1024),
            has_null in any::<bool>(),
            below in 0u64..50,
            a in any::<prop::sample::Index>(),
            b in any::<prop::sample::Index>(),
            others in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
            kind in 0..6,
            around in 0u64..3,
            sorted in any::<bool>(),
            repeat in 1usize..600,
            few in prop_oneof![Just(u64::MAX), 1u64..300],
        ) {
            let mask = if width == 64 { u64::MAX >> 1 } else { (1 << width) - 1 };
            // Codes of this chunk lie `below` above the column's smallest.
            let mut codes: Vec<u64> = seed.iter().map(|code| match code {
                None if has_null => 0,
                // Few values are spread over all of the width.
                code => ((code.unwrap_or(3) % few) & mask) * (mask / few).max(1) + below + u64::from(has_null),
            }).collect();
            codes.sort_unstable();
            let pick = |index: prop::sample::Index| codes[index.index(codes.len())];
            let (lo, hi) = (pick(a).min(pick(b)).saturating_sub(around), pick(a).max(pick(b)) + around);
            let set = CodePredicate::set(others.iter().map(|&index| pick(index).saturating_sub(around)).collect());
            let predicate = match kind {
                0 => CodePredicate::Any,
                1 => CodePredicate::Nothing,
                2 => CodePredicate::equal(lo),
                3 => CodePredicate::range(lo, hi),
                4 => CodePredicate::range(0, hi),
                _ => set,
            };
            if !sorted {
                let mut rng = halocline_workloads::SplitMix64::new(lo ^ hi);
                rng.shuffle(&mut codes);
            }
            let codes: Vec<u64> = (0..codes.len() * 2).map(|row| codes[row % codes.len() / repeat]).collect();
            let nulls: Vec<u32> =
                (0u32..).zip(&codes).filter(|(_, code)| has_null && **code == 0).map(|(row, _)| row).collect();
            for encoded in encode_each(&codes, &nulls) {
                compare(&encoded, &codes, &predicate);
            }
        }
    }

    /// Compares what a chunk of these codes (which are keys here) keeps with what it should.
    fn compare(encoded: &Encoded, codes: &[u64], predicate: &CodePredicate) {
        let chunk = KeyChunk::new(&encoded.entry, encoded.bytes()).expect("valid");
        let zone = (encoded.entry.min, encoded.entry.max);
        let local = chunk.translate(ChunkPredicate::new(
            predicate,
            chunk.entry,
            chunk.key_base(),
            zone,
        ));
        for (block, codes) in codes.chunks(BLOCK).enumerate() {
            let mut mask = [u64::MAX; BLOCK / 64];
            chunk.apply(&local, block, &mut [0; BLOCK], &mut mask);
            if local == ChunkPredicate::Nothing {
                mask.fill(0);
            }
            for (row, &code) in codes.iter().enumerate() {
                assert_eq!(
                    mask[row / 64] >> (row % 64) & 1 == 1,
                    predicate.matches(code),
                    "{predicate:?} {local:?} encoding {} code {code}",
                    encoded.entry.encoding
                );
            }
        }
    }
}
