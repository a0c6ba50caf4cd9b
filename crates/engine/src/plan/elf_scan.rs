//! `ElfScan`: rows found through an index.

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
use halocline_elf::TableIndex;

use super::scan::Scan;
use super::search::Search;
use super::work::Executions;
use super::worker::Worker;
use crate::threads::SelectionThreads;

/// A selection through an Elf, and the fetch of what it found.
#[derive(Debug)]
pub(crate) struct ElfScan {
    scan: Arc<Scan>,
    index: Arc<TableIndex>,
    /// Conditions on the index's dimensions, in the values' own words.
    on: String,
    reason: String,
    fetch: Option<usize>,
    executions: Executions,
    together: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What makes an [`ElfScan`] beside its output.
pub(crate) struct ElfParts {
    pub(crate) index: Arc<TableIndex>,
    pub(crate) on: String,
    pub(crate) reason: String,
    pub(crate) fetch: Option<usize>,
    pub(crate) executions: Executions,
    pub(crate) partitions: usize,
    /// Whether all threads are to look together for what a large selection finds: there are too few to have one each.
    pub(crate) together: bool,
}

impl ElfScan {
    pub(crate) fn new(scan: Arc<Scan>, parts: ElfParts) -> Self {
        let properties = scan.properties(parts.partitions);
        let ElfParts {
            index,
            on,
            reason,
            fetch,
            executions,
            together,
            ..
        } = parts;
        Self {
            scan,
            index,
            on,
            reason,
            fetch,
            executions,
            together,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn again(&self, fetch: Option<usize>) -> Self {
        Self {
            scan: Arc::clone(&self.scan),
            index: Arc::clone(&self.index),
            on: self.on.clone(),
            reason: self.reason.clone(),
            fetch,
            executions: self.executions.again(),
            together: self.together,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for ElfScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, index) = (self.scan.open.table.name(), self.index.name());
        let filter = self.scan.filter_text();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "ElfScan: table={table}, index={index}, on=[{}]", self.on)?;
                if self.index.is_clustered() {
                    f.write_str(", rows=in ranges")?;
                }
                write!(f, ", estimated_rows={:.0}, why=[{}]", self.scan.rows, self.reason)?;
                write!(f, ", columns=[{}]", self.scan.column_names())?;
                if !filter.is_empty() {
                    write!(f, ", then=[{filter}]")?;
                }
                if let Some(fetch) = self.fetch {
                    write!(f, ", fetch={fetch}")?;
                }
                f.write_str(&self.scan.log_text())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "table={table}")?;
                writeln!(f, "index={index}")?;
                writeln!(f, "on={}", self.on)?;
                if !filter.is_empty() {
                    writeln!(f, "then={filter}")?;
                }
                Ok(())
            }
        }
    }
}

impl ExecutionPlan for ElfScan {
    fn name(&self) -> &'static str {
        "ElfScan"
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
        let config = context.session_config();
        let threads = config.get_extension::<SelectionThreads>();
        let search = Search {
            index: Arc::clone(&self.index),
            workers: threads
                .filter(|_| self.together)
                .map(|threads| threads.of(config.target_partitions())),
            parallel: MetricBuilder::new(&self.metrics).counter("parallel_selections", partition),
        };
        let worker = Worker::new(
            Arc::clone(&self.scan),
            Some(search),
            self.executions.join(&context, partition, partitions, self.fetch),
            context.session_config().batch_size(),
            BaselineMetrics::new(&self.metrics, partition),
            MetricBuilder::new(&self.metrics).counter("rows_from_index", partition),
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
            None => self.scan.statistics(false, self.fetch).map(Arc::new),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(self.again(limit)))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }
}
