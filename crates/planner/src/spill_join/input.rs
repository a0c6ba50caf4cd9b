//! The inputs of a join: streams of DataFusion, each of which is a morsel.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use futures::future::{Either, select};
use halocline_joins::equi::{EachBatch, JoinSource};
use halocline_joins::{JoinError, JoinResult};
use halocline_sql::stack;
use tokio::runtime::Handle;

use super::key_bounds::KeyBounds;
use super::run::Cancel;

/// An input, with its keys as columns: those that are other expressions are appended.
pub(super) struct StreamSource {
    schema: SchemaRef,
    appended: Vec<Arc<dyn PhysicalExpr>>,
    /// Positions of the keys.
    pub(super) keys: Vec<usize>,
    streams: Vec<Mutex<Option<SendableRecordBatchStream>>>,
    rows: Option<u64>,
    bounds: Option<KeyBounds>,
    runtime: Handle,
    cancel: Arc<Cancel>,
}

impl StreamSource {
    /// Starts all partitions of a plan. Must be called in a runtime.
    ///
    /// # Errors
    /// A partition cannot be started; a key has no type.
    pub(super) fn start<'a>(
        plan: &Arc<dyn ExecutionPlan>,
        keys: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
        rows: Option<u64>,
        context: &Arc<TaskContext>,
        cancel: &Arc<Cancel>,
    ) -> Result<Self> {
        let input = plan.schema();
        let mut fields: Vec<Arc<Field>> = input.fields().iter().cloned().collect();
        let (mut appended, mut positions) = (Vec::new(), Vec::new());
        for key in keys {
            if let Some(column) = key.downcast_ref::<Column>() {
                positions.push(column.index());
                continue;
            }
            positions.push(fields.len());
            let name = format!("key {}", fields.len());
            fields.push(Arc::new(Field::new(
                name,
                key.data_type(&input)?,
                key.nullable(&input)?,
            )));
            appended.push(Arc::clone(key));
        }
        let partitions = plan.properties().partitioning.partition_count();
        let streams = (0..partitions).map(|partition| {
            let stream = stack::execute_partition(plan, partition, context)?;
            Ok(Mutex::new(Some(stream)))
        });
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            appended,
            keys: positions,
            streams: streams.collect::<Result<_>>()?,
            rows,
            bounds: None,
            runtime: Handle::current(),
            cancel: Arc::clone(cancel),
        })
    }

    /// Collects bounds of its keys, for a build side.
    pub(super) fn with_bounds(mut self, bounds: Option<KeyBounds>) -> Self {
        self.bounds = bounds;
        self
    }

    /// Leaves the dynamic filter as it is: no row will be read.
    pub(super) fn leave_out(&self) {
        if let Some(bounds) = &self.bounds {
            bounds.leave_out();
        }
    }

    /// Returns a batch of the plan with the keys appended.
    fn with_keys(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.appended.is_empty() {
            return Ok(batch);
        }
        let mut columns = batch.columns().to_vec();
        for key in &self.appended {
            columns.push(key.evaluate(&batch)?.into_array(batch.num_rows())?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Returns the next batch of a stream; `None` at its end.
    fn next(&self, stream: &mut SendableRecordBatchStream) -> JoinResult<Option<RecordBatch>> {
        let next = self.runtime.block_on(async {
            match select(stream.next(), pin!(self.cancel.wait())).await {
                Either::Left((next, _)) => Ok(next),
                Either::Right(_) => Err(JoinError::Interrupted),
            }
        })?;
        next.transpose().map_err(failed)
    }
}

fn failed(error: datafusion::error::DataFusionError) -> JoinError {
    JoinError::Source(Box::new(error))
}

impl JoinSource for StreamSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn morsels(&self) -> usize {
        self.streams.len()
    }

    fn read(&self, morsel: usize, each: &mut EachBatch<'_>) -> JoinResult<()> {
        let mut slot = self.streams[morsel]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(mut stream) = slot.take() else {
            return Ok(());
        };
        drop(slot);
        let bounds = self.bounds.as_ref();
        let mut found = bounds.map(KeyBounds::of_stream).transpose().map_err(failed)?;
        while let Some(batch) = self.next(&mut stream)? {
            let batch = self.with_keys(batch).map_err(failed)?;
            if let (Some(bounds), Some(found)) = (bounds, &mut found) {
                bounds.add(found, &batch).map_err(failed)?;
            }
            each(batch)?;
        }
        match (bounds, found) {
            (Some(bounds), Some(found)) => bounds.finish(found).map_err(failed),
            _ => Ok(()),
        }
    }

    fn rows_estimate(&self) -> Option<u64> {
        self.rows
    }

    fn is_rereadable(&self) -> bool {
        false
    }
}
