//! The part of [`ExecutionPlan`] that all scans of this engine share: they are leaves, whose only expressions
//! are dynamic filters.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
};

/// A scan that [`LeafExec`] makes a node of the physical plan.
pub trait LeafPlan: DisplayAs + fmt::Debug + Send + Sync + Sized + 'static {
    /// Returns the name of the node.
    fn name(&self) -> &'static str;

    /// Returns the properties of the output.
    fn properties(&self) -> &Arc<PlanProperties>;

    /// Returns the metrics of the execution.
    fn metrics(&self) -> &ExecutionPlanMetricsSet;

    /// Starts a partition.
    ///
    /// # Errors
    /// The partition cannot be started.
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream>;

    /// Returns statistics of the whole output.
    ///
    /// # Errors
    /// The statistics cannot be read.
    fn statistics(&self) -> Result<Arc<Statistics>>;

    /// Returns the expressions that operators above set while the scan runs.
    fn dynamic_filters(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    /// Returns the number of rows after which the scan stops.
    fn fetch(&self) -> Option<usize> {
        None
    }

    /// Returns the same scan without any state of earlier executions and without dynamic filters, which stops
    /// after `fetch` rows; `None` if a scan of this kind keeps no such state and cannot stop early.
    fn fresh_execution(&self, _fetch: Option<usize>) -> Option<Self> {
        None
    }
}

/// A scan as a node of the physical plan.
#[derive(Debug, Clone)]
pub struct LeafExec<S>(pub S);

impl<S: LeafPlan> DisplayAs for LeafExec<S> {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(format, f)
    }
}

impl<S: LeafPlan> ExecutionPlan for LeafExec<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.0.dynamic_filters(), f)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match self.0.fresh_execution(self.0.fetch()) {
            Some(fresh) => Arc::new(Self(fresh)),
            None => self,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.0.metrics().clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
            None => self.0.statistics(),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self(self.0.fresh_execution(limit)?)))
    }

    fn fetch(&self) -> Option<usize> {
        self.0.fetch()
    }
}
