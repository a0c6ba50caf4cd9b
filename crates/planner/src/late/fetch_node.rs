//! The node that fetches columns of rows by the addresses in its input.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_schema::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::StreamExt;
use halocline_catalog::OpenTable;

use super::fetch_rows::AddressedRows;
use crate::unary_node::{no_expressions, one_child};

/// The source of a column of the output.
#[derive(Debug, Clone, Copy)]
pub(super) enum FetchedColumn {
    /// A column of the input.
    Input(usize),
    /// A column of the table.
    Stored(usize),
}

/// Completes rows: columns of the input are kept, others are fetched from the table by the addresses of the
/// rows. The order of the rows stays.
#[derive(Debug)]
pub(super) struct FetchRowsExec {
    open: Arc<OpenTable>,
    input: Arc<dyn ExecutionPlan>,
    /// The column of the input with the addresses.
    address: usize,
    columns: Arc<[FetchedColumn]>,
    /// The order of the input, on the output.
    order: Vec<PhysicalSortExpr>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FetchRowsExec {
    /// Makes the node, whose output has this schema and order.
    pub(super) fn new(
        open: Arc<OpenTable>,
        input: Arc<dyn ExecutionPlan>,
        address: usize,
        columns: Arc<[FetchedColumn]>,
        schema: SchemaRef,
        order: Vec<PhysicalSortExpr>,
    ) -> Self {
        let equivalences = EquivalenceProperties::new_with_orderings(schema, [order.clone()]);
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            open,
            input,
            address,
            columns,
            order,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the names of the fetched columns.
    fn fetched(&self) -> String {
        let schema = self.open.table.schema();
        let name = |column: &FetchedColumn| match column {
            FetchedColumn::Input(_) => None,
            FetchedColumn::Stored(column) => Some(schema.field(*column).name().as_str()),
        };
        let names: Vec<&str> = self.columns.iter().filter_map(name).collect();
        names.join(", ")
    }
}

impl DisplayAs for FetchRowsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, columns) = (self.open.table.name(), self.fetched());
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "FetchRows: table={table}, columns=[{columns}]")
            }
            DisplayFormatType::TreeRender => writeln!(f, "table={table}\ncolumns={columns}"),
        }
    }
}

impl ExecutionPlan for FetchRowsExec {
    fn name(&self) -> &'static str {
        "FetchRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    no_expressions!();

    one_child!(|node, input| Self::new(
        Arc::clone(&node.open),
        input,
        node.address,
        Arc::clone(&node.columns),
        node.schema(),
        node.order.clone(),
    ));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (open, columns) = (Arc::clone(&self.open), Arc::clone(&self.columns));
        let (schema, address) = (self.schema(), self.address);
        let output = Arc::clone(&schema);
        let batches = input.map(move |batch| {
            let batch = batch?;
            let elapsed = metrics.elapsed_compute().clone();
            let timer = elapsed.timer();
            let complete = complete(&open, &columns, address, &schema, &batch);
            timer.done();
            metrics.record_output(batch.num_rows());
            complete
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Returns the rows of a batch with all columns.
fn complete(
    open: &OpenTable,
    columns: &[FetchedColumn],
    address: usize,
    schema: &SchemaRef,
    batch: &RecordBatch,
) -> Result<RecordBatch> {
    let addresses = batch.column(address).as_primitive::<UInt64Type>();
    let rows = AddressedRows::new(open, addresses.values());
    let of_column = |column: &FetchedColumn| match column {
        FetchedColumn::Input(column) => Ok(Arc::clone(batch.column(*column))),
        FetchedColumn::Stored(column) => rows.column(*column),
    };
    let columns = columns.iter().map(of_column).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
