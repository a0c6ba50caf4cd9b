//! Chunks of ordered keys: encoding one, and reading its blocks.
//!
//! Invariant: an offset o of a chunk is the key `min + o` if the chunk has no NULL. With NULLs, an offset
//! equal to the entry's marker is NULL and other offsets are `min + o - 1` (marker 0) or `min + o` (any other
//! marker). How offsets are stored is up to the [codec](crate::codec).

use crate::codec::choose;
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::codec::plain;
use crate::codec::{CodeMap, KeyCodec, bit_packed};
use crate::error::damaged;
use crate::format::{ALIGN, BLOCK, CODEC_BIT_PACKED, CODEC_PLAIN, ChunkEntry, checksum};
use crate::kernel::{AlignedBlock, Lane, with_lane};
use crate::read::bitset::Bitset;
use crate::read::codes::Code;
use crate::read::select::BlockMask;
use crate::{ColumnsError, Result};
use halocline_pool::ExtentBytes;
use std::ops::Range;
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

/// Bits to hold `value`.
pub(crate) fn width_of(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// Encodes one chunk, each key in as many bits: quickly, for what is soon encoded anew, and for constants.
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

/// Encodes one chunk as plain values in lanes of at least so many bits. All keys are overwritten.
///
/// # Panics
/// If there is no row; if `bits` are those of no lane.
pub(crate) fn encode_plain(keys: &mut [u64], nulls: &[u32], bits: usize) -> Encoded {
    let mut entry = to_offsets(keys, nulls);
    if nulls.len() == keys.len() {
        return Encoded::new(entry, Vec::new());
    }
    let width = with_lane!(usize::from(entry.width).max(bits), L => <L as Lane>::BITS);
    let distinct = choose::distinct(keys);
    entry.width = width as u8;
    entry.encoding = CODEC_PLAIN;
    entry.distinct = valued(distinct, nulls);
    Encoded::new(entry, plain::encode(width, keys))
}

/// Distinct values of a chunk as its entry has them, of distinct offsets.
fn valued(distinct: usize, nulls: &[u32]) -> u16 {
    // NULL was counted as a value.
    let distinct = distinct.saturating_sub(usize::from(!nulls.is_empty())).max(1);
    u16::try_from(distinct).unwrap_or(u16::MAX)
}

/// Encodes one chunk in a certain way; `None` if its keys cannot be encoded so.
#[cfg(test)]
pub(crate) fn encode_as(encoding: u8, keys: &[u64], nulls: &[u32]) -> Option<Encoded> {
    let mut keys = keys.to_vec();
    let mut entry = to_offsets(&mut keys, nulls);
    entry.encoding = encoding;
    Some(Encoded::new(
        entry,
        choose::encode_with(encoding, entry.width.into(), &keys)?,
    ))
}

/// All encodings of keys.
#[cfg(test)]
pub(crate) const CODECS: [u8; 6] = {
    use crate::format::{CODEC_DELTA, CODEC_DICTIONARY, CODEC_RUN_LENGTHS, CODEC_RUN_STARTS};
    [
        CODEC_BIT_PACKED,
        CODEC_PLAIN,
        CODEC_DICTIONARY,
        CODEC_DELTA,
        CODEC_RUN_LENGTHS,
        CODEC_RUN_STARTS,
    ]
};

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

/// An offset from `min` that no key has, not 0. A chunk has far fewer rows than there are offsets.
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

/// A chunk of keys, checked and ready to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyChunk<'a> {
    pub(crate) entry: &'a ChunkEntry,
    pub(crate) codec: KeyCodec<'a>,
    /// The extent to which reads are reported, if it has an observer.
    pub(crate) observed: Option<&'a ExtentBytes>,
}

impl<'a> KeyChunk<'a> {
    /// Checks that `bytes` are what `entry` says. O(1).
    ///
    /// # Errors
    /// A text that says which part is wrong.
    pub(crate) fn new(entry: &'a ChunkEntry, bytes: &'a [u8]) -> Result<Self, &'static str> {
        let width = usize::from(entry.width);
        if width > 64 || entry.nulls > entry.rows || entry.min > entry.max {
            return Err("chunk entry contradicts itself");
        }
        let shifted = u64::from(entry.nulls > 0 && entry.null_marker == 0);
        let fits = |value: u64| width_of(value) <= width;
        let valued = entry.nulls < entry.rows;
        if valued && !(entry.max - entry.min).checked_add(shifted).is_some_and(fits)
            || !fits(entry.null_marker)
        {
            return Err("chunk bounds do not fit its width");
        }
        if !bytes.is_empty() && !(bytes.as_ptr() as usize).is_multiple_of(align_of::<u64>()) {
            return Err("chunk is not aligned");
        }
        let rows = entry.rows as usize;
        Ok(Self {
            entry,
            codec: KeyCodec::open(entry.encoding, width, rows, bytes)?,
            observed: None,
        })
    }

    /// Bits of a offset: decides the lane it is read in.
    pub(crate) fn width(&self) -> usize {
        usize::from(self.entry.width)
    }

    pub(crate) fn rows(&self) -> usize {
        self.entry.rows as usize
    }

    /// Returns the number to add to an offset to get its key (wrapping).
    pub(crate) fn key_base(&self) -> u64 {
        let shifted = self.entry.nulls > 0 && self.entry.null_marker == 0;
        self.entry.min.wrapping_sub(u64::from(shifted))
    }

    /// The offset that means NULL.
    pub(crate) fn null(&self) -> Option<u64> {
        (self.entry.nulls > 0).then_some(self.entry.null_marker)
    }

    /// Returns the bytes of consecutive blocks, in at most two ranges.
    pub(crate) fn blocks_bytes(&self, blocks: Range<usize>) -> [&'a [u8]; 2] {
        self.codec.blocks_bytes(self.width(), blocks)
    }

    /// Translates a predicate on offsets to the numbers that the codec stores.
    pub(crate) fn translate(&self, predicate: ChunkPredicate) -> ChunkPredicate {
        self.codec.translate(self.width(), predicate)
    }

    /// Returns the rows of a block that match a [translated](Self::translate) predicate.
    pub(crate) fn evaluate(
        &self,
        block: usize,
        predicate: &ChunkPredicate,
        scratch: &mut [u64],
    ) -> BlockMask {
        self.codec.evaluate(self.width(), block, predicate, scratch)
    }

    /// Returns the rows of a block whose slot is set, as [`Codec::probe`](crate::codec::Codec::probe) does.
    pub(crate) fn probe(&self, block: usize, shift: u32, slots: &Bitset) -> Option<BlockMask> {
        self.codec.probe(self.width(), block, shift, slots)
    }

    /// Sets a map from offsets to codes to this chunk. `shift` is added to an offset to get its code.
    pub(crate) fn set_map<C: Code>(&self, map: &mut CodeMap<C>, shift: C) {
        map.set_chunk(shift, self.null());
        self.codec.prepare(self.width(), map);
    }

    /// Returns the number of rows of a block.
    ///
    /// # Panics
    /// If there is no such block.
    pub(crate) fn rows_of(&self, block: usize) -> usize {
        assert!(block * BLOCK < self.rows(), "there is no block {block}");
        (self.rows() - block * BLOCK).min(BLOCK)
    }

    /// Calls `each` with the offsets of `rows`, block by block.
    pub(crate) fn for_each_block<L: Lane>(&self, rows: Range<usize>, mut each: impl FnMut(&[L])) {
        let mut values = AlignedBlock::<L>::default();
        let mut row = rows.start;
        while row < rows.end {
            let (block, start) = (row / BLOCK, row % BLOCK);
            let end = (rows.end - block * BLOCK).min(BLOCK);
            self.reads(block..block + 1);
            let offsets = match self.codec.stored_block(block) {
                Some(stored) => stored,
                None => {
                    self.codec.unpack(block, &mut values.0);
                    &values.0
                }
            };
            // One call, so that the caller's loop is inlined.
            each(&offsets[start..end]);
            row = block * BLOCK + end;
        }
    }

    /// Calls `each` with the offsets of single rows of this chunk. `rows` are offset by `first`, the number
    /// of the chunk's first row. A block with many of them is read as a whole.
    pub(crate) fn for_each_row<L: Lane>(&self, rows: &[u32], first: usize, mut each: impl FnMut(L)) {
        let mut values = AlignedBlock::<L>::default();
        let mut rest = rows;
        while let Some(&row) = rest.first() {
            let block = (row as usize - first) / BLOCK;
            let run = rest
                .iter()
                .take_while(|&&row| (row as usize - first) / BLOCK == block)
                .count();
            self.reads(block..block + 1);
            if run >= self.codec.whole_block_rows() {
                self.codec.unpack(block, &mut values.0);
                rest[..run]
                    .iter()
                    .for_each(|&row| each(values.0[(row as usize - first) % BLOCK]));
            } else {
                rest[..run]
                    .iter()
                    .for_each(|&row| each(self.codec.get(row as usize - first)));
            }
            rest = &rest[run..];
        }
    }
}

/// The bytes of a chunk within its part.
///
/// # Errors
/// [`ColumnsError::Damaged`] at `place` if the entry points outside of the part.
pub(crate) fn bytes_of<'a>(
    entry: &ChunkEntry,
    part: &'a [u8],
    place: impl Fn() -> String,
) -> Result<&'a [u8], ColumnsError> {
    let range = usize::try_from(entry.offset)
        .ok()
        .zip(usize::try_from(entry.len).ok());
    let bytes = range.and_then(|(offset, len)| part.get(offset..offset.checked_add(len)?));
    match bytes {
        Some(bytes) if entry.offset.is_multiple_of(ALIGN as u64) => Ok(bytes),
        _ => Err(damaged(place(), "chunk lies outside of its extent")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        let as_each = CODECS
            .iter()
            .filter_map(|&encoding| encode_as(encoding, &keys, &nulls));
        for encoded in as_each.collect::<Vec<_>>() {
            check_encoded(&encoded, expected, range.clone());
        }
        check_encoded(&encode_packed(&mut keys.clone(), &nulls), expected, range.clone());
        let chosen = encode_keys(&mut keys, &nulls);
        assert!(
            chosen.bytes().len()
                <= encode_as(CODEC_BIT_PACKED, &keys, &[]).map_or(0, |packed| packed.bytes().len()),
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
            chunk.for_each_row::<L>(&rows, 77, |value| single.push(value.widen()));
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
