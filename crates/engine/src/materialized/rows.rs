//! Rows that several operators read.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SpillManager};
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::{TryStreamExt, stream};

/// The outcome of a query, which every reader gets.
type Outcome = std::result::Result<Arc<Collected>, Arc<DataFusionError>>;

/// The rows of a query, once the first reader has asked for them.
#[derive(Default)]
pub(super) struct SharedRows {
    collected: Mutex<Option<Shared<BoxFuture<'static, Outcome>>>>,
}

impl std::fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedRows")
    }
}

impl SharedRows {
    /// Returns the rows. The first call runs the plan, as its caller and all others wait for it.
    pub(super) fn get(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> impl Future<Output = Result<Arc<Collected>>> + Send + use<> {
        let mut slot = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let collected = slot.get_or_insert_with(|| {
            let (plan, context) = (Arc::clone(plan), Arc::clone(context));
            let collect = async move { collect(plan, context).await.map(Arc::new).map_err(Arc::new) };
            collect.boxed().shared()
        });
        let collected = collected.clone();
        async move { collected.await.map_err(DataFusionError::Shared) }
    }
}

/// All rows of a query: in memory, or in a file if they were too many.
pub(super) struct Collected {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    file: Option<(SpillManager, Arc<dyn SpillFile>)>,
    /// Held as long as the batches are.
    _memory: MemoryReservation,
}

impl Collected {
    /// Returns the rows in their order.
    pub(super) fn read(self: Arc<Self>) -> Result<SendableRecordBatchStream> {
        if let Some((spills, file)) = &self.file {
            return spills.read_spill_as_stream(Arc::clone(file), None);
        }
        let schema = Arc::clone(&self.schema);
        let batches = stream::unfold((self, 0), |(rows, at)| async move {
            let batch = rows.batches.get(at)?.clone();
            Some((Ok(batch), (rows, at + 1)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// Runs a plan of one partition. As soon as memory is refused, all rows go to a file.
async fn collect(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Collected> {
    let mut rows = plan.execute(0, Arc::clone(&context))?;
    let schema = rows.schema();
    let consumer = MemoryConsumer::new("Materialized").with_can_spill(true);
    let memory = consumer.register(context.memory_pool());
    let mut batches: Vec<RecordBatch> = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        let fits = memory.try_grow(batch.get_array_memory_size()).is_ok();
        batches.push(batch);
        if fits {
            continue;
        }
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let spills = SpillManager::new(context.runtime_env(), metrics, Arc::clone(&schema));
        let mut file = spills.create_in_progress_file("rows of a common table expression")?;
        for batch in batches.drain(..) {
            file.append_batch(&batch)?;
        }
        memory.free();
        while let Some(batch) = rows.try_next().await? {
            file.append_batch(&batch)?;
        }
        let file = file.finish()?.map(|file| (spills, file));
        return Ok(Collected {
            schema,
            batches,
            file,
            _memory: memory,
        });
    }
    Ok(Collected {
        schema,
        batches,
        file: None,
        _memory: memory,
    })
}
