//! The keys of a join's build side, collected while the join reads it.
//!
//! A hash join publishes bounds of its keys, and a lookup in its hash table that costs a hash for each row.
//! With the keys themselves, a scan makes a set of the codes of each key column, and tests a bit for each
//! row; that also excludes rows by each column of a key of several.
//!
//! Invariants: the keys are used once all partitions of the build side have been read to their end, and never
//! if there was not enough memory to keep them.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, RecordBatch};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::joins::HashJoinExec;

/// Rows of a build side beyond which its keys are not kept.
const MAX_ROWS: usize = 8 << 20;
/// The part of the memory of queries that keys of a join may take: one over this. The join itself, which
/// fails without memory, needs the rest.
const MEMORY_PART: usize = 16;

/// The keys of the build side of one join.
#[derive(Debug)]
pub struct BuildKeys {
    /// The columns of the build side that are keys, by position among the keys; `None` for other expressions.
    columns: Vec<Option<usize>>,
    state: Mutex<Collected>,
}

/// The keys collected so far.
#[derive(Debug)]
struct Collected {
    /// Partitions that have not been read to their end.
    partitions: usize,
    rows: usize,
    /// For each batch, the keys in the order of `BuildKeys::columns`.
    batches: Vec<Vec<Option<ArrayRef>>>,
    memory: Option<MemoryReservation>,
    given_up: bool,
}

impl BuildKeys {
    /// Returns the columns of the build side that are keys.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().flatten().copied()
    }

    /// Makes an empty collection of the keys of a join.
    pub fn for_join(join: &HashJoinExec) -> Self {
        let column = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().map(Column::index);
        Self {
            columns: join.on().iter().map(|(left, _)| column(left)).collect(),
            state: Mutex::new(Collected {
                partitions: join.left().output_partitioning().partition_count(),
                rows: 0,
                batches: Vec::new(),
                memory: None,
                given_up: false,
            }),
        }
    }

    /// Returns the values of a key, by position among the keys, in no order; `None` if they are not all
    /// known.
    pub fn values(&self, key: usize) -> Option<Vec<ArrayRef>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.partitions > 0 || state.given_up {
            return None;
        }
        state
            .batches
            .iter()
            .map(|batch| batch.get(key)?.clone())
            .collect()
    }

    /// Collects the keys of a batch.
    pub fn add(&self, batch: &RecordBatch, context: &TaskContext) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.given_up {
            return;
        }
        let keys = self
            .columns
            .iter()
            .map(|column| column.map(|at| Arc::clone(batch.column(at))));
        let keys: Vec<Option<ArrayRef>> = keys.collect();
        let bytes: usize = keys
            .iter()
            .flatten()
            .map(|keys| keys.get_array_memory_size())
            .sum();
        let pool = context.memory_pool();
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / MEMORY_PART,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let memory = state
            .memory
            .get_or_insert_with(|| MemoryConsumer::new("JoinKeys").register(pool));
        let fits = memory.size().saturating_add(bytes) <= most && memory.try_grow(bytes).is_ok();
        state.rows += batch.num_rows();
        if fits && state.rows <= MAX_ROWS {
            state.batches.push(keys)
        } else {
            state.given_up = true;
            state.batches = Vec::new();
            state.memory = None;
        }
    }

    /// Notes that a partition has been read to its end.
    pub fn finish_partition(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.partitions = state.partitions.saturating_sub(1);
    }
}
