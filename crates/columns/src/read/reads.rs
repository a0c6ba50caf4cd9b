//! Reports of the reads of a chunk to the observer of its medium, and prefetches.
//!
//! Without an observer a report is one predictable branch. An emulated device charges what is reported to it,
//! so that a reader reports ranges of blocks and lines of single rows before it reads them.

use crate::codec::chunk::KeyChunk;
use crate::format::{BLOCK, KeysHeader};
use halocline_media::{Bytes, LINE, prefetch};
use halocline_pool::ExtentBytes;
use std::ops::Range;

/// Lines of blocks for each row from which on only the lines of the rows are reported. Fewer arrive anyway
/// when reading on, as the unit of a medium has several lines and the next unit comes sooner.
const FEW: u64 = 8;

impl<'a> KeyChunk<'a> {
    /// Sets the extent that the chunk lies in, for its observer.
    #[inline]
    pub(crate) fn on(mut self, extent: &'a ExtentBytes) -> Self {
        if extent.observer().is_some() {
            self.observed = Some(extent);
            extent.touch(self.entry.offset as usize, size_of::<KeysHeader>());
            scan(extent, self.codec.shared_bytes());
        }
        self
    }

    /// Reports that rows of these blocks are about to be read.
    #[inline(always)]
    pub(crate) fn reads(&self, blocks: Range<usize>) {
        if let Some(extent) = self.observed {
            self.reads_of(extent, blocks);
        }
    }

    #[cold]
    fn reads_of(&self, extent: &ExtentBytes, blocks: Range<usize>) {
        for bytes in self.blocks_bytes(blocks) {
            scan(extent, bytes);
        }
    }

    /// Prefetches a block, if there is one of that number.
    #[inline]
    pub(crate) fn prefetch(&self, block: usize) {
        if block * BLOCK >= self.rows() {
            return;
        }
        for bytes in self.blocks_bytes(block..block + 1) {
            for at in (0..bytes.len()).step_by(LINE as usize) {
                prefetch(bytes, at);
            }
            if let Some(extent) = self.observed.filter(|_| !bytes.is_empty()) {
                extent.scan_ahead(offset_in(extent, bytes), bytes.len());
            }
        }
    }

    /// Prefetches ranges of the chunk that are about to be read, independently of each other.
    pub(crate) fn fetch<'b>(&self, bytes: impl Iterator<Item = &'b [u8]> + Clone) {
        let lines = |bytes: &'b [u8]| (0..bytes.len()).step_by(LINE as usize).map(|at| &bytes[at..]);
        bytes.clone().flat_map(lines).for_each(|line| prefetch(line, 0));
        if let Some(extent) = self.observed {
            extent.touch_each(bytes.flat_map(lines).map(|line| offset_in(extent, line)));
        }
    }

    /// Reports that these rows, ascending and counted from a block on, are about to be read.
    #[inline(always)]
    pub(crate) fn reads_rows(&self, block: usize, rows: &[u16]) {
        if let Some(extent) = self.observed {
            self.reads_rows_of(extent, block, rows);
        }
    }

    #[cold]
    fn reads_rows_of(&self, extent: &ExtentBytes, block: usize, rows: &[u16]) {
        let of = |row: u16| usize::from(row) / BLOCK;
        if let Some(packed) = self.codec.packed_rows() {
            let blocks = rows.chunk_by(|a, b| of(*a) == of(*b)).count();
            let lines = packed.blocks(block..block + 1).len() as u64 / LINE * blocks as u64;
            if FEW * rows.len() as u64 <= lines {
                let base = offset_in(extent, packed.blocks(block..block + 1));
                return extent.touch_each(packed.row_bytes(rows).map(|at| base + at));
            }
        }
        // Ranges of consecutive blocks.
        for rows in rows.chunk_by(|a, b| of(*b) <= of(*a) + 1) {
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                self.reads_of(extent, block + of(*first)..block + of(*last) + 1);
            }
        }
    }
}

fn scan(extent: &ExtentBytes, part: &[u8]) {
    // An empty slice may point anywhere, also outside of the extent.
    if !part.is_empty() {
        extent.scan(offset_in(extent, part), part.len());
    }
}

/// Returns the offset of a part of an extent in it.
fn offset_in(extent: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).wrapping_sub(extent.as_ptr() as usize)
}
