//! Reports of the reads of a chunk to the observer of its medium, and prefetches.
//!
//! Without an observer a report is one predictable branch. An emulated device charges what is reported to it,
//! so that a reader reports ranges of blocks and lines of single rows before it reads them.

use super::bit_packed::BitPackedCodec;
use crate::format::BLOCK;
use halocline_media::{Bytes, LINE, prefetch};
use halocline_pool::ExtentBytes;
use std::ops::Range;

/// Lines of blocks for each row from which on only the lines of the rows are reported. Fewer arrive anyway
/// when reading on, as the unit of a medium has several lines and the next unit comes sooner.
const MIN_LINES_PER_ROW: u64 = 8;

/// Where the reads of a chunk are reported. By default nowhere.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChunkReads<'a> {
    /// The extent of the chunk, if it has an observer.
    observed: Option<&'a ExtentBytes>,
}

impl<'a> ChunkReads<'a> {
    /// Reports reads to the observer of an extent.
    pub(crate) fn from_extent(extent: &'a ExtentBytes) -> Self {
        Self {
            observed: Some(extent),
        }
    }

    /// Returns true if somebody observes.
    #[inline(always)]
    pub(crate) fn are_observed(self) -> bool {
        self.observed.is_some()
    }

    /// Reports that ranges are about to be read from start to end.
    #[cold]
    pub(crate) fn report<'b>(self, ranges: impl IntoIterator<Item = &'b [u8]>) {
        if let Some(extent) = self.observed {
            // An empty slice may point anywhere, also outside of the extent.
            for bytes in ranges.into_iter().filter(|bytes| !bytes.is_empty()) {
                extent.scan(offset_in(extent, bytes), bytes.len());
            }
        }
    }

    /// Reports that these rows of packed numbers, ascending and counted from a block on, are about to be
    /// read.
    #[inline(always)]
    pub(crate) fn report_rows(self, packed: &BitPackedCodec<'_>, block: usize, rows: &[u16]) {
        if let Some(extent) = self.observed {
            self.report_rows_of(extent, packed, block, rows);
        }
    }

    #[cold]
    fn report_rows_of(self, extent: &ExtentBytes, packed: &BitPackedCodec<'_>, block: usize, rows: &[u16]) {
        let of = |row: u16| usize::from(row) / BLOCK;
        let blocks = rows.chunk_by(|a, b| of(*a) == of(*b)).count();
        let lines = packed.blocks(block..block + 1).len() as u64 / LINE * blocks as u64;
        if MIN_LINES_PER_ROW * rows.len() as u64 <= lines {
            let base = offset_in(extent, packed.blocks(block..block + 1));
            return extent.touch_each(
                packed
                    .row_bytes(rows.iter().map(|row| usize::from(*row)))
                    .map(|at| base + at),
            );
        }
        self.report(blocks_of(block, rows).map(|blocks| packed.blocks(blocks)));
    }

    /// Prefetches the lines of rows of packed numbers that are about to be read, independently of each other.
    #[inline]
    pub(crate) fn fetch_rows(self, packed: &BitPackedCodec<'_>, rows: impl Iterator<Item = usize> + Clone) {
        let bytes = packed.all();
        let places = packed.row_bytes(rows);
        places.clone().for_each(|at| prefetch(bytes, at));
        if let Some(extent) = self.observed {
            let base = offset_in(extent, bytes);
            extent.touch_each(places.map(|at| base + at));
        }
    }

    /// Prefetches ranges of the chunk that are read soon, from start to end.
    #[inline]
    pub(crate) fn prefetch<'b>(self, ranges: impl IntoIterator<Item = &'b [u8]>) {
        for bytes in ranges {
            for at in (0..bytes.len()).step_by(LINE as usize) {
                prefetch(bytes, at);
            }
            if let Some(extent) = self.observed.filter(|_| !bytes.is_empty()) {
                extent.scan_ahead(offset_in(extent, bytes), bytes.len());
            }
        }
    }

    /// Prefetches ranges of the chunk that are about to be read, independently of each other.
    pub(crate) fn fetch<'b>(self, ranges: impl Iterator<Item = &'b [u8]> + Clone) {
        let lines = |bytes: &'b [u8]| (0..bytes.len()).step_by(LINE as usize).map(|at| &bytes[at..]);
        ranges.clone().flat_map(lines).for_each(|line| prefetch(line, 0));
        if let Some(extent) = self.observed {
            extent.touch_each(ranges.flat_map(lines).map(|line| offset_in(extent, line)));
        }
    }
}

/// Returns the ranges of consecutive blocks that have some of these rows, ascending and counted from a block
/// on.
pub(crate) fn blocks_of(block: usize, rows: &[u16]) -> impl Iterator<Item = Range<usize>> + '_ {
    let of = |row: u16| usize::from(row) / BLOCK;
    let consecutive = rows.chunk_by(move |a, b| of(*b) <= of(*a) + 1);
    consecutive.filter_map(move |rows| {
        let (first, last) = rows.first().zip(rows.last())?;
        Some(block + of(*first)..block + of(*last) + 1)
    })
}

/// Returns the offset of a part of an extent in it.
fn offset_in(extent: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).wrapping_sub(extent.as_ptr() as usize)
}
