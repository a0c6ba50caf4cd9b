//! The node for `ORDER BY … LIMIT k OFFSET n` with a large n.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SortOptions};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, IsNullExpr, lit,
};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    apply_expression_roots, replace_children_if_necessary,
};
use futures::{StreamExt, TryStreamExt};
use halocline_scan::leaf::LeafExec;
use halocline_scan::plan::PoolScan;

use super::top_rows::TopRows;
use crate::unary_node::one_child;

/// Returns the rows of some ranks of its input in an order, sorted. What it has found out about the first
/// sort column is a dynamic filter for the scans below.
#[derive(Debug)]
pub(crate) struct TopRowsExec {
    order: LexOrdering,
    input: Arc<dyn ExecutionPlan>,
    skip: usize,
    /// Number of rows before the first wanted one that the input does not have any more.
    counted: usize,
    rows: usize,
    filter: Arc<DynamicFilterPhysicalExpr>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Returns the plan with one partition.
pub(super) fn with_one_partition(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}

impl TopRowsExec {
    /// Makes the node for `rows` rows after the first `skip` ones, of an input of one partition.
    ///
    /// # Errors
    /// The input has several partitions.
    pub(super) fn new(
        order: LexOrdering,
        input: Arc<dyn ExecutionPlan>,
        skip: usize,
        rows: usize,
    ) -> Result<Self> {
        if input.output_partitioning().partition_count() != 1 {
            return Err(DataFusionError::Internal("TopRows reads one partition".into()));
        }
        let (input, counted) = without_rows_before(&input, &order, skip)?.unwrap_or((input, 0));
        Self::of_counted(order, input, (skip, counted), rows)
    }

    /// Makes the node for an input that lacks `counted` of the rows to skip.
    fn of_counted(
        order: LexOrdering,
        input: Arc<dyn ExecutionPlan>,
        (skip, counted): (usize, usize),
        rows: usize,
    ) -> Result<Self> {
        let equivalences = EquivalenceProperties::new_with_orderings(input.schema(), [order.clone()]);
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let first = Arc::clone(&order.first().expr);
        Ok(Self {
            filter: Arc::new(DynamicFilterPhysicalExpr::new(vec![first], lit(true))),
            order,
            input,
            skip,
            counted,
            rows,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Returns the direction of the first column.
    pub(crate) fn first_order(&self) -> SortOptions {
        self.order.first().options
    }
}

/// Returns a plan that reads all rows of a table without those that zone maps say to be before the first
/// wanted one, and the number of these; `None` if there are none, or the plan does more.
fn without_rows_before(
    plan: &Arc<dyn ExecutionPlan>,
    order: &LexOrdering,
    skip: usize,
) -> Result<Option<(Arc<dyn ExecutionPlan>, usize)>> {
    if let Some(LeafExec(scan)) = plan.downcast_ref::<LeafExec<PoolScan>>() {
        let first = order.first();
        let column = first.expr.downcast_ref::<Column>().map(Column::index);
        let narrowed = column.and_then(|column| scan.without_rows_before(column, first.options, skip));
        return Ok(narrowed.map(|(scan, counted)| (Arc::new(LeafExec(scan)) as _, counted)));
    }
    if !plan.is::<CoalescePartitionsExec>() || plan.fetch().is_some() {
        return Ok(None);
    }
    let Some(input) = plan.children().first().copied() else {
        return Ok(None);
    };
    let Some((input, counted)) = without_rows_before(input, order, skip)? else {
        return Ok(None);
    };
    Ok(Some((
        replace_children_if_necessary(Arc::clone(plan), vec![input])?,
        counted,
    )))
}

impl DisplayAs for TopRowsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            order,
            skip,
            counted,
            rows,
            ..
        } = self;
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "TopRows: order=[{order}], skip={skip}, fetch={rows}")?;
                match counted {
                    0 => Ok(()),
                    counted => write!(f, ", skipped_by_zone_maps={counted}"),
                }
            }
            DisplayFormatType::TreeRender => writeln!(f, "order={order}\nskip={skip}\nfetch={rows}"),
        }
    }
}

impl ExecutionPlan for TopRowsExec {
    fn name(&self) -> &'static str {
        "TopRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let filter = Arc::clone(&self.filter) as Arc<dyn PhysicalExpr>;
        apply_expression_roots(self.order.iter().map(|sorted| &sorted.expr).chain([&filter]), f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        vec![Arc::clone(&self.filter) as _]
    }

    one_child!(|node, input| {
        let skipped = (node.skip, node.counted);
        Self {
            // Scans of the new child may already read it.
            filter: Arc::clone(&node.filter),
            ..Self::of_counted(node.order.clone(), input, skipped, node.rows)?
        }
    });

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (order, input) = (self.order.clone(), Arc::clone(&self.input));
        let skipped = (self.skip, self.counted);
        Ok(Arc::new(Self::of_counted(order, input, skipped, self.rows)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let types = self.order.iter().map(|sorted| sorted.expr.data_type(&schema));
        let types = types.collect::<Result<Vec<DataType>>>()?;
        let skip = self.skip - self.counted;
        let first = skip.saturating_add(self.rows);
        let collector = RankCollector {
            top: TopRows::new(self.order.clone(), &types, first)?,
            order: self.order.clone(),
            filter: Arc::clone(&self.filter),
            memory: MemoryConsumer::new("TopRows").register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let (rows, batch_rows) = (self.rows, context.session_config().batch_size());
        let batches = futures::stream::once(async move {
            let found = collector.collect(input, skip, rows, batch_rows).await?;
            Ok::<_, DataFusionError>(futures::stream::iter(found.into_iter().map(Ok)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            batches.try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One execution of the node.
struct RankCollector {
    top: TopRows,
    order: LexOrdering,
    filter: Arc<DynamicFilterPhysicalExpr>,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
}

impl RankCollector {
    async fn collect(
        mut self,
        mut input: SendableRecordBatchStream,
        skip: usize,
        rows: usize,
        batch_rows: usize,
    ) -> Result<Vec<RecordBatch>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        while let Some(batch) = input.next().await {
            let timer = elapsed.timer();
            if let Some(threshold) = self.top.push(batch?)? {
                self.publish(threshold)?;
            }
            self.memory.try_resize(self.top.size())?;
            timer.done();
        }
        self.filter.mark_complete();
        let timer = elapsed.timer();
        let found = self.top.finish(skip, rows, batch_rows)?;
        timer.done();
        for batch in &found {
            self.metrics.record_output(batch.num_rows());
        }
        Ok(found)
    }

    /// Publishes that the first sort column of further rows does not sort after `threshold`.
    fn publish(&self, threshold: ScalarValue) -> Result<()> {
        let first = self.order.first();
        let column = || Arc::clone(&first.expr);
        let is_null = || Arc::new(IsNullExpr::new(column())) as Arc<dyn PhysicalExpr>;
        let op = if first.options.descending {
            Operator::GtEq
        } else {
            Operator::LtEq
        };
        let filter: Arc<dyn PhysicalExpr> = match (threshold.is_null(), first.options.nulls_first) {
            (true, true) => is_null(),
            // Nothing sorts after NULL.
            (true, false) => return Ok(()),
            (false, nulls_first) => {
                let before = Arc::new(BinaryExpr::new(column(), op, lit(threshold)));
                if nulls_first {
                    Arc::new(BinaryExpr::new(is_null(), Operator::Or, before))
                } else {
                    before
                }
            }
        };
        self.filter.update(filter)
    }
}
