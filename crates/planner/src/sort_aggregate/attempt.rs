//! The aggregation as it was planned, in a part of the memory and without files.
//!
//! Invariant: the first refusal ends the attempt. A partial aggregation that is refused memory would go on,
//! and pass on the states of its groups, which are all values of a group here and which exchanges keep
//! without counting them until there are enough rows for a batch.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::layout::unexpected;
use crate::unary_node::{no_expressions, one_child};

/// Part of the memory that aggregates may take which collect values: one over this. The states of the groups
/// are copied between the two halves of an aggregation, and results are copies again.
pub(super) const MEMORY_DIVISOR: usize = 4;

/// Runs a plan until each partition has returned its first batch, which an aggregation does when it has read
/// all of its input. Returns `None` if that takes more than `most` bytes, more than the memory divided by
/// `share`, or more than others leave.
///
/// # Errors
/// Any other error of the plan.
pub(super) async fn attempt(
    plan: &Arc<dyn ExecutionPlan>,
    most: usize,
    share: usize,
    context: &Arc<TaskContext>,
) -> Result<Option<Vec<SendableRecordBatchStream>>> {
    let refused = Arc::new(Notify::new());
    let most = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => most.min(bytes / share),
        _ => most,
    };
    let context = limited(context, most, &refused)?;
    let partitions = plan.output_partitioning().partition_count();
    let mut tasks: JoinSet<Result<(usize, SendableRecordBatchStream)>> = JoinSet::new();
    let mut failed = None;
    for partition in 0..partitions {
        match plan.execute(partition, Arc::clone(&context)) {
            Ok(rows) => {
                tasks.spawn(async move { Ok((partition, begun(rows).await?)) });
            }
            Err(error) => failed = Some(error),
        }
    }
    let mut begun: Vec<Option<SendableRecordBatchStream>> = (0..partitions).map(|_| None).collect();
    while failed.is_none()
        && let Some(task) = tokio::select! {
            biased;
            () = refused.notified() => {
                tasks.shutdown().await;
                return Ok(None);
            }
            task = tasks.join_next() => task,
        }
    {
        match task.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))? {
            Ok((partition, rows)) => begun[partition] = Some(rows),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        None => begun
            .into_iter()
            .collect::<Option<_>>()
            .map(Some)
            .ok_or_else(|| unexpected("all are begun")),
        Some(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
            tasks.shutdown().await;
            Ok(None)
        }
        Some(error) => Err(error),
    }
}

/// Waits for the first batch of a stream, and returns a stream with it.
async fn begun(mut rows: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
    let schema = rows.schema();
    let first: Option<RecordBatch> = rows.try_next().await?;
    let all = stream::iter(first.map(Ok)).chain(rows);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
}

/// Returns a context with `most` bytes of the memory, in which nothing spills. The first refusal is notified.
fn limited(context: &TaskContext, most: usize, refused: &Arc<Notify>) -> Result<Arc<TaskContext>> {
    let runtime = context.runtime_env();
    let pool = LimitedPool::over(Arc::clone(&runtime.memory_pool), most, Arc::clone(refused));
    let no_files = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::from_runtime_env(&runtime)
        .with_memory_pool(Arc::new(pool))
        .with_disk_manager_builder(no_files)
        .build_arc()?;
    let context = TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        runtime,
    );
    Ok(Arc::new(context))
}

/// A part of another pool.
#[derive(Debug)]
struct LimitedPool {
    inner: Arc<dyn MemoryPool>,
    limit: usize,
    used: AtomicUsize,
    refused: Arc<Notify>,
}

impl LimitedPool {
    fn over(inner: Arc<dyn MemoryPool>, limit: usize, refused: Arc<Notify>) -> Self {
        Self {
            inner,
            limit,
            used: AtomicUsize::new(0),
            refused,
        }
    }
}

impl fmt::Display for LimitedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a part of {}", self.inner)
    }
}

impl MemoryPool for LimitedPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.used.fetch_add(additional, Ordering::Relaxed);
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.used.fetch_sub(shrink, Ordering::Relaxed);
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let used = self.used.fetch_add(additional, Ordering::Relaxed) + additional;
        let grown = if used > self.limit {
            Err(DataFusionError::ResourcesExhausted(
                "the groups do not fit".into(),
            ))
        } else {
            self.inner.try_grow(reservation, additional)
        };
        if grown.is_err() {
            self.used.fetch_sub(additional, Ordering::Relaxed);
            self.refused.notify_one();
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

/// The input of an aggregation, which has all memory while the aggregation is attempted in a part.
#[derive(Debug)]
pub(super) struct InputExec {
    input: Arc<dyn ExecutionPlan>,
    context: Mutex<Option<Arc<TaskContext>>>,
}

impl InputExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            context: Mutex::default(),
        }
    }

    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Sets the context that the input is executed with.
    pub(super) fn set_context(&self, context: &Arc<TaskContext>) {
        let mut own = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        *own = Some(Arc::clone(context));
    }
}

impl DisplayAs for InputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SortAggregateInput")
    }
}

impl ExecutionPlan for InputExec {
    fn name(&self) -> &'static str {
        "SortAggregateInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    no_expressions!();

    one_child!(|_node, input| Self::new(input));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let own = self
            .context
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        self.input.execute(partition, own.unwrap_or(context))
    }
}
