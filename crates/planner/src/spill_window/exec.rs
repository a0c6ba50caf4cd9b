//! The node in place of DataFusion's.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    replace_children_if_necessary,
};
use futures::stream;

use super::partition::Windows;

/// Computes windows, one partition of the window at a time.
#[derive(Debug)]
pub struct SpillingWindowExec {
    /// Describes the windows; it is not run.
    window: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl SpillingWindowExec {
    /// Creates the node in place of a [`WindowAggExec`].
    pub(super) fn new(window: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            window,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for SpillingWindowExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(format, DisplayFormatType::TreeRender) {
            f.write_str("Spilling")?;
        }
        match self.window.downcast_ref::<WindowAggExec>() {
            Some(window) => window.fmt_as(format, f),
            None => f.write_str("Window"),
        }
    }
}

impl ExecutionPlan for SpillingWindowExec {
    fn name(&self) -> &'static str {
        "SpillingWindow"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.window.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.window.maintains_input_order()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.window.input_distribution_requirements()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let window = replace_children_if_necessary(Arc::clone(&self.window), children)?;
        Ok(Arc::new(Self::new(window)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.window.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.window.statistics_from_inputs(inputs, args)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(window) = self.window.downcast_ref::<WindowAggExec>() else {
            return Err(DataFusionError::Internal(
                "a node of windows describes them".into(),
            ));
        };
        let spilled = MetricBuilder::new(&self.metrics).counter("spilled_partitions", partition);
        let windows = Windows::new(window, partition, &context, spilled)?;
        let batches = stream::try_unfold(windows, |mut windows| async move {
            let batch = windows.next().await?;
            Ok(batch.map(|batch| (batch, windows)))
        });
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches);
        Ok(make_cooperative(Box::pin(batches)))
    }
}
