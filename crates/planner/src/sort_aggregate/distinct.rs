//! Rows without repetitions.
//!
//! Equal rows are in one [part](super::parts), so that the set of one part is in memory at a time. A part
//! whose set does not fit into the memory that others leave is divided further.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use super::attempt::attempt;
use super::once::OnceExec;
use super::parts::{LEVELS, Part, divided};

/// Part of the memory that the set of a part may take: one over this. The rows are copied when it ends.
const SET_MEMORY_DIVISOR: usize = 2;

/// Returns the rows of a stream that differ in one of the columns, each once, in any order.
pub(super) fn distinct(
    rows: SendableRecordBatchStream,
    context: &Arc<TaskContext>,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(number, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), number));
        (column, field.name().clone())
    });
    let mut sets = PartSets {
        parts: Vec::new(),
        group_by: PhysicalGroupBy::new_single(columns.collect()),
        schema: Arc::clone(&schema),
        context: Arc::clone(context),
    };
    let unique = async move {
        sets.divide(rows, 0).await?;
        let sets = stream::try_unfold(sets, |mut sets| async move {
            let set = sets.next().await?;
            Ok::<_, DataFusionError>(set.map(|set| (set, sets)))
        });
        Ok::<_, DataFusionError>(sets.try_flatten())
    };
    Box::pin(RecordBatchStreamAdapter::new(
        schema,
        stream::once(unique).try_flatten(),
    ))
}

/// The sets of the parts that are left.
struct PartSets {
    /// The parts, each with the times that its rows were divided.
    parts: Vec<(Part, u32)>,
    group_by: PhysicalGroupBy,
    schema: SchemaRef,
    context: Arc<TaskContext>,
}

impl PartSets {
    /// Adds the parts of rows that were divided `level` times.
    async fn divide(&mut self, rows: SendableRecordBatchStream, level: u32) -> Result<()> {
        let parts = divided(rows, self.schema.fields().len(), level, &self.context).await?;
        self.parts.extend(parts.into_iter().map(|part| (part, level + 1)));
        Ok(())
    }

    /// Returns the set of the next part.
    async fn next(&mut self) -> Result<Option<SendableRecordBatchStream>> {
        while let Some((part, level)) = self.parts.pop() {
            let set = self.set_of(part.read()?)?;
            if level == LEVELS {
                return set.execute(0, Arc::clone(&self.context)).map(Some);
            }
            if let Some(mut set) = attempt(&set, usize::MAX, SET_MEMORY_DIVISOR, &self.context).await? {
                return Ok(set.pop());
            }
            self.divide(part.read()?, level).await?;
        }
        Ok(None)
    }

    /// Returns the node that drops repeated rows of a part.
    fn set_of(&self, rows: SendableRecordBatchStream) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = Arc::new(OnceExec::new(rows, None));
        let (group_by, schema) = (self.group_by.clone(), Arc::clone(&self.schema));
        let mode = AggregateMode::Single;
        let set = AggregateExec::try_new(mode, group_by, Vec::new(), Vec::new(), rows, schema)?;
        Ok(Arc::new(set))
    }
}
