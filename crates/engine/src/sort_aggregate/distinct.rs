//! Rows without repetitions.

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use super::once::OnceExec;
use super::parts::divided;

/// Returns the rows of a stream that differ in one of the columns, each once, in any order.
///
/// Equal rows are in one [part](super::parts), so that the set of one part is in memory at a time.
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
    let group_by = PhysicalGroupBy::new_single(columns.collect());
    let (context, input) = (Arc::clone(context), Arc::clone(&schema));
    let unique = async move {
        let parts = divided(rows, input.fields().len(), &context).await?;
        let sets = stream::iter(parts).map(move |part| {
            let rows = Arc::new(OnceExec::new(part.read()?, None));
            let (mode, input) = (AggregateMode::Single, Arc::clone(&input));
            let set = AggregateExec::try_new(mode, group_by.clone(), Vec::new(), Vec::new(), rows, input)?;
            set.execute(0, Arc::clone(&context))
        });
        Ok::<_, DataFusionError>(sets.try_flatten())
    };
    Box::pin(RecordBatchStreamAdapter::new(
        schema,
        stream::once(unique).try_flatten(),
    ))
}
