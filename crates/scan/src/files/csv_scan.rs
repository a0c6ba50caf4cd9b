//! The scan of CSV files in place.
//!
//! Parts of a file are decoded by several threads and returned in the order of the file. One partition is one
//! file, so that the rows of a file keep their order.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use halocline_import::{CsvColumns, CsvRead, CsvSource};
use halocline_sql::error::external;

use super::csv_file::StartedScans;
use crate::leaf::{LeafExec, LeafPlan};

/// The state of the scans of one statement.
#[derive(Debug, Default)]
pub struct ScanState {
    /// Rows of the statement have been returned, so that it cannot be planned again.
    returned: AtomicBool,
    /// A value has widened the type of its column.
    widened: AtomicBool,
}

impl ScanState {
    /// Notes that rows of the statement have been returned.
    pub fn set_returned(&self) {
        self.returned.store(true, Ordering::Relaxed);
    }

    /// Returns true if a value has widened the type of its column.
    pub fn is_widened(&self) -> bool {
        self.widened.load(Ordering::Relaxed)
    }
}

/// CSV files as a table.
#[derive(Debug)]
pub struct CsvTable {
    source: Arc<CsvSource>,
    /// The columns that the statement was planned with; `None` for a table of the session, whose columns are
    /// those known at the time.
    columns: Option<Arc<CsvColumns>>,
    scans: StartedScans,
}

impl CsvTable {
    /// Returns a table for one statement.
    pub(super) fn for_statement(source: Arc<CsvSource>, scans: StartedScans) -> Self {
        Self {
            columns: Some(source.columns()),
            source,
            scans,
        }
    }

    /// Returns a table for the session.
    pub(super) fn for_session(source: Arc<CsvSource>, scans: StartedScans) -> Self {
        Self {
            source,
            columns: None,
            scans,
        }
    }

    fn columns(&self) -> Arc<CsvColumns> {
        match &self.columns {
            Some(columns) => Arc::clone(columns),
            None => self.source.columns(),
        }
    }
}

#[async_trait]
impl TableProvider for CsvTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns().schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = self.columns();
        let projection = match projection {
            Some(projection) => projection.clone(),
            None => (0..columns.schema.fields().len()).collect(),
        };
        let schema = Arc::new(columns.schema.project(&projection)?);
        let read = CsvSource::read_of(&columns, &projection, Arc::clone(&schema));
        let state = self.scans.start();
        let scan = CsvScan::new(Arc::clone(&self.source), read, schema, limit, state);
        Ok(Arc::new(LeafExec(scan)))
    }
}

/// A scan of some columns.
#[derive(Debug, Clone)]
pub(super) struct CsvScan {
    source: Arc<CsvSource>,
    read: CsvRead,
    schema: SchemaRef,
    limit: Option<usize>,
    state: Arc<ScanState>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CsvScan {
    fn new(
        source: Arc<CsvSource>,
        read: CsvRead,
        schema: SchemaRef,
        limit: Option<usize>,
        state: Arc<ScanState>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(source.count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            source,
            read,
            schema,
            limit,
            state,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Decodes the parts of a file, `ahead` of them at a time, in their order.
    fn batches(
        &self,
        file: usize,
        ahead: usize,
        rows: usize,
    ) -> Result<impl Stream<Item = Result<RecordBatch>> + Send + use<>> {
        let chunks = self.source.chunks(file).map_err(external)?;
        let source = Arc::clone(&self.source);
        let parts = stream::try_unfold(chunks, move |mut chunks| {
            let source = Arc::clone(&source);
            async move {
                let next = SpawnedTask::spawn_blocking(move || {
                    let chunk = source.next_chunk(file, &mut chunks);
                    chunk.map(|chunk| chunk.map(|chunk| (chunk, chunks)))
                });
                joined(next.join().await)?.map_err(external)
            }
        });
        let (source, read, state) = (
            Arc::clone(&self.source),
            self.read.clone(),
            Arc::clone(&self.state),
        );
        let decode = move |chunk| {
            let (source, read, state) = (Arc::clone(&source), read.clone(), Arc::clone(&state));
            let task = SpawnedTask::spawn_blocking(move || {
                let certain = state.returned.load(Ordering::Relaxed);
                source.decode(file, &chunk, &read, certain).map_err(|failed| {
                    let (error, widened) = *failed;
                    state.widened.fetch_or(widened, Ordering::Relaxed);
                    external(error)
                })
            });
            async move { joined(task.join().await)? }
        };
        let decoded = parts.map_ok(decode).try_buffered(ahead);
        let in_parts = move |batch: RecordBatch| {
            let starts = (0..batch.num_rows()).step_by(rows);
            let slices = starts.map(|start| Ok(batch.slice(start, rows.min(batch.num_rows() - start))));
            stream::iter(slices.collect::<Vec<_>>())
        };
        Ok(decoded.map_ok(in_parts).try_flatten())
    }
}

fn joined<T, E: std::error::Error + Send + Sync + 'static>(result: std::result::Result<T, E>) -> Result<T> {
    result.map_err(|error| DataFusionError::External(Box::new(error)))
}

/// Returns the first rows of a stream, which is dropped after them.
fn first_rows(
    batches: BoxStream<'static, Result<RecordBatch>>,
    rows: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    let next = |(mut batches, left): (BoxStream<'static, Result<RecordBatch>>, usize)| async move {
        if left == 0 {
            return None;
        }
        match batches.next().await? {
            Ok(batch) => {
                let taken = batch.slice(0, batch.num_rows().min(left));
                let left = left - taken.num_rows();
                Some((Ok(taken), (batches, left)))
            }
            Err(error) => Some((Err(error), (batches, 0))),
        }
    };
    stream::unfold((batches, rows), next).boxed()
}

impl DisplayAs for CsvScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        write!(f, "CsvScan: file={}", self.source.path(0).display())?;
        if self.source.count() > 1 {
            write!(f, " and {} more", self.source.count() - 1)?;
        }
        write!(f, ", columns=[{}]", names.join(", "))?;
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl LeafPlan for CsvScan {
    fn name(&self) -> &'static str {
        "CsvScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let config = context.session_config();
        let threads = (config.target_partitions() / self.source.count()).max(1);
        // A few rows are in the first part.
        let ahead = match self.limit {
            Some(_) => 1,
            None => threads + 1,
        };
        let batches = self.batches(partition, ahead, config.batch_size().max(1))?;
        let limited = match self.limit {
            None => batches.boxed(),
            Some(limit) => first_rows(batches.boxed(), limit),
        };
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, limited)))
    }

    fn statistics(&self) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn fresh_execution(&self, fetch: Option<usize>) -> Option<Self> {
        Some(Self {
            limit: fetch,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        })
    }
}
