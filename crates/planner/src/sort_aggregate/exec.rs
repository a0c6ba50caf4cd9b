//! The node above an aggregation that may not fit into memory.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::{TryStreamExt, stream};

use super::aggregated::aggregated;
use super::attempt::{InputExec, MEMORY_DIVISOR, attempt};
use super::columns::ColumnsExec;
use super::layout::{Layout, unexpected};
use super::rule::aggregation;
use crate::row_size::known_rows;
use crate::unary_node::no_expressions;

/// Groups from which on sets of distinct values are many small ones, each found by random accesses. Parts of
/// the rows that are sorted are several times faster then.
const MANY_GROUPS: usize = 1000;
/// Bytes that the sets of at least that many groups may take before the rows are sorted.
const MAX_SET_BYTES: usize = 64 << 20;

/// How the groups are computed, which all partitions agree about.
type Outcome = std::result::Result<Arc<Groups>, Arc<DataFusionError>>;

enum Groups {
    /// The rows of each partition, until it takes them.
    InMemory(Mutex<Vec<Option<SendableRecordBatchStream>>>),
    /// The node with the rows of each partition, and what is done with them.
    Sorted {
        rows: Arc<dyn ExecutionPlan>,
        layout: Arc<Layout>,
    },
}

/// Runs an aggregation in memory, or, if it does not fit, by sorting.
pub struct SortAggregateExec {
    /// The aggregation, above an [`InputExec`].
    plan: Arc<dyn ExecutionPlan>,
    groups: Mutex<Option<Shared<BoxFuture<'static, Outcome>>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl SortAggregateExec {
    /// Creates the node above `plan`, whose rows are read by `first`.
    ///
    /// # Errors
    /// The plan cannot be made with another input.
    pub(super) fn try_new(plan: &Arc<dyn ExecutionPlan>, first: &AggregateExec) -> Result<Self> {
        let input: Arc<dyn ExecutionPlan> = Arc::new(InputExec::new(Arc::clone(first.input())));
        Ok(Self::over(with_input(plan, first.input(), &input)?))
    }

    fn over(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            plan,
            groups: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Decides how the groups are computed, once for all partitions.
    fn decide(&self, context: &Arc<TaskContext>) -> Shared<BoxFuture<'static, Outcome>> {
        let mut slot = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let decided = slot.get_or_insert_with(|| {
            let (plan, context) = (Arc::clone(&self.plan), Arc::clone(context));
            let sorted = MetricBuilder::new(&self.metrics).global_counter("sorted");
            let decide = async move {
                let groups = Groups::compute(&plan, &context).await?;
                sorted.add(usize::from(matches!(groups, Groups::Sorted { .. })));
                Ok(Arc::new(groups))
            };
            decide
                .map(|groups: Result<_>| groups.map_err(Arc::new))
                .boxed()
                .shared()
        });
        decided.clone()
    }
}

/// Returns a plan with `new` in the place of `old` below its first half.
fn with_input(
    plan: &Arc<dyn ExecutionPlan>,
    old: &Arc<dyn ExecutionPlan>,
    new: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if Arc::ptr_eq(plan, old) {
        return Ok(Arc::clone(new));
    }
    let [child] = plan.children()[..] else {
        return Err(unexpected("the halves are not in one line"));
    };
    let child = with_input(child, old, new)?;
    replace_children_if_necessary(Arc::clone(plan), vec![child])
}

impl Groups {
    async fn compute(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Self> {
        let Some((_, first)) = aggregation(plan) else {
            return Err(unexpected("the child is an aggregation"));
        };
        let Some(input) = first.input().downcast_ref::<InputExec>() else {
            return Err(unexpected("the input has its own context"));
        };
        input.set_context(context);
        let has_sets = first.aggr_expr().iter().any(|aggregate| aggregate.is_distinct());
        let most = if has_sets && known_rows(plan) >= MANY_GROUPS {
            MAX_SET_BYTES
        } else {
            usize::MAX
        };
        if let Some(rows) = attempt(plan, most, MEMORY_DIVISOR, context).await? {
            return Ok(Self::InMemory(Mutex::new(rows.into_iter().map(Some).collect())));
        }
        let layout = Arc::new(Layout::for_aggregate(first, context)?);
        let partitions = plan.output_partitioning().partition_count();
        let input = reset_plan_states(Arc::clone(input.input()))?;
        let columns = ColumnsExec::new(input, first.group_expr().clone(), Arc::clone(&layout));
        let rows = exchanged(Arc::new(columns), partitions, layout.keys)?;
        Ok(Self::Sorted { rows, layout })
    }

    fn execute(
        &self,
        partition: usize,
        output: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        match self {
            Self::InMemory(rows) => {
                let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
                let rows = rows.get_mut(partition).and_then(Option::take);
                rows.ok_or_else(|| unexpected("a partition is read once"))
            }
            Self::Sorted { rows, layout } => {
                let rows = rows.execute(partition, Arc::clone(context))?;
                let (layout, schema) = (Arc::clone(layout), output.schema());
                let context = Arc::clone(context);
                let groups = {
                    let schema = Arc::clone(&schema);
                    async move { aggregated(rows, &layout, schema, &context).await }
                };
                let groups = stream::once(groups).try_flatten();
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, groups)))
            }
        }
    }
}

/// Distributes rows such that all of a group are in one partition.
fn exchanged(
    columns: Arc<dyn ExecutionPlan>,
    partitions: usize,
    keys: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let before = columns.output_partitioning().partition_count();
    if partitions == 1 {
        return Ok(match before {
            1 => columns,
            _ => Arc::new(CoalescePartitionsExec::new(columns)),
        });
    }
    let schema = columns.schema();
    let keys = (0..keys).map(|key| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(key).name(), key));
        column
    });
    let partitioning = Partitioning::Hash(keys.collect(), partitions);
    Ok(Arc::new(RepartitionExec::try_new(columns, partitioning)?))
}

impl fmt::Debug for SortAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortAggregateExec")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for SortAggregateExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SortAggregate: if the groups do not fit into memory")
    }
}

impl ExecutionPlan for SortAggregateExec {
    fn name(&self) -> &'static str {
        "SortAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    no_expressions!();

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [plan] = <[_; 1]>::try_from(children).map_err(|_| unexpected("the node has one child"))?;
        Ok(Arc::new(Self::over(plan)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let decided = self.decide(&context);
        let (plan, schema) = (Arc::clone(&self.plan), self.plan.schema());
        let rows = async move {
            let groups = decided.await.map_err(DataFusionError::Shared)?;
            groups.execute(partition, &plan, &context)
        };
        let rows = stream::once(rows).try_flatten();
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
            schema, rows,
        ))))
    }
}
