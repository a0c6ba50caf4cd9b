//! The DRAM that a database may use, and who gets how much of it.
//!
//! What a process needs in any case (code, planner, stacks, the allocator's gaps) is set aside. An import, an index build and
//! a merge have all of the rest while they run: statements that write take turns. Queries get it through DataFusion's
//! memory pool; what stores the rows of one takes its part from there. Mapped bytes of a pool are not DRAM in this sense: the
//! system may drop them at any time.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;
use halocline_columns::TableOptions;
use halocline_media::ram_bytes;

use crate::query_memory::QueryMemory;

/// What a process needs before it does anything, unless that is more than a quarter of the budget.
const PROCESS: usize = 24 << 20;
/// The least memory of a query for each of its threads, in bytes: with less there are fewer threads.
const OF_A_THREAD: usize = 16 << 20;
/// Budgets of at least this many bytes have batches of [`MOST_ROWS`].
const LARGE: usize = 512 << 20;
/// Rows of a batch between operators.
const MOST_ROWS: usize = 8192;
/// Rows of a batch that are worth the work of handing it on.
const LEAST_ROWS: usize = 1024;
/// The least that queries get.
const LEAST_POOL: usize = 32 << 20;

/// A budget of DRAM in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryBudget(usize);

impl MemoryBudget {
    /// As given; a quarter of the machine's DRAM if not.
    pub(crate) fn new(bytes: Option<usize>) -> Self {
        Self(bytes.unwrap_or_else(|| usize::try_from(ram_bytes() / 4).unwrap_or(usize::MAX)))
    }

    /// What there is to work with.
    pub(crate) fn work(self) -> usize {
        self.0 - PROCESS.min(self.0 / 4)
    }

    /// Of an import, rows between file and table.
    pub(crate) fn decoding(self) -> usize {
        self.work() / 4
    }

    /// Of an import, the table writer's.
    pub(crate) fn storing(self) -> usize {
        self.work() - self.decoding()
    }

    /// Rows of an open transaction that are not in segments yet.
    pub(crate) fn delta(self) -> usize {
        self.work() / 8
    }

    /// Sets the sizes that DataFusion does not take from the memory there is: buffers of each thread, rows of a batch.
    /// `threads` is the most that a query may have.
    pub(crate) fn configure(self, config: SessionConfig, threads: usize) -> SessionConfig {
        let work = self.work().max(LEAST_POOL);
        let threads = threads.min(work / OF_A_THREAD).max(1);
        let rows = MOST_ROWS.min((work / (LARGE / MOST_ROWS)).next_power_of_two());
        let mut config = config
            .with_target_partitions(threads)
            .with_batch_size(rows.max(LEAST_ROWS));
        let execution = &mut config.options_mut().execution;
        let of_sort = execution.sort_spill_reservation_bytes;
        execution.sort_spill_reservation_bytes = of_sort.min(work / threads / 8);
        let of_writer = execution.objectstore_writer_buffer_size;
        execution.objectstore_writer_buffer_size = of_writer.min(work / 64);
        config
    }

    /// What queries run with.
    pub(crate) fn runtime(self) -> Arc<RuntimeEnv> {
        let pool = QueryMemory::new(self.work().max(LEAST_POOL));
        let builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool));
        builder
            .build_arc()
            .expect("temporary files are made when a query spills, not now")
    }
}

/// What a table writer beside a query has, until this is dropped.
#[derive(Debug)]
pub(crate) struct WriterShare {
    /// For the writer.
    pub(crate) options: TableOptions,
    /// Bytes of batches on their way to it.
    pub(crate) queue: usize,
    _reserved: MemoryReservation,
}

impl WriterShare {
    /// Takes half of the budget out of the queries' pool, or what is left of it; an eighth in any case.
    pub(crate) fn take(budget: MemoryBudget, pool: &Arc<dyn MemoryPool>) -> Self {
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
        let pool = Arc::clone(&budget.runtime().memory_pool);
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
