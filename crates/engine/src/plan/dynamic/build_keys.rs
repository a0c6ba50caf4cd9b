//! The keys of a join's build side, collected while the join reads it.
//!
//! A hash join publishes bounds of its keys, and a lookup in its hash table that costs a hash for each row.
//! With the keys themselves, a scan makes a set of the codes of each key column, and tests a bit for each
//! row; that also excludes rows by each column of a key of several.
//!
//! Invariants: the keys are used once all partitions of the build side have been read to their end, and never
//! if there was not enough memory to keep them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use arrow_array::{Array, ArrayRef, RecordBatch};
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, stream};

/// Rows of a build side beyond which its keys are not kept.
const MOST_ROWS: usize = 8 << 20;
/// The part of the memory of queries that keys of a join may take: one over this. The join itself, which
/// fails without memory, needs the rest.
const MEMORY_PART: usize = 16;

/// The keys of the build side of one join.
#[derive(Debug)]
pub(super) struct BuildKeys {
    /// The columns of the build side that are keys, by position among the keys; none for other expressions.
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
    /// Makes an empty collection of the keys of a join.
    pub(super) fn of(join: &HashJoinExec) -> Self {
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

    /// Returns the values of a key, by position among the keys, in no order; none if they are not all known.
    pub(super) fn values(&self, key: usize) -> Option<Vec<ArrayRef>> {
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

    fn add(&self, batch: &RecordBatch, context: &TaskContext) {
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
        match fits && state.rows <= MOST_ROWS {
            true => state.batches.push(keys),
            false => {
                state.given_up = true;
                state.batches = Vec::new();
                state.memory = None;
            }
        }
    }

    fn finish_partition(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.partitions = state.partitions.saturating_sub(1);
    }
}

/// Passes the build side of a join on, and collects its keys.
#[derive(Debug)]
pub(super) struct BuildKeysExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<BuildKeys>,
}

impl BuildKeysExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, keys: Arc<BuildKeys>) -> Self {
        Self { input, keys }
    }
}

impl DisplayAs for BuildKeysExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let columns = self.keys.columns.iter().flatten();
        let names: Vec<&str> = columns.map(|at| schema.field(*at).name().as_str()).collect();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "JoinKeys: columns=[{}]", names.join(", "))
            }
            DisplayFormatType::TreeRender => writeln!(f, "columns={}", names.join(", ")),
        }
    }
}

impl ExecutionPlan for BuildKeysExec {
    fn name(&self) -> &'static str {
        "JoinKeys"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return Err(DataFusionError::Internal("JoinKeys has one child".into()));
        };
        Ok(Arc::new(Self::new(input, Arc::clone(&self.keys))))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // Scans have no dynamic filters after a reset, so nothing reads the keys.
        Ok(Arc::clone(&self.input))
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match input_stats {
            [statistics] => Ok(Arc::clone(statistics)),
            _ => Err(DataFusionError::Internal("JoinKeys has one child".into())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let schema = input.schema();
        let keys = Arc::clone(&self.keys);
        let batches = input.inspect(move |batch| {
            if let Ok(batch) = batch {
                keys.add(batch, &context);
            }
        });
        let mut end = Some(Arc::clone(&self.keys));
        let finished = stream::poll_fn(move |_| {
            if let Some(keys) = end.take() {
                keys.finish_partition();
            }
            Poll::Ready(None)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            batches.chain(finished),
        )))
    }
}
