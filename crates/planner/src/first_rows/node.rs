//! The node that drops rows which cannot be among the first ones of their group.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    apply_expression_roots,
};
use halocline_scan::plan::{Narrowing, narrowed};

use super::filter::FirstRowsFilter;
use super::held::HeldRows;
use super::ids::GroupMemory;
use crate::unary_node::one_child;

/// The part of the memory of queries that the groups of one node may take, and the rows that it holds back:
/// one over this. The sort above needs the rest.
const MEMORY_PART: usize = 8;

/// The rows that are wanted: the first `fetch` ones of each group in an order, or any if there is none.
#[derive(Debug, Clone)]
pub(super) struct FirstRows {
    pub(super) partition_by: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) order_by: Option<LexOrdering>,
    pub(super) fetch: usize,
}

impl FirstRows {
    /// Returns the sort key that is compared.
    pub(super) fn first_key(&self) -> Option<&PhysicalSortExpr> {
        self.order_by.as_ref().map(|order| order.first())
    }

    /// Returns the order, for EXPLAIN.
    fn order_text(&self) -> String {
        self.order_by
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// Returns the expressions to group by, for EXPLAIN.
    fn groups_text(&self) -> String {
        let by = self.partition_by.iter().map(ToString::to_string);
        by.collect::<Vec<_>>().join(", ")
    }
}

/// Drops rows of its input that cannot be among the first ones of their group. All others pass in their
/// order, and some that are not among the first ones, too.
#[derive(Debug)]
pub(super) struct FirstRowsFilterExec {
    input: Arc<dyn ExecutionPlan>,
    first: FirstRows,
    metrics: ExecutionPlanMetricsSet,
}

impl FirstRowsFilterExec {
    /// Makes the node.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, first: FirstRows) -> Self {
        Self {
            input,
            first,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for FirstRowsFilterExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, order, fetch) = (
            self.first.groups_text(),
            self.first.order_text(),
            self.first.fetch,
        );
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "FirstRowsFilter: partition_by=[{by}], order_by=[{order}], fetch={fetch}"
                )
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "partition_by={by}\norder_by={order}\nfetch={fetch}")
            }
        }
    }
}

impl ExecutionPlan for FirstRowsFilterExec {
    fn name(&self) -> &'static str {
        "FirstRowsFilter"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let order = self.first.order_by.iter().flatten().map(|sorted| &sorted.expr);
        apply_expression_roots(self.first.partition_by.iter().chain(order), f)
    }

    one_child!(|node, input| Self::new(input, node.first.clone()));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let pool = context.memory_pool();
        let partitions = self.input.output_partitioning().partition_count().max(1);
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / MEMORY_PART / partitions,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let memory = MemoryConsumer::new("FirstRowsFilter").register(pool);
        let batch_rows = context.session_config().batch_size();
        let held = HeldRows::new(Arc::clone(&schema), batch_rows, memory.new_empty(), most);
        let filter = FirstRowsFilter::new(self.first.clone(), &schema, GroupMemory::new(memory, most))?;
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let rows = PassingRows {
            filter: Some(filter),
            held,
            dropped: counter("rows_dropped"),
            untested: counter("rows_not_compared"),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let input = self.input.execute(partition, context)?;
        Ok(narrowed(schema, input, rows, metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The rows of one partition that pass.
struct PassingRows {
    /// `None` if it does not pay to compare further rows.
    filter: Option<FirstRowsFilter>,
    held: HeldRows,
    dropped: Count,
    untested: Count,
}

impl Narrowing for PassingRows {
    fn next_ready(&mut self) -> Option<RecordBatch> {
        self.held.next_ready()
    }

    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let Some(filter) = &mut self.filter else {
            self.untested.add(rows);
            return self.held.pass(batch);
        };
        let passing = filter.compare(&batch)?;
        let mut dropped = rows - passing.count_set_bits();
        dropped += self
            .held
            .add(batch, passing, filter.compared(), filter.thresholds())?;
        self.dropped.add(dropped);
        if filter.pays(rows, dropped) {
            Ok(())
        } else {
            self.end_filter()
        }
    }

    fn end(&mut self) -> Result<()> {
        self.end_filter()?;
        self.held.flush()
    }
}

impl PassingRows {
    /// Drops what the filter can still drop, and frees it.
    fn end_filter(&mut self) -> Result<()> {
        if let Some(filter) = self.filter.take() {
            self.dropped.add(self.held.end(filter.thresholds())?);
        }
        Ok(())
    }
}
