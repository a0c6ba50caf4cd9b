//! The hash table: rows sorted by bucket, and a directory of the buckets (Birler, Schmidt, Fent, Neumann:
//! Simple, Efficient, and Robust Hash Tables for Join Processing, DaMoN 2024).
//!
//! A bucket's rows are contiguous, so that many rows with one key cost no more than those with different
//! ones. Each entry of the directory has the end of its bucket in the upper half, relative to the partition,
//! and a small Bloom filter of the hashes in the lower half; the start is the end in the entry before. All
//! partitions share two arrays on huge pages.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use halocline_media::{HugeVec, trim_heap};

use super::budget::BudgetShare;
use super::hash::{self, Level};
use super::layout::RowLayout;
use super::partitions::{Partitions, RowChunk};
use super::workers::JoinWorkers;
use crate::{JoinError, JoinResult};

/// Part of the budget's limit that chunks may leave in the heap while a table is filled: one over this, at
/// least [`MIN_TRIM_BYTES`].
const TRIM_SHARE: usize = 16;

/// Freed bytes below which the heap is not trimmed: the next buffers find them there.
const MIN_TRIM_BYTES: usize = 1 << 20;

/// Rows that are looked up at a time: their lines fit the first-level cache.
pub(super) const PROBE_BATCH_ROWS: usize = 256;

/// The ranges of one partition.
#[derive(Debug, Clone, Copy)]
struct TablePart {
    /// First entry of the directory.
    directory: usize,
    buckets: usize,
    /// First row.
    row: usize,
}

/// Rows of a bucket in which a key may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketRange {
    /// Row of the batch.
    pub(super) probe: u32,
    pub(super) part: u32,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A hash table of the rows of partitions in DRAM.
pub(super) struct JoinTable {
    level: Level,
    stride: usize,
    parts: Vec<TablePart>,
    directory: HugeVec<u64>,
    pub(super) rows: HugeVec<u64>,
    /// Variable-length values of each partition.
    pub(super) values: Vec<HugeVec<u8>>,
    /// A bit per row that has a partner; empty if nobody asks.
    matched: Vec<AtomicU64>,
    _memory: Option<BudgetShare>,
}

/// The ranges of one partition, and the rows to fill them with.
struct FillTask<'t> {
    part: usize,
    chunks: Vec<RowChunk>,
    directory: &'t mut [u64],
    rows: &'t mut [u64],
}

impl FillTask<'_> {
    /// Returns the bytes of the chunks.
    fn bytes(&self) -> usize {
        let of_chunk = |chunk: &RowChunk| size_of_val(&*chunk.words) + chunk.bytes.len();
        self.chunks.iter().map(of_chunk).sum()
    }
}

impl JoinTable {
    /// Takes the rows of all partitions in DRAM. Threads fill one partition each, and free its chunks as they
    /// go. The chunks of partitions alternate in the heap, so that what is freed has to be given to the
    /// system from between them: else the rows would take their memory twice.
    ///
    /// # Errors
    /// [`JoinError::Columns`](crate::JoinError::Columns), [`JoinError::Interrupted`].
    pub(super) fn build(
        partitions: &Partitions<'_>,
        layout: &RowLayout,
        tracks_matches: bool,
        workers: &JoinWorkers<'_>,
    ) -> JoinResult<JoinTable> {
        let (stride, count) = (layout.stride, partitions.sizing.parts);
        let taken: Vec<_> = (0..count).map(|part| partitions.take_chunks(part)).collect();
        let (mut parts, mut entries, mut rows) = (Vec::with_capacity(count), 0, 0);
        for (_, of_part) in &taken {
            parts.push(TablePart {
                directory: entries,
                buckets: (*of_part).max(1),
                row: rows,
            });
            entries += (*of_part).max(1) + 1;
            rows += of_part;
        }
        let mut directory = HugeVec::zeroed(entries)?;
        let mut all_rows = HugeVec::zeroed(rows * stride)?;
        let (mut rest, mut rows_rest) = (&mut *directory, &mut *all_rows);
        let mut tasks = Vec::with_capacity(count);
        for (part, (chunks, of_part)) in taken.into_iter().enumerate() {
            let (own, after) = rest.split_at_mut(of_part.max(1) + 1);
            let (own_rows, rows_after) = rows_rest.split_at_mut(of_part * stride);
            (rest, rows_rest) = (after, rows_after);
            tasks.push(Mutex::new(Some(FillTask {
                part,
                chunks,
                directory: own,
                rows: own_rows,
            })));
        }
        let values: Vec<Mutex<HugeVec<u8>>> = (0..count).map(|_| Mutex::default()).collect();
        let memory = Mutex::new(None::<BudgetShare>);
        let (freed, trim) = (
            AtomicUsize::new(0),
            (partitions.plan.context.budget.limit() / TRIM_SHARE).max(MIN_TRIM_BYTES),
        );
        workers.run(
            count,
            || Ok(()),
            |(), number| {
                let task = tasks[number]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                let Some(task) = task else { return Ok(()) };
                let (part, bytes) = (task.part, task.bytes());
                let (of_part, taken) = fill(layout, partitions.level, count, task, workers)?;
                *values[part].lock().unwrap_or_else(PoisonError::into_inner) = of_part;
                let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                match (&mut *memory, taken) {
                    (Some(memory), Some(taken)) => memory.merge(taken),
                    (memory @ None, taken) => *memory = taken,
                    (Some(_), None) => {}
                }
                drop(memory);
                if freed.fetch_add(bytes, Ordering::Relaxed) + bytes >= trim {
                    freed.store(0, Ordering::Relaxed);
                    trim_heap();
                }
                Ok(())
            },
            |()| Ok(()),
        )?;
        drop(tasks);
        let bits = if tracks_matches { rows.div_ceil(64) } else { 0 };
        let values = values
            .into_iter()
            .map(|own| own.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(JoinTable {
            level: partitions.level,
            stride,
            parts,
            directory,
            rows: all_rows,
            values: values.collect(),
            matched: (0..bits).map(|_| AtomicU64::new(0)).collect(),
            _memory: memory.into_inner().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// Adds the buckets of the rows `probes` of a batch that may have partners, and loads their first and
    /// last rows into the cache. At most [`PROBE_BATCH_ROWS`] rows.
    ///
    /// Each loop loads independent addresses and nothing depends on what is loaded, so that the CPU waits for
    /// many of them at a time. That takes half the time of prefetch instructions.
    #[inline]
    pub(super) fn find(&self, hashes: &[u64], probes: &[u32], candidates: &mut Vec<BucketRange>) {
        debug_assert!(probes.len() <= PROBE_BATCH_ROWS);
        let (directory, parts) = (&*self.directory, &*self.parts);
        let mut places = [(0_usize, 0_u32); PROBE_BATCH_ROWS];
        for (place, &probe) in places.iter_mut().zip(probes) {
            let (part, rest) = hash::split(self.level.rest(hashes[probe as usize]), parts.len());
            let own = parts[part];
            *place = (own.directory + hash::split(rest, own.buckets).0, part as u32);
        }
        let mut entries = [(0_u64, 0_u64); PROBE_BATCH_ROWS];
        for (entry, &(place, _)) in entries.iter_mut().zip(&places[..probes.len()]) {
            *entry = (directory[place], directory[place + 1]);
        }
        let found = candidates.len();
        for ((&(before, own), &(_, part)), &probe) in entries.iter().zip(&places).zip(probes) {
            let first = parts[part as usize].row;
            let range = BucketRange {
                probe,
                part,
                start: first + (before >> 32) as usize,
                end: first + (own >> 32) as usize,
            };
            if range.start < range.end && own & tag(hashes[probe as usize]) != 0 {
                candidates.push(range);
            }
        }
        let rows = &*self.rows;
        let loaded = candidates[found..].iter().fold(0, |sum: u64, range| {
            sum ^ rows[range.start * self.stride] ^ rows[range.end * self.stride - 1]
        });
        black_box(loaded);
    }

    /// Returns the words of a row.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &[u64] {
        &self.rows[row * self.stride..][..self.stride]
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len() / self.stride
    }

    /// Returns the partition of a row.
    pub(super) fn part_of(&self, row: usize) -> usize {
        self.parts
            .partition_point(|part| part.row <= row)
            .saturating_sub(1)
    }

    /// Notes that a row has a partner. Returns true if that was not known.
    #[inline(always)]
    pub(super) fn set_matched(&self, row: usize) -> bool {
        let (word, bit) = (&self.matched[row / 64], 1 << (row % 64));
        // Most bits are set many times.
        let is_new = word.load(Ordering::Relaxed) & bit == 0;
        if is_new {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        is_new
    }

    /// Returns true if a row has a partner.
    pub(super) fn is_matched(&self, row: usize) -> bool {
        self.matched[row / 64].load(Ordering::Relaxed) & 1 << (row % 64) != 0
    }
}

/// Returns the bit of a hash in the filter of its bucket.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    1 << (hash & 31)
}

/// Sorts the rows of a partition by bucket. Returns their variable-length values and the memory they take.
fn fill(
    layout: &RowLayout,
    level: Level,
    parts: usize,
    task: FillTask<'_>,
    workers: &JoinWorkers<'_>,
) -> JoinResult<(HugeVec<u8>, Option<BudgetShare>)> {
    let (stride, directory) = (layout.stride, task.directory);
    let buckets = directory.len() - 1;
    let bucket = |hash: u64| hash::split(hash::split(level.rest(hash), parts).1, buckets).0;
    // Counts rows in the upper half of the entry after that of their bucket.
    for chunk in &task.chunks {
        workers.check()?;
        for row in chunk.words.chunks_exact(stride) {
            let hash = layout.hash(row);
            let entry = &mut directory[bucket(hash) + 1];
            *entry = (*entry + (1 << 32)) | tag(hash);
        }
    }
    // Counts become starts, which become ends as rows are placed.
    let mut start = 0;
    for entry in &mut *directory {
        let count = *entry >> 32;
        *entry = start << 32 | *entry & u64::from(u32::MAX);
        start += count;
    }
    let bytes: usize = task.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    if bytes > u32::MAX as usize {
        return Err(JoinError::ValueTooLong {
            bytes,
            most: u32::MAX as usize,
        });
    }
    let mut values = HugeVec::with_capacity(bytes)?;
    let mut memory: Option<BudgetShare> = None;
    for chunk in task.chunks {
        workers.check()?;
        let base = values.len() as u64;
        for row in chunk.words.chunks_exact(stride) {
            let entry = &mut directory[bucket(layout.hash(row)) + 1];
            let at = (*entry >> 32) as usize;
            *entry += 1 << 32;
            let place = &mut task.rows[at * stride..][..stride];
            place.copy_from_slice(row);
            for &word in &layout.spans {
                // Offsets are in the lower half, and stay below 2^32.
                place[word] += base;
            }
        }
        values.extend_from_slice(&chunk.bytes);
        match &mut memory {
            Some(memory) => memory.merge(chunk.memory),
            none => *none = Some(chunk.memory),
        }
    }
    Ok((values, memory))
}
