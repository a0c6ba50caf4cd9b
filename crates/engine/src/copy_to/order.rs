//! The order of the rows that `COPY … TO` writes, and of those of CSV files that a statement stores.
//!
//! A query that only reads, filters and computes row by row is planned with one partition, so that its rows
//! are written in the order in which its tables have them. Files are compressed, encoded and decoded by
//! several threads all the same.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use halocline_scan::files::CsvTable;

/// Returns the physical plan of a `COPY … TO` that keeps the order of the rows.
///
/// # Errors
/// No physical plan can be made.
pub(crate) async fn in_order(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    match plan {
        LogicalPlan::Copy(copy) if is_row_by_row(&copy.input) => concatenated(state, plan).await,
        _ => state.create_physical_plan(plan).await,
    }
}

/// Returns the physical plan of a query over CSV files in place that keeps the order of the rows; `None` for
/// another query.
///
/// # Errors
/// No physical plan can be made.
pub(crate) async fn of_files_in_order(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if is_row_by_row(plan) && scans_csv_only(plan) {
        concatenated(state, plan).await.map(Some)
    } else {
        Ok(None)
    }
}

/// Returns the physical plan of a row-by-row query whose partitions are read one after the other.
async fn concatenated(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let mut state = state.clone();
    state.config_mut().options_mut().execution.target_partitions = 1;
    let physical = state.create_physical_plan(plan).await?;
    let ordered = physical.transform_up(|node| {
        let Some(merged) = node.downcast_ref::<CoalescePartitionsExec>() else {
            return Ok(Transformed::no(node));
        };
        let concatenated = ConcatenateExec::new(Arc::clone(merged.input()), merged.fetch());
        Ok(Transformed::yes(Arc::new(concatenated) as Arc<dyn ExecutionPlan>))
    });
    Ok(ordered?.data)
}

/// Returns true if the rows of a plan are those of its tables, one after the other.
fn is_row_by_row(plan: &LogicalPlan) -> bool {
    let this = matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::TableScan(_)
    );
    this && plan.inputs().into_iter().all(is_row_by_row)
}

fn scans_csv_only(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => {
            source_as_provider(&scan.source).is_ok_and(|table| table.downcast_ref::<CsvTable>().is_some())
        }
        other => other.inputs().into_iter().all(scans_csv_only),
    }
}

/// The partitions of its input, one after the other.
#[derive(Debug)]
struct ConcatenateExec {
    input: Arc<dyn ExecutionPlan>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl ConcatenateExec {
    fn new(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            fetch,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for ConcatenateExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConcatenateExec")
    }
}

impl ExecutionPlan for ConcatenateExec {
    fn name(&self) -> &'static str {
        "ConcatenateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(Self::new(input, self.fetch))),
            None => Ok(self),
        }
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (input, count) = (
            Arc::clone(&self.input),
            self.input.output_partitioning().partition_count(),
        );
        let partitions = stream::iter(0..count).map(move |i| input.execute(i, Arc::clone(&context)));
        let rows = partitions.try_flatten();
        let schema = self.schema();
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        match self.fetch {
            Some(fetch) => {
                let metrics = BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
                Ok(Box::pin(LimitStream::new(rows, 0, Some(fetch), metrics)))
            }
            None => Ok(rows),
        }
    }
}
