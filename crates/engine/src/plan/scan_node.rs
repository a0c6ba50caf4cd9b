//! The scan of a pool's table in the physical plan, along either access path: `ElfScan` finds rows through an
//! index, `PoolScan` by the scan kernels with zone maps. Values are decoded only for rows that match.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, PlanProperties};
use halocline_elf::TableIndex;

use super::index_search::IndexSearch;
use super::leaf::LeafPlan;
use super::morsels::{Executions, ScanMorsel};
use super::spec::ScanSpec;
use super::worker::ScanWorker;
use crate::threads::SelectionThreads;

/// A scan of a table.
#[derive(Debug)]
pub(crate) struct PoolScan {
    spec: Arc<ScanSpec>,
    /// The index that finds the rows; none if the kernels do.
    index: Option<Arc<IndexLookup>>,
    /// The reason for the access path, for EXPLAIN.
    reason: Arc<str>,
    fetch: Option<usize>,
    executions: Executions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The use of an index by a scan.
#[derive(Debug)]
pub(crate) struct IndexLookup {
    pub(crate) index: Arc<TableIndex>,
    /// Conditions on the dimensions of the index, for EXPLAIN.
    pub(crate) on: String,
    /// True if all threads share each large selection, because there are too few selections to give each
    /// thread its own.
    pub(crate) shared_selections: bool,
}

impl PoolScan {
    pub(crate) fn new(
        spec: ScanSpec,
        index: Option<IndexLookup>,
        reason: String,
        fetch: Option<usize>,
        morsels: Vec<ScanMorsel>,
        partitions: usize,
    ) -> Self {
        Self {
            properties: spec.properties(partitions),
            spec: Arc::new(spec),
            index: index.map(Arc::new),
            reason: reason.into(),
            fetch,
            executions: Executions::new(morsels),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Writes the line of EXPLAIN up to the columns.
    fn fmt_access(&self, f: &mut fmt::Formatter<'_>, table: &str) -> fmt::Result {
        let (rows, reason) = (self.spec.estimate.rows, &self.reason);
        match &self.index {
            None => write!(f, "PoolScan: table={table}, no_index=[{reason}]"),
            Some(lookup) => {
                let name = lookup.index.name();
                write!(f, "ElfScan: table={table}, index={name}, on=[{}]", lookup.on)?;
                if lookup.index.is_clustered() {
                    f.write_str(", rows=in ranges")?;
                }
                write!(f, ", estimated_rows={rows:.0}, why=[{reason}]")
            }
        }
    }
}

impl DisplayAs for PoolScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, filter) = (self.spec.open.table.name(), self.spec.filter_text());
        match (format, &self.index) {
            (DisplayFormatType::Default | DisplayFormatType::Verbose, index) => {
                self.fmt_access(f, table)?;
                write!(f, ", columns=[{}]", self.spec.column_names())?;
                match (filter.is_empty(), index) {
                    (true, _) => {}
                    (false, Some(_)) => write!(f, ", then=[{filter}]")?,
                    (false, None) => {
                        write!(f, ", filter=[{filter}], estimated_rows={:.0}", self.spec.estimate.rows)?;
                    }
                }
                if let Some(fetch) = self.fetch {
                    write!(f, ", fetch={fetch}")?;
                }
                return f.write_str(&self.spec.log_text());
            }
            (DisplayFormatType::TreeRender, Some(lookup)) => {
                writeln!(
                    f,
                    "table={table}\nindex={}\non={}",
                    lookup.index.name(),
                    lookup.on
                )?;
            }
            (DisplayFormatType::TreeRender, None) => {
                writeln!(f, "table={table}\nno_index={}", self.reason)?;
            }
        }
        match (filter.is_empty(), &self.index) {
            (true, _) => Ok(()),
            (false, Some(_)) => writeln!(f, "then={filter}"),
            (false, None) => writeln!(f, "filter={filter}"),
        }
    }
}

impl LeafPlan for PoolScan {
    fn name(&self) -> &'static str {
        match self.index {
            Some(_) => "ElfScan",
            None => "PoolScan",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let search = self.index.as_ref().map(|lookup| {
            let config = context.session_config();
            let threads = config.get_extension::<SelectionThreads>();
            IndexSearch {
                index: Arc::clone(&lookup.index),
                workers: threads
                    .filter(|_| lookup.shared_selections)
                    .map(|threads| threads.of(config.target_partitions())),
                parallel: counter("parallel_selections"),
            }
        });
        let found = counter(match search {
            Some(_) => "rows_from_index",
            None => "rows_matched",
        });
        let worker = ScanWorker::new(
            Arc::clone(&self.spec),
            search,
            self.executions.join(&context, partition, partitions, self.fetch),
            context.session_config().batch_size(),
            BaselineMetrics::new(&self.metrics, partition),
            found,
        );
        let schema = Arc::clone(&self.spec.schema);
        let stream = RecordBatchStreamAdapter::new(schema, futures::stream::iter(worker));
        Ok(Box::pin(cooperative(stream)))
    }

    fn statistics(&self) -> Result<Arc<Statistics>> {
        let whole = self.index.is_none() && self.spec.is_whole();
        self.spec.statistics(whole, self.fetch).map(Arc::new)
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn fresh_execution(&self, fetch: Option<usize>) -> Option<Self> {
        Some(Self {
            spec: Arc::clone(&self.spec),
            index: self.index.clone(),
            reason: Arc::clone(&self.reason),
            fetch,
            executions: self.executions.fresh(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}
