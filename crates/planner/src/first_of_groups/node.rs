//! The node that keeps the first row of each group of its sorted input.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_select::coalesce::BatchCoalescer;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
};
use halocline_scan::plan::{Narrowing, narrowed};

use super::starts::GroupStarts;
use crate::unary_node::one_child;

/// Keeps the first row of each group of equal keys.
#[derive(Debug)]
pub(crate) struct FirstOfGroupsExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The keys in some order, and the order of rows with equal keys after them.
    order: LexOrdering,
    metrics: ExecutionPlanMetricsSet,
}

impl FirstOfGroupsExec {
    /// Makes the node. `order` begins with the keys, of which there is at least one.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        order: LexOrdering,
    ) -> Self {
        Self {
            input,
            keys,
            order,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the input.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Returns the keys of the groups.
    pub(crate) fn keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.keys
    }

    /// Returns the order of the rows of a group; `None` if any of them may be the first.
    pub(crate) fn order_within(&self) -> Option<LexOrdering> {
        let within = self.order.iter().filter(|key| !self.keys.contains(&key.expr));
        LexOrdering::new(within.cloned())
    }
}

impl DisplayAs for FirstOfGroupsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let (keys, order) = (keys.join(", "), &self.order);
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "FirstOfGroups: keys=[{keys}], order_by=[{order}]")
            }
            DisplayFormatType::TreeRender => writeln!(f, "keys={keys}\norder_by={order}"),
        }
    }
}

impl ExecutionPlan for FirstOfGroupsExec {
    fn name(&self) -> &'static str {
        "FirstOfGroups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::KeyPartitioned(self.keys.clone())])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.order.clone()))]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let order = self.order.iter().map(|sorted| &sorted.expr);
        apply_expression_roots(self.keys.iter().chain(order), f)
    }

    one_child!(|node, input| Self::new(input, node.keys.clone(), node.order.clone()));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let batch_rows = context.session_config().batch_size().max(1);
        let rows = FirstRowsOfGroups {
            keys: self.keys.clone(),
            starts: GroupStarts::default(),
            coalescer: BatchCoalescer::new(Arc::clone(&schema), batch_rows),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let input = self.input.execute(partition, context)?;
        Ok(narrowed(schema, input, rows, metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The first rows of the groups of one partition.
struct FirstRowsOfGroups {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    starts: GroupStarts,
    coalescer: BatchCoalescer,
}

impl Narrowing for FirstRowsOfGroups {
    fn next_ready(&mut self) -> Option<RecordBatch> {
        self.coalescer.next_completed_batch()
    }

    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let keys = self.keys.iter();
        let keys = keys.map(|key| key.evaluate(&batch)?.into_array(batch.num_rows()));
        let starts = self.starts.in_batch(&keys.collect::<Result<Vec<ArrayRef>>>()?)?;
        self.coalescer.push_batch_with_filter(batch, &starts)?;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        Ok(self.coalescer.finish_buffered_batch()?)
    }
}
