//! The rows of one partition, aggregated part by part.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use super::attempt::{MEMORY_DIVISOR, attempt};
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
    let parts = divided(rows, layout.keys, 0, context).await?;
    let state = PartGroups {
        parts: parts.into_iter(),
        // Where some aggregates depend on the order of the rows, these are sorted.
        fits: !layout.unsorted.is_empty(),
        layout: Arc::clone(layout),
        output: Arc::clone(&output),
        context: Arc::clone(context),
    };
    let groups = stream::try_unfold(state, |mut state| async move {
        let groups = state.next().await?;
        Ok::<_, DataFusionError>(groups.map(|groups| (groups, state)))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(
        output,
        groups.try_flatten(),
    )))
}

/// The groups of the parts that are left.
struct PartGroups {
    parts: std::vec::IntoIter<Part>,
    /// False as soon as a part did not fit: the others have about as many rows.
    fits: bool,
    layout: Arc<Layout>,
    output: SchemaRef,
    context: Arc<TaskContext>,
}

impl PartGroups {
    async fn next(&mut self) -> Result<Option<SendableRecordBatchStream>> {
        let Some(part) = self.parts.next() else {
            return Ok(None);
        };
        if self.fits {
            if let Some(groups) = self.in_memory(&part).await? {
                return Ok(Some(groups));
            }
            self.fits = false;
        }
        let output = Arc::clone(&self.output);
        let groups = by_sorting(part.read()?, &self.layout, output, &self.context).await?;
        Ok(Some(groups))
    }

    /// Returns the groups of a part if they fit into memory.
    async fn in_memory(&self, part: &Part) -> Result<Option<SendableRecordBatchStream>> {
        let (rows, aggregates) = (Arc::new(OnceExec::new(part.read()?, None)), &self.layout.unsorted);
        let aggregation: Arc<dyn ExecutionPlan> = Arc::new(self.layout.aggregation(aggregates, rows)?);
        let groups = attempt(&aggregation, usize::MAX, MEMORY_DIVISOR, &self.context).await?;
        let places = (0..aggregates.len()).map(|number| (0, number)).collect();
        let output = Arc::clone(&self.output);
        Ok(groups.map(|groups| joined(groups, self.layout.keys, places, output)))
    }
}
