//! The rows of one partition, aggregated part by part.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use super::attempt::attempt;
use super::branch::by_sorting;
use super::joined::joined;
use super::layout::Layout;
use super::once::OnceExec;
use super::parts::{Part, divided};

/// Returns the groups of rows that have the columns of a layout, part by part.
///
/// # Errors
/// That of the rows; a file cannot be written or read.
pub(super) async fn aggregated(
    rows: SendableRecordBatchStream,
    layout: &Arc<Layout>,
    output: SchemaRef,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    if layout.keys == 0 {
        return by_sorting(rows, layout, output, context).await;
    }
    let parts = divided(rows, layout.keys, context).await?;
    let (layout, context, schema) = (Arc::clone(layout), Arc::clone(context), Arc::clone(&output));
    let groups = stream::iter(parts).then(move |part| {
        let (layout, context, schema) = (Arc::clone(&layout), Arc::clone(&context), Arc::clone(&schema));
        async move {
            match in_memory(&part, &layout, Arc::clone(&schema), &context).await? {
                Some(groups) => Ok(groups),
                None => by_sorting(part.read()?, &layout, schema, &context).await,
            }
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(
        output,
        groups.try_flatten(),
    )))
}

/// Returns the groups of a part if they fit into memory.
async fn in_memory(
    part: &Part,
    layout: &Layout,
    output: SchemaRef,
    context: &Arc<TaskContext>,
) -> Result<Option<SendableRecordBatchStream>> {
    if layout.unsorted.is_empty() {
        return Ok(None);
    }
    let rows = Arc::new(OnceExec::new(part.read()?, None));
    let aggregation: Arc<dyn ExecutionPlan> = Arc::new(layout.aggregation(&layout.unsorted, rows)?);
    let groups = attempt(&aggregation, usize::MAX, context).await?;
    let places = (0..layout.unsorted.len()).map(|number| (0, number));
    Ok(groups.map(|groups| joined(groups, layout.keys, places.collect(), output)))
}
