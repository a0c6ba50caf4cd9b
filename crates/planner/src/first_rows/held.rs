//! Rows that have passed, held back to be compared again when more keys are known.
//!
//! A row that passes early may sort after `fetch` later ones: most rows that pass do so while the thresholds
//! still move. The sort above needs all rows before it returns the first, so waiting for the end of the input
//! costs no time, and saves it the rows that are dropped then. Whenever the held rows take twice the memory
//! that they took after the last comparison, they are compared again. If they still take too much, they are
//! released.
//!
//! Invariants: rows leave in the order in which they came. Their groups and keys are in the same order, those
//! of the rows in the coalescer after those of the complete batches.

use std::collections::VecDeque;
use std::mem;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::thresholds::Thresholds;

/// Bytes of held rows below which they are not compared again.
const MIN_COMPARED_BYTES: usize = 4 << 20;
/// Bytes of held rows above which they are released, so that no comparison takes long.
const MAX_HELD_BYTES: usize = 256 << 20;

/// The rows that have passed and not left yet.
pub(super) struct HeldRows {
    coalescer: BatchCoalescer,
    batch_rows: usize,
    /// The groups and sort keys of the rows in the coalescer.
    groups: Vec<u32>,
    keys: Vec<u64>,
    held: Vec<HeldBatch>,
    ready: VecDeque<RecordBatch>,
    /// Bytes of the held batches, and how many make another comparison due.
    bytes: usize,
    due: usize,
    most: usize,
    memory: MemoryReservation,
}

struct HeldBatch {
    rows: RecordBatch,
    groups: Vec<u32>,
    keys: Vec<u64>,
}

impl HeldRows {
    /// Begins with no row. Rows leave in batches of `batch_rows`, and take up to `most` bytes.
    pub(super) fn new(schema: SchemaRef, batch_rows: usize, memory: MemoryReservation, most: usize) -> Self {
        let most = most.min(MAX_HELD_BYTES);
        Self {
            coalescer: BatchCoalescer::new(schema, batch_rows.max(1)),
            batch_rows,
            groups: Vec::new(),
            keys: Vec::new(),
            held: Vec::new(),
            ready: VecDeque::new(),
            bytes: 0,
            due: MIN_COMPARED_BYTES.min(most),
            most,
            memory,
        }
    }

    /// Returns the next rows that are not held any more.
    pub(super) fn next_ready(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }

    /// Adds the rows of a batch that are set in `passing`, whose rows have these groups and keys. Returns the
    /// number of held rows that were dropped.
    ///
    /// # Errors
    /// Rows cannot be copied.
    pub(super) fn add(
        &mut self,
        batch: RecordBatch,
        passing: BooleanBuffer,
        (groups, keys): (&[u32], &[u64]),
        thresholds: &Thresholds,
    ) -> Result<usize> {
        self.groups.extend(passing.set_indices().map(|row| groups[row]));
        self.keys.extend(passing.set_indices().map(|row| keys[row]));
        self.coalesce(batch, passing)?;
        if self.bytes < self.due && self.memory.try_resize(self.bytes).is_ok() {
            return Ok(0);
        }
        let dropped = self.compare(thresholds)?;
        if self.bytes > self.most / 2 || self.memory.try_resize(self.bytes).is_err() {
            self.release()?;
        }
        Ok(dropped)
    }

    /// Adds rows that are not held.
    ///
    /// # Errors
    /// Rows cannot be copied.
    pub(super) fn pass(&mut self, batch: RecordBatch) -> Result<()> {
        self.coalescer.push_batch(batch)?;
        self.take_ready();
        Ok(())
    }

    /// Compares all held rows a last time and releases them; later ones are not held. Returns the number of
    /// rows that were dropped.
    ///
    /// # Errors
    /// Rows cannot be copied.
    pub(super) fn end(&mut self, thresholds: &Thresholds) -> Result<usize> {
        let dropped = self.compare(thresholds)?;
        self.release()?;
        // Large batches pass without being copied.
        let large = Some(self.batch_rows / 2);
        self.coalescer.set_biggest_coalesce_batch_size(large);
        Ok(dropped)
    }

    /// Releases the rows that still wait for a batch to be complete, at the end of the input.
    ///
    /// # Errors
    /// Rows cannot be copied.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.coalescer.finish_buffered_batch()?;
        self.take_ready();
        Ok(())
    }

    fn take_ready(&mut self) {
        while let Some(batch) = self.coalescer.next_completed_batch() {
            self.ready.push_back(batch);
        }
    }

    /// Drops the held rows that sort after `fetch` others, and returns their number. O(held rows).
    fn compare(&mut self, thresholds: &Thresholds) -> Result<usize> {
        self.coalescer.finish_buffered_batch()?;
        self.take_complete();
        let held = mem::take(&mut self.held);
        self.bytes = 0;
        let mut dropped = 0;
        for HeldBatch { rows, groups, keys } in held {
            let passes = |row: usize| thresholds.still_admits(groups[row], keys[row]);
            let passing = BooleanBuffer::collect_bool(rows.num_rows(), passes);
            dropped += rows.num_rows() - passing.count_set_bits();
            self.groups.extend(passing.set_indices().map(|row| groups[row]));
            self.keys.extend(passing.set_indices().map(|row| keys[row]));
            self.coalesce(rows, passing)?;
        }
        self.due = self
            .bytes
            .saturating_mul(2)
            .max(MIN_COMPARED_BYTES)
            .min(self.most);
        Ok(dropped)
    }

    /// Makes all held rows ready.
    fn release(&mut self) -> Result<()> {
        self.coalescer.finish_buffered_batch()?;
        self.take_complete();
        self.ready.extend(self.held.drain(..).map(|held| held.rows));
        self.bytes = 0;
        self.due = MIN_COMPARED_BYTES.min(self.most);
        self.memory.free();
        Ok(())
    }

    fn coalesce(&mut self, batch: RecordBatch, passing: BooleanBuffer) -> Result<()> {
        if passing.count_set_bits() == batch.num_rows() {
            self.coalescer.push_batch(batch)?
        } else {
            let passing = BooleanArray::new(passing, None);
            self.coalescer.push_batch_with_filter(batch, &passing)?;
        }
        self.take_complete();
        Ok(())
    }

    /// Takes complete batches with their groups and keys.
    fn take_complete(&mut self) {
        while let Some(rows) = self.coalescer.next_completed_batch() {
            let (groups, keys) = (
                self.groups.split_off(rows.num_rows()),
                self.keys.split_off(rows.num_rows()),
            );
            let held = HeldBatch {
                groups: mem::replace(&mut self.groups, groups),
                keys: mem::replace(&mut self.keys, keys),
                rows,
            };
            let of_row = size_of::<u32>() + size_of::<u64>();
            self.bytes += held.rows.get_array_memory_size() + held.groups.len() * of_row;
            self.held.push(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    use arrow_array::{ArrayRef, UInt64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    /// Holds rows with these keys, of groups by their remainders, in batches of 1,000; returns the rows that
    /// leave, how many were dropped while they were held, and the batches that left before the end.
    fn leaving(
        keys: &[u64],
        groups: u64,
        fetch: usize,
        memory: usize,
        most: usize,
    ) -> (Vec<u64>, usize, usize) {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(memory));
        let memory = MemoryConsumer::new("test").register(&pool);
        let batch = |keys: &[u64]| {
            let keys: ArrayRef = Arc::new(UInt64Array::from(keys.to_vec()));
            RecordBatch::try_from_iter([("key", keys)]).unwrap()
        };
        let mut thresholds = Thresholds::new(fetch);
        thresholds.extend_to(groups as usize, groups as usize);
        let mut held = HeldRows::new(batch(&[]).schema(), 100, memory, most);
        let mut dropped = 0;
        for part in keys.chunks(1000) {
            let of: Vec<u32> = part.iter().map(|key| (key % groups) as u32).collect();
            let passing = BooleanBuffer::collect_bool(part.len(), |row| thresholds.admit(of[row], part[row]));
            dropped += part.len() - passing.count_set_bits();
            dropped += held.add(batch(part), passing, (&of, part), &thresholds).unwrap();
        }
        let early = held.ready.len();
        dropped += held.end(&thresholds).unwrap();
        held.pass(batch(&[7, 7, 7])).unwrap();
        held.flush().unwrap();
        let batches: Vec<RecordBatch> = std::iter::from_fn(|| held.next_ready()).collect();
        assert!(batches.iter().all(|batch| (1..=100).contains(&batch.num_rows())));
        let rows = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec());
        let mut rows: Vec<u64> = rows.collect();
        assert_eq!(rows.split_off(rows.len() - 3), [7, 7, 7]);
        assert_eq!(pool.reserved(), 0);
        (rows, dropped, early)
    }

    #[test]
    fn only_the_first_rows_leave_in_their_order() {
        // Descending, so that each row passes when it comes.
        let keys: Vec<u64> = (0..700_000u64).rev().collect();
        let (rows, dropped, early) = leaving(&keys, 10, 3, 1 << 30, 1 << 30);
        assert_eq!(rows, (0..30).rev().collect::<Vec<u64>>());
        assert_eq!((dropped, early), (700_000 - 30, 0));
    }

    #[test]
    fn rows_leave_early_without_memory() {
        let keys: Vec<u64> = (0..300_000u64).rev().collect();
        for (memory, most) in [(100_000, 1 << 30), (1 << 30, 100_000), (0, 1 << 30)] {
            let (rows, dropped, early) = leaving(&keys, 20_000, 2, memory, most);
            assert!(early > 0 && rows.len() + dropped == keys.len(), "{early}");
            // All rows that are wanted are there, in their order.
            assert!(rows.is_sorted_by(|a, b| a > b) && rows.ends_with(&keys[keys.len() - 40_000..]));
        }
    }
}
