//! The scan of a pool's table in the physical plan, along either access path: `ElfScan` finds rows through an
//! index, `PoolScan` by the scan kernels with zone maps. Values are decoded only for rows that match.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SortOptions;
use datafusion::common::Statistics;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, PlanProperties};
use halocline_catalog::OpenTable;
use halocline_catalog::threads::SelectionThreads;
use halocline_catalog::tiers::PoolMemory;
use halocline_columns::CodePredicate;
use halocline_elf::TableIndex;

use super::dynamic::{DynamicFilters, PartitionFilters};
use super::index_search::IndexSearch;
use super::morsel_order::promising_first;
use super::morsels::{Executions, ScanMorsel};
use super::morsels_before::without_those_before;
use super::spec::ScanSpec;
use super::worker::ScanWorker;
use crate::leaf::LeafPlan;
use crate::plan::CodedColumn;

/// A scan of a table.
#[derive(Debug)]
pub struct PoolScan {
    spec: Arc<ScanSpec>,
    /// The index that finds the rows; `None` if the kernels do.
    index: Option<Arc<IndexLookup>>,
    /// The reason for the access path, for EXPLAIN.
    reason: Arc<str>,
    fetch: Option<usize>,
    /// Conditions that operators above find out while the scan runs.
    dynamic: Option<Arc<DynamicFilters>>,
    executions: Executions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The use of an index by a scan.
#[derive(Debug)]
pub struct IndexLookup {
    pub index: Arc<TableIndex>,
    /// The predicates of each segment, one per dimension.
    pub predicates: Arc<[Vec<CodePredicate>]>,
    /// Conditions on the dimensions of the index, for EXPLAIN.
    pub on: String,
    /// True if all threads share each large selection, because there are too few selections to give each
    /// thread its own.
    pub shared_selections: bool,
}

impl PoolScan {
    /// Creates a scan.
    pub fn new(
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
            dynamic: None,
            executions: Executions::new(morsels),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns true if a dynamic filter, on the output of the scan, may exclude rows here: the scan has no
    /// limit, and the filter refers to columns of the table only.
    pub fn takes(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let stored = self.spec.open.table.schema().fields().len();
        let is_stored = |output: usize| {
            self.spec
                .projection
                .get(output)
                .is_some_and(|column| *column < stored)
        };
        self.fetch.is_none()
            && collect_columns(filter)
                .iter()
                .all(|column| is_stored(column.index()))
    }

    /// Returns the scan with dynamic filters on its output. If the first rows in the order of a column of the
    /// output are wanted, morsels that may have them come first.
    pub fn with_dynamic_filters(&self, filters: DynamicFilters, first: Option<(usize, SortOptions)>) -> Self {
        let executions = match first {
            None => self.executions.fresh(),
            Some((output, options)) => {
                let column = self.spec.projection[output];
                let morsels = self.executions.morsels();
                Executions::new(promising_first(morsels, &self.spec.open, column, options))
            }
        };
        Self {
            executions,
            spec: Arc::clone(&self.spec),
            index: self.index.clone(),
            reason: Arc::clone(&self.reason),
            fetch: self.fetch,
            dynamic: Some(Arc::new(filters)),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the scan with the morsels first that may have the first rows in the order of a column of the
    /// output; `None` if the column is not stored, or the scan has a limit.
    pub fn reading_best_first(&self, output: usize, options: SortOptions) -> Option<Self> {
        let column = *self.spec.projection.get(output)?;
        let is_stored = column < self.spec.open.table.schema().fields().len();
        (is_stored && self.fetch.is_none()).then_some(())?;
        let morsels = promising_first(self.executions.morsels(), &self.spec.open, column, options);
        Some(Self {
            executions: Executions::new(morsels),
            ..self.fresh_execution(None)?
        })
    }

    /// Returns the scan without the rows that are known to come before a rank in the order of a column of the
    /// output, and the number of these rows; `None` if there are no such rows.
    pub fn without_rows_before(
        &self,
        output: usize,
        options: SortOptions,
        rank: usize,
    ) -> Option<(Self, usize)> {
        let reads_all = self.index.is_none() && self.fetch.is_none() && self.spec.is_whole();
        let column = *self.spec.projection.get(output).filter(|_| reads_all)?;
        let morsels = self.executions.morsels();
        (column < self.spec.open.table.schema().fields().len()).then_some(())?;
        let (left, counted) = without_those_before(morsels, &self.spec.open, column, options, rank)?;
        let scan = Self {
            executions: Executions::new(left),
            ..self.fresh_execution(None)?
        };
        Some((scan, counted))
    }

    /// Returns the stored columns of the output, if that is all rows of the table but those of its delta.
    pub fn whole_columns(&self) -> Option<Vec<usize>> {
        let reads_all = self.index.is_none() && self.fetch.is_none() && self.spec.is_whole();
        (reads_all && self.reads_stored_columns_only()).then(|| self.spec.projection.clone())
    }

    /// Returns the bytes of a row of the output in memory that is slower than DRAM, 0 if it is in DRAM.
    pub fn slow_row_bytes(&self) -> f64 {
        let (open, stored) = (&self.spec.open, self.spec.open.table.schema().fields().len());
        if !matches!(*open.memory, PoolMemory::SlowTier(_)) {
            return 0.0;
        }
        let columns = self.spec.projection.iter().filter(|column| **column < stored);
        let of_column = |column: &usize| {
            let segments = open.table.segments().iter();
            segments
                .map(|segment| segment.column(*column).stored_bytes())
                .sum::<u64>()
        };
        columns.map(of_column).sum::<u64>() as f64 / open.table.rows().max(1) as f64
    }

    /// Returns the table.
    pub fn table(&self) -> &Arc<OpenTable> {
        &self.spec.open
    }

    /// Returns the estimated number of rows of the output.
    pub fn estimated_rows(&self) -> f64 {
        self.spec.estimate.rows
    }

    /// Returns true if the output has no addresses of rows.
    pub fn reads_stored_columns_only(&self) -> bool {
        let stored = self.spec.open.table.schema().fields().len();
        self.spec.projection.iter().all(|column| *column < stored)
    }

    /// Returns the column of the table that is at a position of the output.
    pub fn stored_column(&self, output: usize) -> usize {
        self.spec.projection[output]
    }

    /// Returns the column of the table that is at a position of the output; `None` if that is not stored.
    pub fn stored_output(&self, output: usize) -> Option<usize> {
        let stored = self.spec.open.table.schema().fields().len();
        self.spec
            .projection
            .get(output)
            .copied()
            .filter(|column| *column < stored)
    }

    /// Returns the scan with some of its columns, followed by the addresses of the rows.
    ///
    /// # Errors
    /// There is no such column.
    pub fn narrowed(&self, outputs: &[usize]) -> Result<Self> {
        Ok(self.with_spec(self.spec.narrowed(outputs)?))
    }

    /// Returns the scan with some of its columns, followed by codes of strings. The table must have no rows
    /// in its delta.
    ///
    /// # Errors
    /// There is no such column.
    pub fn with_codes(&self, outputs: &[usize], codes: &[CodedColumn]) -> Result<Self> {
        Ok(self.with_spec(self.spec.with_codes(outputs, codes)?))
    }

    /// Returns the scan with other columns.
    fn with_spec(&self, spec: ScanSpec) -> Self {
        Self {
            properties: spec.properties(self.properties.partitioning.partition_count()),
            spec: Arc::new(spec),
            index: self.index.clone(),
            reason: Arc::clone(&self.reason),
            fetch: self.fetch,
            dynamic: None,
            executions: self.executions.fresh(),
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
                        write!(
                            f,
                            ", filter=[{filter}], estimated_rows={:.0}",
                            self.spec.estimate.rows
                        )?;
                    }
                }
                if !self.spec.reads.text.is_empty() {
                    write!(f, ", reads=[{}]", self.spec.reads.text)?;
                }
                if let Some(dynamic) = &self.dynamic {
                    write!(f, ", dynamic_filters=[{}]", dynamic.describe(&self.spec))?;
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
            (true, _) => {}
            (false, Some(_)) => writeln!(f, "then={filter}")?,
            (false, None) => writeln!(f, "filter={filter}")?,
        }
        match &self.dynamic {
            Some(dynamic) => writeln!(f, "dynamic_filters={}", dynamic.describe(&self.spec)),
            None => Ok(()),
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
                predicates: Arc::clone(&lookup.predicates),
                workers: threads
                    .filter(|_| lookup.shared_selections)
                    .map(|threads| threads.workers(config.target_partitions())),
                parallel: counter("parallel_selections"),
            }
        });
        let found = counter(match search {
            Some(_) => "rows_from_index",
            None => "rows_matched",
        });
        let dynamic = self.dynamic.as_ref();
        let dynamic = dynamic.map(|filters| PartitionFilters::new(filters, counter));
        let worker = ScanWorker::new(
            Arc::clone(&self.spec),
            search,
            dynamic,
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

    fn dynamic_filters(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let filters = self.dynamic.iter().flat_map(|dynamic| dynamic.expressions());
        filters.cloned().collect()
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
            dynamic: None,
            executions: self.executions.fresh(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}
