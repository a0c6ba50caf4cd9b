//! The DRAM budget of a database and its division.
//!
//! A fixed amount is set aside for the process itself (code, planner, stacks, fragmentation). An import, an
//! index build and a merge have all of the rest while they run: statements that write take turns. Queries get
//! it through DataFusion's memory pool; what stores the rows of one takes its part from there. Mapped bytes
//! of a pool are not DRAM in this sense: the system may drop them at any time.
//!
//! The budget is a quarter of the machine's or container's DRAM by default, at least [`MIN_MEMORY`], of
//! which 24 MiB, at most a quarter, are set aside. An import uses a quarter of the rest for rows between file
//! and table, half of which a page of a Parquet file or a batch of an Arrow file may take while it is decoded;
//! a larger batch is decoded from a temporary file that is mapped, or refused if it is compressed. What opened
//! tables and indexes take counts among the memory of the queries. A query has a thread for each 16 MiB at
//! most, and below 512 MiB smaller batches and buffers. Below 1 GiB, threads share one heap of the allocator.

use std::sync::Arc;

use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;
use halocline_columns::TableOptions;
use halocline_media::ram_bytes;
use halocline_sql::size;

use crate::query_memory::QueryMemory;
use crate::spill_files::SpillFiles;

/// Bytes set aside for the process itself, but at most a quarter of the budget.
const PROCESS_RESERVE: usize = 24 << 20;
/// Least memory per thread of a query in bytes; a smaller budget reduces the number of threads.
const MIN_THREAD_BYTES: usize = 16 << 20;
/// Budget in bytes from which batches have [`MAX_ROWS`] rows.
const FULL_BATCH_BUDGET: usize = 512 << 20;
/// Most rows of a batch between operators.
const MAX_ROWS: usize = 8192;
/// Least rows of a batch between operators.
const MIN_ROWS: usize = 1024;
/// The least budget in bytes: below it, a query of few operators does not get the buffers with which it
/// spills.
pub const MIN_MEMORY: usize = 32 << 20;

/// Rows of a build side that one thread collects into a hash table for all, if there were one thread.
const COLLECTED_ROWS: usize = 32 << 20;
/// The same at least, whatever the number of threads.
const MIN_COLLECTED_ROWS: usize = 128 << 10;
/// Bytes that a row of a build side is taken for.
const BYTES_OF_ROW: usize = 64;

/// Returns the estimated rows of a build side up to which it is collected rather than that both sides are
/// partitioned. Partitioning copies each row of both sides once, which all threads share; collecting leaves
/// all threads but one without work. So it pays up to a number of rows that falls with the square of the
/// threads.
fn collected_rows(threads: usize) -> usize {
    (COLLECTED_ROWS / (threads * threads)).max(MIN_COLLECTED_ROWS)
}

/// A budget of DRAM in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudget(usize);

impl MemoryBudget {
    /// Returns a budget of `bytes`; by default a quarter of the machine's DRAM, and [`MIN_MEMORY`] at
    /// least.
    pub fn new(bytes: Option<usize>) -> Self {
        let quarter = || usize::try_from(ram_bytes() / 4).unwrap_or(usize::MAX);
        Self(bytes.unwrap_or_else(|| quarter().max(MIN_MEMORY)))
    }

    /// Checks a budget that a user gives.
    ///
    /// # Errors
    /// It is less than [`MIN_MEMORY`]; the text says so, without the name of the setting.
    pub fn check(bytes: u64) -> Result<(), String> {
        if bytes >= MIN_MEMORY as u64 {
            return Ok(());
        }
        let given = size::exact(bytes);
        let least = size::exact(MIN_MEMORY as u64);
        Err(format!(
            "{given} is too little to work with; give {least} or more"
        ))
    }

    /// Returns the DRAM for copies of indexes beside a budget: half of one that was given. By default a
    /// quarter of the machine's DRAM, as much as for everything else.
    pub fn of_copies(given: Option<usize>) -> u64 {
        given.map_or_else(|| ram_bytes() / 4, |bytes| bytes as u64 / 2)
    }

    /// Returns all bytes.
    pub fn bytes(self) -> usize {
        self.0
    }

    /// Returns the bytes that are not set aside.
    pub fn work(self) -> usize {
        self.0 - PROCESS_RESERVE.min(self.0 / 4)
    }

    /// Returns the part for decoded rows of an import.
    pub fn decoding(self) -> usize {
        self.work() / 4
    }

    /// Returns the part for the table writer of an import.
    pub fn storing(self) -> usize {
        self.work() - self.decoding()
    }

    /// Returns the part for rows of an open transaction that are in no segment yet.
    pub fn delta(self) -> usize {
        self.work() / 8
    }

    /// Sets the sizes that DataFusion does not take from the memory there is: buffers of each thread, rows of
    /// a batch, of a row group of Parquet, and those that a hash join collects. `threads` is the most that a
    /// query may have.
    pub fn configure(self, config: SessionConfig, threads: usize) -> SessionConfig {
        let work = self.work();
        let threads = threads.min(work / MIN_THREAD_BYTES).max(1);
        let rows = MAX_ROWS.min((work / (FULL_BATCH_BUDGET / MAX_ROWS)).next_power_of_two());
        let mut config = config
            .with_target_partitions(threads)
            .with_batch_size(rows.max(MIN_ROWS));
        let optimizer = &mut config.options_mut().optimizer;
        let collected = collected_rows(threads).min(work / 4 / BYTES_OF_ROW);
        optimizer.hash_join_single_partition_threshold_rows = collected;
        optimizer.hash_join_single_partition_threshold = collected * BYTES_OF_ROW;
        let execution = &mut config.options_mut().execution;
        let of_sort = execution.sort_spill_reservation_bytes;
        // Not more than the pool of queries gives each merge in any case.
        execution.sort_spill_reservation_bytes = of_sort.min(work / threads.max(2) / 8);
        let of_writer = execution.objectstore_writer_buffer_size;
        execution.objectstore_writer_buffer_size = of_writer.min(work / 64);
        // A writer of Parquet holds a row group.
        let of_group = execution.parquet.max_row_group_size;
        execution.parquet.max_row_group_size = of_group.min(work / 4 / BYTES_OF_ROW);
        config
    }

    /// Returns the part of all queries together.
    pub fn of_queries(self) -> usize {
        self.work()
    }

    /// Returns a runtime for queries, with their memory and their temporary files.
    pub fn runtime(memory: &Arc<QueryMemory>, files: &Arc<SpillFiles>) -> Arc<RuntimeEnv> {
        let files = DiskManagerBuilder::default().with_temp_file_factory(Arc::clone(files) as Arc<_>);
        let builder = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(memory) as Arc<_>)
            .with_disk_manager_builder(files);
        builder
            .build_arc()
            .expect("temporary files are made when a query spills, not now")
    }
}

/// The memory of a table writer that runs beside a query, reserved until this is dropped.
#[derive(Debug)]
pub struct WriterShare {
    /// For the writer.
    pub options: TableOptions,
    /// Bytes of batches queued for it.
    pub queue: usize,
    _reserved: MemoryReservation,
}

impl WriterShare {
    /// Reserves half of the budget in the memory pool of the queries, or less if less is free; at least an
    /// eighth.
    pub fn take(budget: MemoryBudget, pool: &Arc<dyn MemoryPool>) -> Self {
        let reserved = MemoryConsumer::new("table writer").register(pool);
        let mut bytes = budget.work() / 2;
        let least = bytes / 4;
        while bytes > least && reserved.try_grow(bytes).is_err() {
            bytes /= 2;
        }
        let mut options = TableOptions::default();
        let queue = bytes / 6;
        options.memory = bytes - queue;
        Self {
            options,
            queue,
            _reserved: reserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        for bytes in [0, 1 << 20, 64 << 20, 1 << 40] {
            let budget = MemoryBudget::new(Some(bytes));
            assert_eq!(budget.decoding() + budget.storing(), budget.work());
            assert!(budget.work() <= bytes && budget.work() >= bytes / 4 * 3);
        }
        assert!(MemoryBudget::new(None).work() > 0);
    }

    #[test]
    fn a_writer_takes_its_part_from_the_queries() {
        let budget = MemoryBudget::new(Some(256 << 20));
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory::new(budget.of_queries()));
        let first = WriterShare::take(budget, &pool);
        assert_eq!(pool.reserved(), budget.work() / 2);
        assert_eq!(first.queue + first.options.memory, budget.work() / 2);
        let other = MemoryConsumer::new("a join").register(&pool);
        other.try_grow(budget.work() / 4).unwrap();
        let second = WriterShare::take(budget, &pool);
        assert_eq!(pool.reserved(), budget.work());
        let third = WriterShare::take(budget, &pool);
        assert_eq!(pool.reserved(), budget.work());
        assert!(third.options.memory < second.options.memory);
        drop((first, second, third));
        assert_eq!(pool.reserved(), budget.work() / 4);
    }
}
