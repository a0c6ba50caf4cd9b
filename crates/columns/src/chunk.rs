//! Chunks of packed keys: encoding one, and reading its blocks.
//!
//! Invariant: a packed value p of a chunk is a key `min + p` when the chunk has no NULL; with NULLs, p equal to the
//! entry's marker is NULL and other values are `min + p - 1` (marker 0) or `min + p` (any other marker).

use crate::error::damaged;
use crate::format::{ALIGN, BLOCK, BLOCK_BYTES_PER_BIT, ChunkEntry, ENCODING_PACKED};
use crate::kernel::{self, Lane, with_lane};
use crate::{ColumnsError, Result};
use std::ops::Range;
use zerocopy::{FromBytes, IntoBytes};

/// A chunk as the writer hands it on: `entry` lacks its place (`part`, `offset`).
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) entry: ChunkEntry,
    /// The chunk's bytes, in words so that lanes are aligned.
    pub(crate) words: Vec<u64>,
}

impl Encoded {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.words.as_bytes()
    }
}

/// Bits to hold `value`.
pub(crate) fn width_of(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// Appends `values` (up to a block, the rest zero) packed in `width` bits.
pub(crate) fn pack_block(width: usize, values: &[u64], words: &mut Vec<u64>) {
    fn lanes<L: Lane>(width: usize, values: &[u64], out: &mut [u8]) {
        let mut block = [L::default(); BLOCK];
        for (lane, value) in block.iter_mut().zip(values) {
            *lane = L::truncate(*value);
        }
        let out = <[L]>::mut_from_bytes(out).expect("words are aligned for every lane");
        kernel::pack(width, &block, out);
    }
    if width == 0 {
        return;
    }
    let start = words.len();
    words.resize(start + width * BLOCK_BYTES_PER_BIT / 8, 0);
    let out = words[start..].as_mut_bytes();
    with_lane!(width, L => lanes::<L>(width, values, out));
}

/// Encodes one chunk. `nulls` are the rows (sorted) that are NULL; their keys are ignored (and overwritten).
///
/// # Panics
/// If there is no row.
pub(crate) fn encode_keys(keys: &mut [u64], nulls: &[u32]) -> Encoded {
    let mut entry = ChunkEntry {
        rows: keys.len() as u32,
        nulls: nulls.len() as u32,
        encoding: ENCODING_PACKED,
        ..Default::default()
    };
    if nulls.len() == keys.len() {
        return Encoded {
            entry,
            words: Vec::new(),
        };
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
    let width = width_of(largest);
    entry.width = width as u8;
    let mut words = Vec::with_capacity(keys.len().div_ceil(BLOCK) * width * BLOCK_BYTES_PER_BIT / 8);
    let mut nulls = nulls;
    for (block, keys) in keys.chunks_mut(BLOCK).enumerate() {
        for key in keys.iter_mut() {
            *key = (*key - min) + shift;
        }
        let end = (block + 1) * BLOCK;
        let here = nulls.partition_point(|&row| (row as usize) < end);
        for &row in &nulls[..here] {
            keys[row as usize % BLOCK] = entry.null_marker;
        }
        nulls = &nulls[here..];
        pack_block(width, keys, &mut words);
    }
    entry.len = (words.len() * 8) as u64;
    entry.checksum = crate::format::checksum(words.as_bytes());
    Encoded { entry, words }
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

/// A chunk of packed keys, checked and ready to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedChunk<'a> {
    pub(crate) entry: &'a ChunkEntry,
    bytes: &'a [u8],
}

impl<'a> PackedChunk<'a> {
    /// Checks that `bytes` are what `entry` says. O(1).
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn new(entry: &'a ChunkEntry, bytes: &'a [u8]) -> Result<Self, &'static str> {
        let width = usize::from(entry.width);
        if entry.encoding != ENCODING_PACKED {
            return Err("unknown encoding of packed values");
        }
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
        let blocks = (entry.rows as usize).div_ceil(BLOCK);
        if bytes.len() != blocks * width * BLOCK_BYTES_PER_BIT {
            return Err("chunk has the wrong length");
        }
        if !bytes.is_empty() && !(bytes.as_ptr() as usize).is_multiple_of(align_of::<u64>()) {
            return Err("chunk is not aligned");
        }
        Ok(Self { entry, bytes })
    }

    pub(crate) fn width(&self) -> usize {
        usize::from(self.entry.width)
    }

    pub(crate) fn rows(&self) -> usize {
        self.entry.rows as usize
    }

    /// What to add to a packed value to get its key (wrapping).
    pub(crate) fn key_base(&self) -> u64 {
        let shifted = self.entry.nulls > 0 && self.entry.null_marker == 0;
        self.entry.min.wrapping_sub(u64::from(shifted))
    }

    /// The packed value that means NULL.
    pub(crate) fn null(&self) -> Option<u64> {
        (self.entry.nulls > 0).then_some(self.entry.null_marker)
    }

    /// The bytes of a packed block.
    pub(crate) fn block(&self, block: usize) -> &'a [u8] {
        let len = self.width() * BLOCK_BYTES_PER_BIT;
        &self.bytes[block * len..(block + 1) * len]
    }

    /// A packed block as lanes of type `L`, which must be the lane of the chunk's width.
    pub(crate) fn lanes<L: Lane>(&self, block: usize) -> &'a [L] {
        <[L]>::ref_from_bytes(self.block(block)).expect("alignment was checked")
    }

    /// Calls `each` with the packed values of `rows`, block by block.
    pub(crate) fn for_each_block<L: Lane>(&self, rows: Range<usize>, mut each: impl FnMut(&[L])) {
        let mut values = [L::default(); BLOCK];
        let mut row = rows.start;
        while row < rows.end {
            let (block, start) = (row / BLOCK, row % BLOCK);
            let end = (rows.end - block * BLOCK).min(BLOCK);
            kernel::unpack(self.width(), self.lanes::<L>(block), &mut values);
            each(&values[start..end]);
            row = block * BLOCK + end;
        }
    }

    /// Calls `each` with the position (in `rows`) and packed value of single rows of this chunk. `rows` are
    /// offset by `first`, the number of the chunk's first row. A block with many of them is unpacked as a whole.
    pub(crate) fn for_each_row<L: Lane>(&self, rows: &[u32], first: usize, mut each: impl FnMut(L)) {
        let mut values = [L::default(); BLOCK];
        let mut rest = rows;
        while let Some(&row) = rest.first() {
            let block = (row as usize - first) / BLOCK;
            let run = rest
                .iter()
                .take_while(|&&row| (row as usize - first) / BLOCK == block)
                .count();
            let lanes = self.lanes::<L>(block);
            if run >= UNPACK_WHOLE {
                kernel::unpack(self.width(), lanes, &mut values);
                rest[..run]
                    .iter()
                    .for_each(|&row| each(values[(row as usize - first) % BLOCK]));
            } else {
                for &row in &rest[..run] {
                    each(kernel::unpack_one(
                        self.width(),
                        lanes,
                        (row as usize - first) % BLOCK,
                    ));
                }
            }
            rest = &rest[run..];
        }
    }
}

/// Rows wanted of one block from which on the whole block is unpacked (measured with `examples/scan_speed.rs`).
const UNPACK_WHOLE: usize = 48;

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

    fn keys_of(chunk: &PackedChunk<'_>, rows: Range<usize>) -> Vec<Option<u64>> {
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
        let encoded = encode_keys(&mut keys, &nulls);
        let values = || expected.iter().flatten();
        assert_eq!(encoded.entry.min, values().min().copied().unwrap_or(0));
        assert_eq!(encoded.entry.max, values().max().copied().unwrap_or(0));
        let chunk = PackedChunk::new(&encoded.entry, encoded.bytes()).expect("valid");
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
            from in 0usize..3000,
            len in 0usize..3000,
        ) {
            let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            let low = if width == 64 { 0 } else { low.min(u64::MAX - mask) };
            let keys: Vec<Option<u64>> = seed
                .iter()
                .map(|key| if all { Some(low + (key.unwrap_or(7) & mask)) } else { key.map(|key| low + (key & mask)) })
                .collect();
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
