//! Chunks of ordered keys: reading their blocks.
//!
//! Invariant: an offset o of a chunk is the key `min + o` if the chunk has no NULL. With NULLs, an offset
//! equal to the entry's marker is NULL and other offsets are `min + o - 1` (marker 0) or `min + o` (any other
//! marker). How offsets are stored is up to the [codec](crate::codec).

use crate::codec::CodeMap;
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::codec::dispatch::KeyCodec;
use crate::codec::reads::{ChunkReads, blocks_of};
use crate::error::damaged;
use crate::format::{ALIGN, BLOCK, ChunkEntry, KeysHeader};
use crate::kernel::{self, AlignedBlock, BlockMask, Code, Lane, width_of};
use crate::read::bitset::Bitset;
use crate::read::row_selection::{SelectedBlock, SelectedBlocks};
use crate::{ColumnsError, Result};
use halocline_media::Bytes;
use halocline_pool::ExtentBytes;
use std::ops::Range;

/// A chunk of keys, checked and ready to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyChunk<'a> {
    pub(crate) entry: &'a ChunkEntry,
    pub(crate) codec: KeyCodec<'a>,
    /// Where its reads are reported.
    pub(crate) reads: ChunkReads<'a>,
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
            reads: ChunkReads::default(),
        })
    }

    /// Sets the extent that the chunk lies in, for its observer.
    #[inline]
    pub(crate) fn on(mut self, extent: &'a ExtentBytes) -> Self {
        if extent.observer().is_some() {
            self.reads = ChunkReads::from_extent(extent);
            extent.touch(self.entry.offset as usize, size_of::<KeysHeader>());
            self.reads.report([self.codec.shared_bytes()]);
        }
        self
    }

    /// Reports that rows of these blocks are about to be read.
    #[inline(always)]
    pub(crate) fn report(&self, blocks: Range<usize>) {
        if self.reads.are_observed() {
            self.reads.report(self.blocks_bytes(blocks));
        }
    }

    /// Reports that these rows, ascending and counted from a block on, are about to be read.
    #[inline(always)]
    pub(crate) fn report_rows(&self, block: usize, rows: &[u16]) {
        match self.codec.packed_rows() {
            _ if !self.reads.are_observed() => {}
            Some(packed) => self.reads.report_rows(packed, block, rows),
            None => blocks_of(block, rows).for_each(|blocks| self.report(blocks)),
        }
    }

    /// Prefetches the lines of rows that are about to be read, independently of each other. Returns false if
    /// rows are not read alone.
    #[inline]
    fn fetch_rows<L: Lane>(&self, rows: impl Iterator<Item = usize> + Clone) -> bool {
        if let Some(packed) = self.codec.packed_rows() {
            self.reads.fetch_rows(packed, rows);
            return true;
        }
        if self.codec.stored_block::<L>(0).is_none() {
            return false;
        }
        let stored = |row: usize| {
            let [block, _] = self.blocks_bytes(row / BLOCK..row / BLOCK + 1);
            &block[row % BLOCK * size_of::<L>()..][..size_of::<L>()]
        };
        self.reads.fetch(rows.map(stored));
        true
    }

    /// Prefetches a block, if there is one of that number.
    #[inline]
    pub(crate) fn prefetch(&self, block: usize) {
        if block * BLOCK < self.rows() {
            self.reads.prefetch(self.blocks_bytes(block..block + 1));
        }
    }

    /// Returns the bits of an offset, which decide the lane it is read in.
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

    /// Returns the offset that means NULL.
    pub(crate) fn null(&self) -> Option<u64> {
        self.entry.null()
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

    /// Clears the bits of `mask` for the rows of a block that do not match a [translated](Self::translate)
    /// predicate. `scratch` holds a block of 64-bit lanes.
    pub(crate) fn apply(
        &self,
        predicate: &ChunkPredicate,
        block: usize,
        scratch: &mut [u64],
        mask: &mut BlockMask,
    ) {
        let kept = self.evaluate(block, predicate, scratch);
        mask.iter_mut().zip(kept).for_each(|(mask, kept)| *mask &= kept);
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
            self.report(block..block + 1);
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

    /// Calls `each` with the offsets of the selected rows, in order, up to a block at a time. A block is
    /// decoded once, or if few of its rows are selected, each of them.
    pub(crate) fn for_each_selected<L: Lane>(
        &self,
        selected: SelectedBlocks<'_>,
        mut each: impl FnMut(&[L]),
    ) {
        let (mut values, mut kept) = (AlignedBlock::<L>::default(), AlignedBlock::<L>::default());
        let mut few = FewOffsets::default();
        for SelectedBlock { number, mask, rows } in selected.iter() {
            self.report(number..number + 1);
            let is_whole = rows == self.rows_of(number);
            if !is_whole && rows < self.codec.whole_block_rows().min(WHOLE_SELECTION_ROWS) {
                let offsets = kernel::set_bits(mask).map(|row| self.codec.get(number * BLOCK + row));
                few.extend(offsets, &mut each);
                continue;
            }
            // Rows are passed on in order, so those collected so far go first.
            few.flush(&mut each);
            let offsets = match self.codec.stored_block(number) {
                Some(stored) => stored,
                None => {
                    self.codec.unpack(number, &mut values.0);
                    &values.0
                }
            };
            if is_whole {
                each(&offsets[..rows]);
            } else {
                let rows = kernel::compact(offsets, mask, &mut kept.0);
                each(&kept.0[..rows]);
            }
        }
        few.flush(&mut each);
    }

    /// Calls `each` with the offsets of single rows of this chunk, in the order given, up to a block at a
    /// time. `rows` are offset by `first`, the number of the chunk's first row. A block with many of them
    /// is read as a whole.
    pub(crate) fn for_each_row<L: Lane>(&self, rows: &[u32], first: usize, mut each: impl FnMut(&[L])) {
        let mut values = AlignedBlock::<L>::default();
        let mut few = FewOffsets::default();
        let mut rest = rows;
        let block_of = |row: u32| (row as usize - first) / BLOCK;
        let blocks = rows.chunk_by(|a, b| block_of(*a) == block_of(*b)).count();
        // Few rows of many blocks wait for memory. Their lines are fetched first, so that the waits overlap.
        if rows.len() <= MAX_FETCHED_ROWS_PER_BLOCK * blocks {
            for some in rows.chunks(ROWS_IN_FLIGHT) {
                let within = some.iter().map(|row| *row as usize - first);
                if !self.fetch_rows::<L>(within.clone()) {
                    break;
                }
                few.extend(within.map(|row| self.codec.get(row)), &mut each);
                rest = &rest[some.len()..];
            }
        }
        for run in rest.chunk_by(|a, b| block_of(*a) == block_of(*b)) {
            let block = block_of(run[0]);
            self.report(block..block + 1);
            let rows = run.iter().map(|&row| row as usize - first);
            if run.len() >= self.codec.whole_block_rows() {
                self.codec.unpack(block, &mut values.0);
                few.extend(rows.map(|row| values.0[row % BLOCK]), &mut each);
            } else {
                few.extend(rows.map(|row| self.codec.get(row)), &mut each);
            }
        }
        few.flush(&mut each);
    }
}

/// Maximum number of rows of a block, on average, whose lines are fetched instead of the block.
const MAX_FETCHED_ROWS_PER_BLOCK: usize = 4;

/// Rows whose lines are in flight: about as many as a core has misses outstanding, a few times over.
const ROWS_IN_FLIGHT: usize = 64;

/// Number of rows of a block from which on the block is always decoded as a whole if they are a selection.
const WHOLE_SELECTION_ROWS: usize = 48;

/// Offsets that were decoded one by one and not passed on yet.
struct FewOffsets<L> {
    offsets: [L; OFFSETS_PER_CALL],
    len: usize,
}

/// Maximum number of offsets that are passed on together.
const OFFSETS_PER_CALL: usize = 128;

impl<L: Lane> Default for FewOffsets<L> {
    fn default() -> Self {
        Self {
            offsets: [L::default(); OFFSETS_PER_CALL],
            len: 0,
        }
    }
}

impl<L: Lane> FewOffsets<L> {
    fn extend(&mut self, offsets: impl Iterator<Item = L>, each: &mut impl FnMut(&[L])) {
        for offset in offsets {
            if self.len == OFFSETS_PER_CALL {
                self.flush(each);
            }
            self.offsets[self.len] = offset;
            self.len += 1;
        }
    }

    fn flush(&mut self, each: &mut impl FnMut(&[L])) {
        if self.len > 0 {
            each(&self.offsets[..self.len]);
            self.len = 0;
        }
    }
}

/// Returns the bytes of a chunk within its part.
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
