//! Compaction: segments merged into fewer, without their deleted rows.
//!
//! [`plan`] says which segments are worth it, [`merge`] writes one group anew. Readers of earlier versions
//! are not disturbed; the new segments have ids of their own, so indexes are refreshed after it.

mod plan;
mod throttle;

pub use plan::{CompactionPolicy, plan};

use crate::format::wide;
use crate::table::shares::Pace;
use crate::{ColumnsError, Result, Segment, Table, TableOptions, TableWriter};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use halocline_media::trim_heap;
use halocline_pool::Txn;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use throttle::Throttle;

/// How to merge.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct MergeOptions<'a> {
    /// Bytes of DRAM, for all of it; see [`TableOptions::memory`]. What a clustering sorts beyond it is
    /// spilled to the pool. Default 128 MiB.
    pub memory: usize,
    /// Bytes to write per second at most, on average. Default: no limit.
    pub bandwidth: Option<u64>,
    /// Set from anywhere, it ends the merge with [`ColumnsError::Cancelled`]. Default: nobody sets it.
    pub cancel: &'a AtomicBool,
    /// Called now and then.
    pub progress: Option<&'a (dyn Fn(MergeProgress) + Sync)>,
    /// Rows per chunk, see [`TableOptions`].
    pub chunk_rows: usize,
    /// Rows per segment, see [`TableOptions`].
    pub segment_rows: u64,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Default for MergeOptions<'_> {
    fn default() -> Self {
        let TableOptions {
            memory,
            chunk_rows,
            segment_rows,
            ..
        } = TableOptions::default();
        Self {
            memory,
            bandwidth: None,
            cancel: &NEVER,
            progress: None,
            chunk_rows,
            segment_rows,
        }
    }
}

impl std::fmt::Debug for MergeOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergeOptions")
            .field("memory", &self.memory)
            .field("bandwidth", &self.bandwidth)
            .finish_non_exhaustive()
    }
}

/// How far a merge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeProgress {
    /// Rows read, deleted ones among them.
    pub done: u64,
    /// Rows of the segments that are merged.
    pub total: u64,
}

/// The report of a merge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeStats {
    /// Segments before.
    pub merged: usize,
    /// Ids of the segments that took their place.
    pub ids: Range<u64>,
    /// Rows they hold.
    pub rows: u64,
    /// Deleted rows that are gone.
    pub dropped: u64,
    /// Bytes written to the pool.
    pub bytes: u64,
    /// Bytes that sorting spilled to the pool.
    pub spilled_bytes: u64,
}

/// Rows that are read at once at most.
const BATCH_ROWS: usize = 8192;
/// The share of the memory for rows in flight: the batch, and copies of it.
const BATCH_SHARE: usize = 16;

/// Writes the live rows of the segments with these ids anew, in their order or in that of the clustering
/// columns, into segments that take their place. The transaction's table changes only if that succeeds. O(n),
/// O(n log n) with a clustering.
///
/// # Errors
/// [`ColumnsError::NoSuchTable`], [`ColumnsError::NoSuchSegment`], [`ColumnsError::Cancelled`],
/// [`ColumnsError::Damaged`], [`ColumnsError::Pool`].
///
/// # Panics
/// If rows per chunk or segment break their limits.
pub fn merge(txn: &Txn, table: &str, ids: &[u64], options: &MergeOptions<'_>) -> Result<MergeStats> {
    let open = Table::open_in(txn, table)?.for_copying();
    let mut write = TableOptions {
        chunk_rows: options.chunk_rows,
        segment_rows: options.segment_rows,
        ..TableOptions::default()
    };
    write.memory = options.memory - options.memory / 8;
    // Parts are written at once: they are not to be a whole second of the bandwidth.
    let bandwidth = options.bandwidth.unwrap_or(u64::MAX).max(MIN_BANDWIDTH);
    let half = usize::try_from(bandwidth / 2).unwrap_or(usize::MAX);
    write.part_limit = write.part_limit.min(half);
    let mut writer = TableWriter::replacing(txn, table, ids, write)?;
    let segments: Vec<&Segment> = (open.segments().iter())
        .filter(|segment| ids.contains(&segment.id()))
        .collect();
    for column in 0..open.schema().fields().len() {
        if has_wide(&segments, column, options.cancel)? {
            writer.expect_wide(column);
        }
    }
    let total: u64 = segments.iter().map(|segment| segment.rows() as u64).sum();
    let live: u64 = segments.iter().map(|segment| segment.live_rows()).sum();
    if total > TRIM_ROWS {
        trim_heap();
    }
    let throttle = Throttle::new(options.bandwidth, options.cancel);
    let mut done = 0;
    let mut pace = Pace::new(options.memory / BATCH_SHARE, BATCH_ROWS);
    for segment in &segments {
        let mut start = 0;
        while start < segment.rows() {
            if options.cancel.load(Ordering::Relaxed) {
                return Err(cancelled(table));
            }
            let rows = start..segment.rows().min(start + pace.rows());
            start = rows.end;
            let len = rows.len();
            done += len as u64;
            let batch = read(open.schema(), segment, rows)?;
            pace.took(len, batch.get_array_memory_size());
            writer.write(&batch)?;
            throttle.after(writer.written_bytes());
            if let Some(progress) = options.progress {
                progress(MergeProgress { done, total });
            }
        }
    }
    let stats = writer.finish_while(|written| {
        throttle.after(written);
        if options.cancel.load(Ordering::Relaxed) {
            Err(cancelled(table))
        } else {
            Ok(())
        }
    })?;
    Ok(MergeStats {
        merged: segments.len(),
        ids: stats.ids,
        rows: stats.rows,
        dropped: total - live,
        bytes: stats.stored_bytes,
        spilled_bytes: stats.spilled_bytes,
    })
}

/// Returns true if one of the live values of a column is a decimal without a key: then the merged rows are
/// stored without keys from the first on, as another segment would begin there otherwise, and be merged
/// again. O(1) unless a segment has the column so, of which it reads rows up to the first such value.
fn has_wide(segments: &[&Segment], column: usize, cancel: &AtomicBool) -> Result<bool> {
    for segment in segments.iter().filter(|segment| segment.column(column).is_wide()) {
        for start in (0..segment.rows()).step_by(BATCH_ROWS) {
            if cancel.load(Ordering::Relaxed) {
                // The merge itself ends at its first rows.
                return Ok(false);
            }
            let rows = start..segment.rows().min(start + BATCH_ROWS);
            let live: Vec<u32> = segment.select(&[], rows)?.iter().collect();
            if wide::holds_wide_decimals(&segment.column(column).gather(&live)?) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn cancelled(table: &str) -> ColumnsError {
    ColumnsError::Cancelled { table: table.into() }
}

/// Rows from which on the heap is trimmed before a merge.
const TRIM_ROWS: u64 = 1 << 16;
/// Bytes a second below which parts are not made smaller for the bandwidth's sake.
const MIN_BANDWIDTH: u64 = 8 << 20;

/// Reads the live rows within `rows`.
fn read(schema: &SchemaRef, segment: &Segment, rows: Range<usize>) -> Result<RecordBatch> {
    let live = segment.select(&[], rows.clone())?;
    let some: Option<Vec<u32>> = (live.len() < rows.len() as u64).then(|| live.iter().collect());
    let columns = segment.columns().par_iter().map(|column| match &some {
        None => column.scan(rows.clone()),
        Some(rows) => column.gather(rows),
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    let count = RecordBatchOptions::new().with_row_count(Some(live.len() as usize));
    Ok(RecordBatch::try_new_with_options(
        SchemaRef::clone(schema),
        columns,
        &count,
    )?)
}
