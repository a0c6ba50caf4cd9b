//! The scan of a table with a primary key in the physical plan.

use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{SchemaRef, SortOptions};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, Partitioning, PlanProperties};
use halocline_keyed::{KeyRanges, KeyedScan, KeyedTable, KeyedView};
use halocline_sql::error::external;

use crate::leaf::LeafPlan;

/// A scan to run.
#[derive(Debug)]
pub(super) struct KeyedScanSpec {
    pub(super) table: Arc<KeyedTable>,
    pub(super) view: KeyedView,
    pub(super) ranges: KeyRanges,
    /// Positions of the columns of the output.
    pub(super) projection: Vec<usize>,
    /// The columns of the output.
    pub(super) schema: SchemaRef,
}

/// A scan of ranges of keys, in the order of the key.
#[derive(Debug)]
pub(super) struct KeyedScanNode {
    spec: Arc<KeyedScanSpec>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl KeyedScanNode {
    /// Creates a scan that stops after `fetch` rows.
    pub(super) fn new(spec: KeyedScanSpec, fetch: Option<usize>) -> Self {
        let properties = PlanProperties::new(
            spec.equivalences(),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            spec: Arc::new(spec),
            fetch,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl KeyedScanSpec {
    /// Returns the part of the key that the ranges restrict, for EXPLAIN.
    fn access(&self) -> String {
        let key = self.table.definition().key();
        let named = key.iter().take(self.ranges.columns());
        let names: Vec<&str> = named
            .map(|at| self.table.schema().field(*at).name().as_str())
            .collect();
        let count = self.ranges.as_slice().len();
        match (names.is_empty(), self.ranges.are_keys()) {
            (true, _) => "all rows".to_owned(),
            (false, true) => format!("{count} keys by {}", names.join(", ")),
            (false, false) => format!("{count} ranges by {}", names.join(", ")),
        }
    }

    /// Returns the order of the output: that of the leading key columns that are in it.
    fn equivalences(&self) -> EquivalenceProperties {
        let mut order = Vec::new();
        for column in self.table.definition().key() {
            let Some(at) = self.projection.iter().position(|projected| projected == column) else {
                break;
            };
            order.push(PhysicalSortExpr::new(
                Arc::new(Column::new(self.schema.field(at).name(), at)),
                SortOptions::default(),
            ));
        }
        if order.is_empty() {
            EquivalenceProperties::new(Arc::clone(&self.schema))
        } else {
            EquivalenceProperties::new_with_orderings(Arc::clone(&self.schema), [order])
        }
    }
}

impl DisplayAs for KeyedScanNode {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, access) = (self.spec.table.name(), self.spec.access());
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "KeyedScan: table={table}, reads=[{access}]")?;
                match self.fetch {
                    Some(fetch) => write!(f, ", fetch={fetch}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => writeln!(f, "table={table}\nreads={access}"),
        }
    }
}

impl LeafPlan for KeyedScanNode {
    fn name(&self) -> &'static str {
        "KeyedScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let spec = &self.spec;
        let batches = KeyedBatches {
            scan: spec.table.scan(&spec.view, spec.ranges.clone(), &spec.projection),
            schema: Arc::clone(&spec.schema),
            batch_rows: context.session_config().batch_size(),
            left: self.fetch.unwrap_or(usize::MAX),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&spec.schema), futures::stream::iter(batches));
        Ok(Box::pin(cooperative(stream)))
    }

    fn statistics(&self) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.spec.schema);
        let rows = if self.spec.ranges.are_keys() {
            self.spec.ranges.as_slice().len()
        } else {
            self.spec.table.store().len() as usize
        };
        statistics.num_rows = Precision::Inexact(rows.min(self.fetch.unwrap_or(usize::MAX)));
        Ok(Arc::new(statistics))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn fresh_execution(&self, fetch: Option<usize>) -> Option<Self> {
        Some(Self {
            spec: Arc::clone(&self.spec),
            fetch,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// The batches of an execution.
struct KeyedBatches {
    scan: KeyedScan,
    schema: SchemaRef,
    batch_rows: usize,
    /// Rows up to the limit.
    left: usize,
    metrics: BaselineMetrics,
}

impl Iterator for KeyedBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let timer = self.metrics.elapsed_compute().timer();
        let batch = self.scan.next_batch(self.batch_rows.min(self.left));
        timer.done();
        match batch {
            Ok(Some(batch)) => {
                self.left -= batch.num_rows();
                self.metrics.record_output(batch.num_rows());
                let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                // The encoded key has another name here.
                let schema = Arc::clone(&self.schema);
                let batch = RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &rows);
                Some(batch.map_err(Into::into))
            }
            Ok(None) => {
                self.left = 0;
                None
            }
            Err(error) => {
                self.left = 0;
                Some(Err(external(error)))
            }
        }
    }
}
