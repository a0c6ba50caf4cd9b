//! The values of one group in their order, in memory or in a file.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::take::take;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SpillFile, TaskContext};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::TryStreamExt;
use halocline_catalog::spill_writer::SpillWriter;
use halocline_values::sliced_size;

use super::layout::unexpected;

/// An append-only list of one group's values, read by position; spills to a file.
pub(super) struct GroupValues {
    spills: SpillManager,
    schema: SchemaRef,
    memory: MemoryReservation,
    parts: Vec<ArrayRef>,
    file: Option<SpillWriter>,
    count: u64,
}

impl GroupValues {
    pub(super) fn new(field: &Field, context: &TaskContext) -> Self {
        let schema: SchemaRef = Arc::new(Schema::new(vec![field.clone()]));
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let consumer = MemoryConsumer::new("values of a group").with_can_spill(true);
        Self {
            spills: SpillManager::new(context.runtime_env(), metrics, Arc::clone(&schema)),
            schema,
            memory: consumer.register(context.memory_pool()),
            parts: Vec::new(),
            file: None,
            count: 0,
        }
    }

    /// Returns the number of values.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds values. Once a reservation fails, all values move to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn push(&mut self, values: ArrayRef) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.count += values.len() as u64;
        let bytes = sliced_size::of_array(&values)?;
        let fits = self.file.is_none() && self.memory.try_grow(bytes).is_ok();
        self.parts.push(values);
        if fits {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = SpillWriter::new(&self.spills, "values of a group")?;
                self.file.insert(file)
            }
        };
        for part in self.parts.drain(..) {
            file.append(&RecordBatch::try_new(Arc::clone(&self.schema), vec![part])?)?;
        }
        self.memory.free();
        Ok(())
    }

    /// Returns the values at two positions, the first of which is not after the second, and removes all.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) async fn take(&mut self, positions: [u64; 2]) -> Result<[ArrayRef; 2]> {
        self.count = 0;
        let mut picked = PickedValues {
            positions,
            passed: 0,
            values: Vec::new(),
        };
        if let Some(file) = self.file.take() {
            let file: Arc<dyn SpillFile> =
                file.finish()?.ok_or_else(|| unexpected("the file has no rows"))?;
            let mut rows = self.spills.read_spill_as_stream(file, None)?;
            while picked.values.len() < positions.len()
                && let Some(batch) = rows.try_next().await?
            {
                picked.pick_from(batch.column(0))?;
            }
        }
        for part in self.parts.drain(..) {
            picked.pick_from(&part)?;
        }
        self.memory.free();
        <[ArrayRef; 2]>::try_from(picked.values).map_err(|_| unexpected("a position after the last value"))
    }
}

/// The values picked so far at the requested positions.
struct PickedValues {
    positions: [u64; 2],
    /// The number of values in the parts that were read.
    passed: u64,
    values: Vec<ArrayRef>,
}

impl PickedValues {
    fn pick_from(&mut self, part: &ArrayRef) -> Result<()> {
        let end = self.passed + part.len() as u64;
        while let Some(&position) = self.positions.get(self.values.len())
            && position < end
        {
            // A slice would hold the whole part.
            let index = UInt64Array::from(vec![position - self.passed]);
            self.values.push(take(part, &index, None)?);
        }
        self.passed = end;
        Ok(())
    }
}
