//! Aggregates over all rows of a stream.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use futures::TryStreamExt;

use super::aggregated::aggregated;
use super::columns::ColumnsExec;
use super::layout::{BranchKind, Layout, collects, kind_of, unexpected};
use super::once::OnceExec;

/// Returns true if an aggregate keeps all values of a group, and is computed from sorted values in little
/// memory.
pub fn is_of_sorted_values(aggregate: &AggregateFunctionExpr) -> bool {
    collects(aggregate) && kind_of(aggregate) != BranchKind::Groups
}

/// Returns aggregates over all rows, by sorting.
///
/// # Errors
/// That of the rows; a file cannot be written or read.
pub async fn of_all_rows(
    rows: SendableRecordBatchStream,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    context: &Arc<TaskContext>,
) -> Result<Vec<ScalarValue>> {
    let schema = rows.schema();
    let filters = vec![None; aggregates.len()];
    let all = PhysicalGroupBy::new_single(Vec::new());
    let input: Arc<dyn ExecutionPlan> = Arc::new(OnceExec::new(rows, None));
    let aggregation = AggregateExec::try_new(
        AggregateMode::Single,
        all.clone(),
        aggregates,
        filters,
        Arc::clone(&input),
        schema,
    )?;
    let layout = Arc::new(Layout::for_aggregate(&aggregation, context)?);
    let columns = ColumnsExec::new(input, all, Arc::clone(&layout)).execute(0, Arc::clone(context))?;
    let mut group = aggregated(columns, &layout, aggregation.schema(), context).await?;
    while let Some(batch) = group.try_next().await? {
        if batch.num_rows() > 0 {
            let values = batch.columns().iter();
            let values = values.map(|column| ScalarValue::try_from_array(column, 0));
            return values.collect();
        }
    }
    Err(unexpected("all rows are one group"))
}
