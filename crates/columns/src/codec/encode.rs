//! Encoding of chunks of ordered keys: the offsets, the marker of NULL and the codec.

#[cfg(test)]
use super::dispatch::{Encoder, encoders};
use super::{bit_packed, choose, plain, stats};
use crate::format::{CODEC_BIT_PACKED, CODEC_PLAIN, ChunkEntry, checksum};
use crate::kernel::{Lane, width_of, with_lane};
use zerocopy::IntoBytes;

/// A chunk as the writer hands it on: `entry` lacks its place (`part`, `offset`).
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) entry: ChunkEntry,
    /// The chunk's bytes, in words so that lanes are aligned.
    pub(crate) words: Vec<u64>,
}

impl Encoded {
    fn new(mut entry: ChunkEntry, words: Vec<u64>) -> Self {
        entry.len = (words.len() * 8) as u64;
        if !words.is_empty() {
            entry.checksum = checksum(words.as_bytes());
        }
        Self { entry, words }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.words.as_bytes()
    }
}

/// Encodes one chunk, each key in the same number of bits: quickly, for what is soon encoded anew, and for
/// constants.
/// `nulls` are the rows (sorted) that are NULL; their keys are ignored. All keys are overwritten.
///
/// # Panics
/// If there is no row.
pub(crate) fn encode_packed(keys: &mut [u64], nulls: &[u32]) -> Encoded {
    let entry = to_offsets(keys, nulls);
    Encoded::new(entry, bit_packed::encode(usize::from(entry.width), keys))
}

/// Encodes one chunk as suits it best. All keys are overwritten.
///
/// # Panics
/// If there is no row.
pub(crate) fn encode_keys(keys: &mut [u64], nulls: &[u32]) -> Encoded {
    let mut entry = to_offsets(keys, nulls);
    if nulls.len() == keys.len() {
        return Encoded::new(entry, Vec::new());
    }
    let chosen = choose::choose(usize::from(entry.width), keys);
    entry.encoding = chosen.codec;
    entry.distinct = valued(chosen.distinct, nulls);
    Encoded::new(entry, chosen.words)
}

/// Encodes one chunk as plain values in lanes of at least `bits` bits. All keys are overwritten.
///
/// # Panics
/// If there is no row; if `bits` are those of no lane.
pub(crate) fn encode_plain(keys: &mut [u64], nulls: &[u32], bits: usize) -> Encoded {
    let mut entry = to_offsets(keys, nulls);
    if nulls.len() == keys.len() {
        return Encoded::new(entry, Vec::new());
    }
    let width = with_lane!(usize::from(entry.width).max(bits), L => <L as Lane>::BITS);
    let distinct = stats::distinct(keys);
    entry.width = width as u8;
    entry.encoding = CODEC_PLAIN;
    entry.distinct = valued(distinct, nulls);
    Encoded::new(entry, plain::encode(width, keys))
}

/// Returns the number of distinct values for a chunk entry, from the number of distinct offsets, in which
/// NULL counts as a value. At least 1, and saturates at 65,535.
fn valued(distinct: usize, nulls: &[u32]) -> u16 {
    // NULL was counted as a value.
    let distinct = distinct.saturating_sub(usize::from(!nulls.is_empty())).max(1);
    u16::try_from(distinct).unwrap_or(u16::MAX)
}

/// Encodes one chunk by each codec that can store its keys.
#[cfg(test)]
pub(crate) fn encode_each(keys: &[u64], nulls: &[u32]) -> Vec<Encoded> {
    let mut offsets = keys.to_vec();
    let entry = to_offsets(&mut offsets, nulls);
    let by = |encoder: Encoder| {
        let words = choose::encode_with(&encoder, entry.width.into(), &offsets)?;
        let entry = ChunkEntry {
            encoding: encoder.id,
            ..entry
        };
        Some(Encoded::new(entry, words))
    };
    encoders().into_iter().filter_map(by).collect()
}

/// Turns keys into offsets; what is returned says how wide they are and what they mean.
fn to_offsets(keys: &mut [u64], nulls: &[u32]) -> ChunkEntry {
    let mut entry = ChunkEntry {
        rows: keys.len() as u32,
        nulls: nulls.len() as u32,
        encoding: CODEC_BIT_PACKED,
        ..Default::default()
    };
    if nulls.len() == keys.len() {
        keys.fill(0);
        return entry;
    }
    // A key that is surely a value stands in for the NULLs, so that they widen nothing.
    let first_value = (0u32..).zip(nulls).take_while(|(row, null)| row == *null).count();
    let stand_in = keys[first_value];
    for &row in nulls {
        keys[row as usize] = stand_in;
    }
    let (min, max) = keys
        .iter()
        .fold((u64::MAX, 0), |(min, max), &key| (min.min(key), max.max(key)));
    (entry.min, entry.max) = (min, max);
    let mut shift = u64::from(!nulls.is_empty());
    let mut largest = max - min;
    if shift == 1 {
        match largest.checked_add(1) {
            Some(more) => largest = more,
            None => {
                shift = 0;
                entry.null_marker = unused_offset(keys, min);
            }
        }
    }
    entry.width = width_of(largest) as u8;
    keys.iter_mut().for_each(|key| *key = (*key - min) + shift);
    for &row in nulls {
        keys[row as usize] = entry.null_marker;
    }
    entry
}

/// Returns an offset from `min` that no key has, never 0. One exists, as a chunk has far fewer rows than
/// there are offsets.
fn unused_offset(keys: &[u64], min: u64) -> u64 {
    let mut offsets: Vec<u64> = keys.iter().map(|key| key - min).collect();
    offsets.sort_unstable();
    offsets.dedup();
    // `offsets[0]` is 0: the first gap lies where the offset is not its position.
    let gap = offsets
        .iter()
        .zip(0u64..)
        .position(|(&offset, position)| offset != position);
    gap.unwrap_or(offsets.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::chunk::KeyChunk;
    use proptest::prelude::*;
    use std::ops::Range;

    fn keys_of(chunk: &KeyChunk<'_>, rows: Range<usize>) -> Vec<Option<u64>> {
        let mut keys = Vec::new();
        with_lane!(chunk.width(), L => chunk.for_each_block::<L>(rows, |values| {
            keys.extend(values.iter().map(|&value| {
                let value = value.widen();
                (Some(value) != chunk.null()).then(|| chunk.key_base().wrapping_add(value))
            }));
        }));
        keys
    }

    fn check(expected: &[Option<u64>], range: Range<usize>) {
        let mut keys: Vec<u64> = expected.iter().map(|key| key.unwrap_or(12345)).collect();
        let nulls: Vec<u32> = (0u32..)
            .zip(expected)
            .filter(|(_, key)| key.is_none())
            .map(|(row, _)| row)
            .collect();
        for encoded in encode_each(&keys, &nulls) {
            check_encoded(&encoded, expected, range.clone());
        }
        check_encoded(&encode_packed(&mut keys.clone(), &nulls), expected, range.clone());
        let chosen = encode_keys(&mut keys, &nulls);
        assert!(
            chosen.bytes().len() <= encode_packed(&mut keys.clone(), &[]).bytes().len(),
            "never larger than packed"
        );
        check_encoded(&chosen, expected, range);
    }

    fn check_encoded(encoded: &Encoded, expected: &[Option<u64>], range: Range<usize>) {
        let values = || expected.iter().flatten();
        assert_eq!(encoded.entry.min, values().min().copied().unwrap_or(0));
        assert_eq!(encoded.entry.max, values().max().copied().unwrap_or(0));
        let chunk = KeyChunk::new(&encoded.entry, encoded.bytes()).expect("valid");
        assert_eq!(keys_of(&chunk, range.clone()), &expected[range.clone()]);
        let rows: Vec<u32> = range.map(|row| row as u32 + 77).collect();
        let mut single = Vec::new();
        with_lane!(chunk.width(), L => {
            chunk.for_each_row::<L>(&rows, 77, |values| single.extend(values.iter().map(|value| value.widen())));
        });
        for (row, value) in rows.iter().zip(single) {
            let key = (Some(value) != chunk.null()).then(|| chunk.key_base().wrapping_add(value));
            assert_eq!(key, expected[*row as usize - 77]);
        }
    }

    proptest! {
        #[test]
        fn chunks_come_back(
            width in 0u32..=64,
            low in any::<u64>(),
            seed in proptest::collection::vec(proptest::option::weighted(0.9, any::<u64>()), 1..3000),
            all in any::<bool>(),
            sorted in any::<bool>(),
            few in prop_oneof![Just(u64::MAX), 1u64..300],
            repeat in 1usize..600,
            from in 0usize..3000,
            len in 0usize..3000,
        ) {
            let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            let low = if width == 64 { 0 } else { low.min(u64::MAX - mask) };
            let spread = |key: u64| low + ((key % few) & mask) * (mask / few).max(1);
            let mut keys: Vec<Option<u64>> = seed
                .iter()
                .map(|key| if all { Some(key.unwrap_or(7)) } else { *key }.map(spread))
                .collect();
            if sorted {
                keys.sort_unstable();
            }
            let keys: Vec<Option<u64>> = (0..keys.len()).map(|row| keys[row / repeat]).collect();
            let from = from.min(keys.len());
            let to = (from + len).min(keys.len());
            check(&keys, from..to);
        }
    }

    #[test]
    fn nulls_beside_all_64_bits() {
        check(&[Some(0), None, Some(u64::MAX), Some(1), Some(2)], 0..5);
        check(&[None, Some(0), Some(u64::MAX)], 0..3);
        check(&[None, None], 0..2);
        check(&[Some(5); 2000], 1000..1100);
    }
}
