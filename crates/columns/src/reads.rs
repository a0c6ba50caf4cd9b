//! What is read of a chunk, as its medium is told: stretches of blocks from front to back, and lines of single rows.
//!
//! A real medium needs no telling, and lines are fetched ahead only where that pays. An emulated one charges what it is told, so
//! reading a chunk says what it reads before it does.

use crate::chunk::{Body, KeysChunk};
use crate::format::{BLOCK, KeysHeader};
use halocline_media::{Bytes, LINE, prefetch};
use halocline_pool::ExtentBytes;
use std::ops::Range;

/// Lines of blocks for each row from which on only those of the rows are read: fewer are brought in by reading on, as a medium's
/// unit has several lines and comes sooner if it is the next one.
const FEW: u64 = 8;

impl<'a> KeysChunk<'a> {
    /// The same in an extent, which is told what is read of it if it is an emulated one.
    #[inline]
    pub(crate) fn on(mut self, extent: &'a ExtentBytes) -> Self {
        if extent.observer().is_some() {
            self.emulated = Some(extent);
            let head = match &self.body {
                Body::Packed(_) | Body::Plain(_) => &[],
                Body::List(list) => list.values_bytes(),
                Body::Steps(steps) => steps.firsts(),
                Body::Runs(runs) => runs.firsts(),
            };
            extent.touch(self.entry.offset as usize, size_of::<KeysHeader>());
            scan(extent, head);
        }
        self
    }

    /// Says that some of these blocks' rows are about to be read, all of them at best.
    #[inline(always)]
    pub(crate) fn reads(&self, blocks: Range<usize>) {
        if let Some(extent) = self.emulated {
            self.reads_of(extent, blocks);
        }
    }

    #[cold]
    fn reads_of(&self, extent: &ExtentBytes, blocks: Range<usize>) {
        for bytes in self.blocks_bytes(blocks) {
            scan(extent, bytes);
        }
    }

    /// Starts to fetch a block, if there is one of that number.
    #[inline]
    pub(crate) fn prefetch(&self, block: usize) {
        if block * BLOCK >= self.rows() {
            return;
        }
        for bytes in self.blocks_bytes(block..block + 1) {
            for at in (0..bytes.len()).step_by(LINE as usize) {
                prefetch(bytes, at);
            }
            if let Some(extent) = self.emulated.filter(|_| !bytes.is_empty()) {
                extent.scan_ahead(offset_in(extent, bytes), bytes.len());
            }
        }
    }

    /// Fetches lines of the chunk that are about to be read, side by side.
    pub(crate) fn fetch<'b>(&self, bytes: impl Iterator<Item = &'b [u8]> + Clone) {
        let lines = |bytes: &'b [u8]| (0..bytes.len()).step_by(LINE as usize).map(|at| &bytes[at..]);
        bytes.clone().flat_map(lines).for_each(|line| prefetch(line, 0));
        if let Some(extent) = self.emulated {
            extent.touch_each(bytes.flat_map(lines).map(|line| offset_in(extent, line)));
        }
    }

    /// Says that these rows, ascending and counted from a block on, are about to be read.
    #[inline(always)]
    pub(crate) fn reads_rows(&self, block: usize, rows: &[u16]) {
        if let Some(extent) = self.emulated {
            self.reads_rows_of(extent, block, rows);
        }
    }

    #[cold]
    fn reads_rows_of(&self, extent: &ExtentBytes, block: usize, rows: &[u16]) {
        let of = |row: u16| usize::from(row) / BLOCK;
        let packed = match &self.body {
            Body::Packed(packed) => Some(packed),
            Body::List(list) => Some(list.positions()),
            _ => None,
        };
        if let Some(packed) = packed {
            let blocks = rows.chunk_by(|a, b| of(*a) == of(*b)).count();
            let lines = packed.blocks(block..block + 1).len() as u64 / LINE * blocks as u64;
            if FEW * rows.len() as u64 <= lines {
                let base = offset_in(extent, packed.blocks(block..block + 1));
                return extent.touch_each(packed.places(rows).map(|at| base + at));
            }
        }
        // Stretches of blocks that follow each other.
        for rows in rows.chunk_by(|a, b| of(*b) <= of(*a) + 1) {
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                self.reads_of(extent, block + of(*first)..block + of(*last) + 1);
            }
        }
    }
}

fn scan(extent: &ExtentBytes, part: &[u8]) {
    // Nothing is anywhere, also outside of the extent.
    if !part.is_empty() {
        extent.scan(offset_in(extent, part), part.len());
    }
}

/// Where a part of an extent begins in it.
fn offset_in(extent: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).wrapping_sub(extent.as_ptr() as usize)
}
