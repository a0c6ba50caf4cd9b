//! Rows that several operators read, or one several times.

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
            let collect = async move {
                let rows = plan.execute(0, Arc::clone(&context))?;
                Collected::collect(rows, "rows of a common table expression", &context).await
            };
            let collect = async move { collect.await.map(Arc::new).map_err(Arc::new) };
            collect.boxed().shared()
        });
        let collected = collected.clone();
        async move { collected.await.map_err(DataFusionError::Shared) }
    }
}

/// Moves batches to a file, and the rest of a stream with them.
async fn spilled(
    batches: Vec<RecordBatch>,
    memory: MemoryReservation,
    mut rows: SendableRecordBatchStream,
    what: &str,
    context: &TaskContext,
) -> Result<Option<(SpillManager, Arc<dyn SpillFile>)>> {
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let spills = SpillManager::new(context.runtime_env(), metrics, rows.schema());
    let mut file = spills.create_in_progress_file(what)?;
    for batch in batches {
        file.append_batch(&batch)?;
    }
    drop(memory);
    while let Some(batch) = rows.try_next().await? {
        file.append_batch(&batch)?;
    }
    Ok(file.finish()?.map(|file| (spills, file)))
}

/// All rows of a stream: in memory, or in a file if they were too many.
pub struct Collected {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    file: Option<(SpillManager, Arc<dyn SpillFile>)>,
    /// Held as long as the batches are. It is none that spills any more: those share the memory.
    memory: MemoryReservation,
}

impl Collected {
    /// Reads a stream to its end. As soon as memory is refused, all rows go to a file, which errors call
    /// `what`.
    ///
    /// # Errors
    /// That of the stream; the file cannot be written.
    pub async fn collect(
        mut rows: SendableRecordBatchStream,
        what: &str,
        context: &TaskContext,
    ) -> Result<Self> {
        let consumer = || MemoryConsumer::new("Materialized");
        let held = consumer().register(context.memory_pool());
        let collecting = consumer().with_can_spill(true).register(context.memory_pool());
        let mut collected = Self {
            schema: rows.schema(),
            batches: Vec::new(),
            file: None,
            memory: held,
        };
        while let Some(batch) = rows.try_next().await? {
            let fits = collecting.try_grow(batch.get_array_memory_size()).is_ok();
            collected.batches.push(batch);
            if !fits {
                let batches = std::mem::take(&mut collected.batches);
                collected.file = spilled(batches, collecting, rows, what, context).await?;
                return Ok(collected);
            }
        }
        let bytes = collecting.free();
        collected.memory.grow(bytes);
        Ok(collected)
    }

    /// Returns the rows in their order.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(self: Arc<Self>) -> Result<SendableRecordBatchStream> {
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
