//! Read-ahead of a column's bytes from a device below the page cache, and how much of them is in memory.
//!
//! A scan reads chunk after chunk: [`ScanAhead`] asks for those of the next [`WINDOW`] bytes in requests of
//! some MiB, so that the device is busy while chunks are compared. Single rows are asked for by their pages.
//! A chunk that was not verified yet is read as a whole, whichever of its rows are wanted.
//!
//! Everything here is advice: what is damaged, or not read ahead, is told or read when it is touched.

use crate::format::BLOCK;
use crate::read::column::Column;
use crate::read::segment::Segment;
use crate::write::physical::Physical;
use crate::{CodePredicate, RowId};
use halocline_media::{PAGE, Residency, read_ahead, read_ranges_ahead, sample_residency};
use std::sync::Mutex;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes that are asked for before the scan gets to them.
const WINDOW: u64 = 32 << 20;
/// Minimum number of chunks that are asked for before the scan gets to them.
const MIN_CHUNKS_AHEAD: u64 = 4;
/// Number of rows below which each is looked at.
const MIN_SAMPLED_ROWS: usize = 8;
/// Chunks of a column that are looked at to estimate how much of it is in memory.
const SAMPLED_CHUNKS: usize = 64;

/// An estimate of how much of a column is in memory; see [`column_residency`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnResidency {
    /// The sampled pages.
    pub pages: Residency,
    /// Share of the chunks that were verified, or need not be. The first read of any row of another chunk
    /// reads all of it.
    pub verified: f64,
}

/// Estimates how much of a column of some segments of a table is in memory, by a sample of at most 64 pages;
/// see [`sample_residency`]. O(segments).
///
/// # Panics
/// If there is no such column.
#[must_use]
pub fn column_residency(segments: &[Segment], column: usize) -> ColumnResidency {
    let chunks: usize = segments
        .iter()
        .map(|segment| segment.column(column).chunks())
        .sum();
    let count = chunks.min(SAMPLED_CHUNKS);
    let (mut sampled, mut verified) = (Vec::with_capacity(count), 0);
    let (mut before, mut segments) = (0, segments.iter());
    let mut segment = segments.next();
    for number in (0..count).map(|number| number * chunks / count) {
        while let Some(passed) = segment.filter(|segment| before + segment.column(column).chunks() <= number)
        {
            before += passed.column(column).chunks();
            segment = segments.next();
        }
        if let Some(column) = segment.map(|segment| segment.column(column)) {
            sampled.push(column.stored_chunk(number - before));
            verified += usize::from(!column.is_unverified(number - before));
        }
    }
    ColumnResidency {
        pages: sample_residency(&sampled),
        verified: if count == 0 {
            1.0
        } else {
            verified as f64 / count as f64
        },
    }
}

impl Column {
    /// Asks for the pages of rows that are far apart, so that they are read side by side: of a column of
    /// which a part is not in memory. Meant for sorted rows. Does nothing for more than one of 1,024 rows
    /// between the first and the last, and for strings without a dictionary whose chunks were read before.
    /// O(rows), with a system call or two for each row if they are few, and else four if a sample of the
    /// pages is in memory.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn read_rows_ahead(&self, rows: &[RowId]) {
        if rows.len() < MIN_SAMPLED_ROWS {
            let pieces = rows
                .iter()
                .flat_map(|row| [self.chunk_start(*row), self.stored_row(*row)]);
            read_ranges_ahead(&pieces.collect::<Vec<_>>());
        } else {
            self.read_many_rows_ahead(rows);
        }
    }

    /// Does the same as [`read_rows_ahead`](Self::read_rows_ahead), but nothing for a few rows: in memory, to
    /// find that there is nothing to do would take about as long as reading them.
    pub(crate) fn read_many_rows_ahead(&self, rows: &[RowId]) {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return;
        };
        // The span of sorted rows; that of others only errs.
        if rows.len() * BLOCK > first.abs_diff(*last) as usize {
            return;
        }
        if read_ahead(rows.len(), |i| self.stored_row(rows[i])) {
            let mut firsts = rows.to_vec();
            firsts.dedup_by_key(|row| *row as usize / self.chunk_rows());
            read_ahead(firsts.len(), |i| self.chunk_start(firsts[i]));
        }
    }

    /// Returns about the bytes that are read for a row; all of its chunk if that is to be verified.
    fn stored_row(&self, row: RowId) -> &[u8] {
        let (chunk, within) = (row as usize / self.chunk_rows(), row as usize % self.chunk_rows());
        let bytes = self.stored_chunk(chunk);
        if self.is_unverified(chunk) {
            return bytes;
        }
        if matches!(self.physical(), Physical::Bytes) && self.code_space().is_none() {
            return &[];
        }
        let rows = self.chunk_rows().min(self.rows() - chunk * self.chunk_rows());
        let place = |block: usize| bytes.len() * block / rows.div_ceil(BLOCK);
        &bytes[place(within / BLOCK)..place(within / BLOCK + 1)]
    }

    /// Returns the first bytes of the chunk of a row, which are needed to read its blocks.
    fn chunk_start(&self, row: RowId) -> &[u8] {
        let bytes = self.stored_chunk(row as usize / self.chunk_rows());
        &bytes[..bytes.len().min(PAGE as usize)]
    }
}

/// The reads of a scan in a segment.
#[derive(Debug, Clone)]
pub struct SegmentReads {
    /// The segment.
    pub segment: Segment,
    /// Columns of which whole chunks are read.
    pub columns: Vec<usize>,
    /// Conditions: chunks whose zone maps exclude every row are not read.
    pub conditions: Vec<(usize, CodePredicate)>,
}

/// Reads chunks of some columns ahead of a scan by several threads that take the chunks in ascending order.
///
/// For files behind the page cache of which a part is not in memory: it looks at some pages of everything
/// that it would ask for.
#[derive(Debug)]
pub struct ScanAhead {
    segments: Vec<SegmentReads>,
    /// The number of the first chunk of each segment, and after them that of all chunks.
    first: Vec<usize>,
    /// Chunks between the one that is read and the last one that is asked for.
    distance: usize,
    /// The first chunk that was not asked for.
    next: AtomicUsize,
    asking: Mutex<()>,
    requests: AtomicU64,
}

impl ScanAhead {
    /// Creates the read-ahead of a scan of these segments. O(columns).
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn new(segments: Vec<SegmentReads>) -> Self {
        let (mut first, mut bytes) = (vec![0], 0);
        for SegmentReads { segment, columns, .. } in &segments {
            let chunks = segment.rows().div_ceil(segment.chunk_rows().max(1));
            first.push(first.last().copied().unwrap_or_default() + chunks);
            bytes += columns
                .iter()
                .map(|column| segment.column(*column).stored_bytes())
                .sum::<u64>();
        }
        let chunks = first.last().copied().unwrap_or_default() as u64;
        let distance = (WINDOW * chunks).checked_div(bytes).unwrap_or(chunks);
        Self {
            distance: distance.max(MIN_CHUNKS_AHEAD) as usize,
            segments,
            first,
            next: AtomicUsize::new(0),
            asking: Mutex::new(()),
            requests: AtomicU64::new(0),
        }
    }

    /// Asks for the chunks that follow, as a thread begins to read a chunk of the segment at a position. Asks
    /// for many chunks at once, and else does nothing.
    pub fn begin(&self, segment: usize, chunk: usize) {
        let (Some(first), Some(end)) = (self.first.get(segment), self.first.last()) else {
            return;
        };
        let at = first + chunk;
        let enough = (at + self.distance.div_ceil(2)).min(*end);
        // Read again under the lock; an old value only costs an attempt to take it.
        if self.next.load(Ordering::Relaxed) >= enough {
            return;
        }
        let _asking = match self.asking.try_lock() {
            Ok(asking) => asking,
            Err(TryLockError::Poisoned(asking)) => asking.into_inner(),
            // Another thread asks for them.
            Err(TryLockError::WouldBlock) => return,
        };
        let from = self.next.load(Ordering::Relaxed).max(at);
        let to = (at + self.distance).min(*end);
        let mut ranges = Vec::new();
        for number in from..to {
            self.add_ranges(number, &mut ranges);
        }
        let requests = read_ranges_ahead(&ranges) as u64;
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.next.fetch_max(to, Ordering::Relaxed);
    }

    /// Returns the number of requests that were made.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Adds the bytes of a chunk, counted over all segments, unless the conditions exclude all of its rows.
    fn add_ranges<'a>(&'a self, number: usize, ranges: &mut Vec<&'a [u8]>) {
        let position = self.first.partition_point(|first| *first <= number) - 1;
        let (reads, chunk) = (&self.segments[position], number - self.first[position]);
        let may_match = |(column, predicate): &(usize, CodePredicate)| match (
            reads.segment.column(*column).zone(chunk),
            predicate.bounds(),
        ) {
            (Ok((low, high)), Some((from, to))) => from <= high && low <= to,
            (Ok(_), None) => false,
            (Err(_), _) => true,
        };
        if reads.conditions.iter().all(may_match) {
            let columns = reads.columns.iter();
            ranges.extend(columns.map(|column| reads.segment.column(*column).stored_chunk(chunk)));
        }
    }
}
