//! `PoolScan`: rows found by the scan kernels.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use super::scan::Scan;
use super::work::Executions;
use super::worker::Worker;

/// A scan of a table's columns with zone maps; values are decoded for rows that match only.
#[derive(Debug)]
pub(crate) struct PoolScan {
    scan: Arc<Scan>,
    /// Why no index is used.
    reason: String,
    fetch: Option<usize>,
    executions: Executions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PoolScan {
    pub(crate) fn new(
        scan: Arc<Scan>,
        reason: String,
        fetch: Option<usize>,
        executions: Executions,
        partitions: usize,
    ) -> Self {
        let properties = scan.properties(partitions);
        Self {
            scan,
            reason,
            fetch,
            executions,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn again(&self, fetch: Option<usize>) -> Self {
        Self {
            scan: Arc::clone(&self.scan),
            reason: self.reason.clone(),
            fetch,
            executions: self.executions.again(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for PoolScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.scan.open.table.name();
        let filter = self.scan.filter_text();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "PoolScan: table={table}, no_index=[{}]", self.reason)?;
                write!(f, ", columns=[{}]", self.scan.column_names())?;
                if !filter.is_empty() {
                    write!(f, ", filter=[{filter}], estimated_rows={:.0}", self.scan.rows)?;
                }
                if let Some(fetch) = self.fetch {
                    write!(f, ", fetch={fetch}")?;
                }
                f.write_str(&self.scan.log_text())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "table={table}")?;
                writeln!(f, "no_index={}", self.reason)?;
                if !filter.is_empty() {
                    writeln!(f, "filter={filter}")?;
                }
                Ok(())
            }
        }
    }
}

impl ExecutionPlan for PoolScan {
    fn name(&self) -> &'static str {
        "PoolScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.again(self.fetch)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        let worker = Worker::new(
            Arc::clone(&self.scan),
            None,
            self.executions.join(&context, partition, partitions, self.fetch),
            context.session_config().batch_size(),
            BaselineMetrics::new(&self.metrics, partition),
            MetricBuilder::new(&self.metrics).counter("rows_matched", partition),
        );
        let stream = RecordBatchStreamAdapter::new(self.schema(), futures::stream::iter(worker));
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
            None => self
                .scan
                .statistics(self.scan.is_whole(), self.fetch)
                .map(Arc::new),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(self.again(limit)))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }
}
