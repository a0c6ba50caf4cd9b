//! The specification of a table scan, independent of its access path: output columns, filters, estimates.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DFSchema, Statistics};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::{Partitioning, PlanProperties};
use halocline_catalog::OpenTable;
use halocline_catalog::estimate;
use halocline_columns::{CodePredicate, ColumnsError, RowId, RowSelection, ScanAhead, Segment, SegmentReads};
use halocline_sql::error::external;
use halocline_sql::nesting::balanced;

use super::access_path::PathReads;
use super::estimate::SelectionEstimate;
use crate::plan::CodedColumn;

/// Name of the column with the addresses of the rows.
pub const ADDRESS: &str = "row address";

/// The output of a scan and the filters that it evaluates.
#[derive(Debug, Clone)]
pub struct ScanSpec {
    /// The table, whose segments have the conditions on strings without codes.
    pub open: Arc<OpenTable>,
    /// Columns of the output; the index after those of the columns of the table stands for the address of
    /// the row, and those after it for codes.
    pub projection: Vec<usize>,
    /// Codes of strings in the output.
    pub codes: Vec<CodedColumn>,
    /// Schema of the output.
    pub schema: SchemaRef,
    /// Predicates for the scan kernels, per segment.
    pub kernels: Vec<Vec<(usize, CodePredicate)>>,
    /// These predicates and the conditions on strings as SQL, for EXPLAIN.
    pub described: Vec<String>,
    /// The condition that must be evaluated on values.
    pub residual: Option<ResidualFilter>,
    /// All conditions, for rows of the delta.
    pub delta_filter: Option<ResidualFilter>,
    /// Estimated number of output rows, and values in them.
    pub estimate: SelectionEstimate,
    /// True if indexes may answer dynamic filters.
    pub probes_indexes: bool,
    /// Its reads of bytes that may not be in memory.
    pub reads: PathReads,
}

impl ScanSpec {
    /// Returns true if only the number of rows matters.
    pub fn counts_only(&self) -> bool {
        self.projection.is_empty() && self.residual.is_none()
    }

    /// Returns true if only the number of rows matters, and only an index has conditions.
    pub fn counts_all(&self) -> bool {
        let segments = self.open.table.segments();
        let of_index =
            |(kernels, segment): (&Vec<_>, &Segment)| kernels.is_empty() && !segment.has_string_conditions();
        self.counts_only() && self.kernels.iter().zip(segments).all(of_index)
    }

    /// Returns the specification with some of the columns of the output, followed by the addresses of the
    /// rows.
    ///
    /// # Errors
    /// There is no such column.
    pub fn narrowed(&self, outputs: &[usize]) -> Result<Self> {
        let address = self.open.table.schema().fields().len();
        self.with_columns(outputs, [(address, address_field())].into_iter(), Vec::new())
    }

    /// Returns the specification with some of the columns of the output, followed by codes of strings. The
    /// table must have no rows in its delta.
    ///
    /// # Errors
    /// There is no such column.
    pub fn with_codes(&self, outputs: &[usize], codes: &[CodedColumn]) -> Result<Self> {
        let first = self.open.table.schema().fields().len() + 1;
        let fields = (first..).zip(codes.iter().map(CodedColumn::field));
        self.with_columns(outputs, fields, codes.to_vec())
    }

    /// Returns the specification with some of the columns of the output, followed by others that are not
    /// stored.
    fn with_columns(
        &self,
        outputs: &[usize],
        others: impl Iterator<Item = (usize, Field)>,
        codes: Vec<CodedColumn>,
    ) -> Result<Self> {
        let mut fields = self.schema.project(outputs)?.fields().to_vec();
        let mut projection: Vec<usize> = outputs.iter().map(|output| self.projection[*output]).collect();
        for (column, field) in others {
            projection.push(column);
            fields.push(Arc::new(field));
        }
        let coded: Vec<usize> = codes.iter().map(CodedColumn::stored_column).collect();
        let mut narrowed = Self {
            schema: Arc::new(Schema::new(fields)),
            codes,
            ..self.clone()
        };
        let tested = self
            .residual
            .as_ref()
            .map_or(&[][..], |residual| &residual.columns);
        narrowed.reads.ahead.retain(|column| {
            let mut kernels = self.kernels.iter().flatten().map(|(compared, _)| compared);
            let is_left_out = self.projection.contains(column) && !projection.contains(column);
            !is_left_out
                || coded.contains(column)
                || tested.contains(column)
                || kernels.any(|compared| compared == column)
        });
        narrowed.projection = projection;
        Ok(narrowed)
    }

    /// Returns the read-ahead of a scan of the segments; `None` if everything is in memory.
    pub fn scan_ahead(&self) -> Option<ScanAhead> {
        if self.reads.ahead.is_empty() {
            return None;
        }
        let segments = self.open.table.segments().iter().zip(&self.kernels);
        let reads = segments.map(|(segment, kernels)| SegmentReads {
            segment: segment.clone(),
            columns: self.reads.ahead.clone(),
            conditions: kernels.clone(),
        });
        Some(ScanAhead::new(reads.collect()))
    }

    /// Asks for the pages that conditions on rows of a segment will read, if these may not be in memory.
    pub fn ask_for(&self, number: usize, rows: &[RowId]) {
        if self.reads.scattered {
            let segment = &self.open.table.segments()[number];
            for (column, _) in &self.kernels[number] {
                segment.column(*column).read_rows_ahead(rows);
            }
        }
    }

    /// Returns true if every row of the table is output.
    pub fn is_whole(&self) -> bool {
        self.residual.is_none() && self.described.is_empty()
    }

    /// Returns a batch of `rows` rows without columns.
    pub fn counted(&self, rows: usize) -> Result<RecordBatch> {
        batch_of(&self.schema, Vec::new(), rows)
    }

    /// Returns the codes that are a column of the output.
    fn coded(&self, column: usize) -> Option<&CodedColumn> {
        let first = self.open.table.schema().fields().len() + 1;
        self.codes.get(column.checked_sub(first)?)
    }

    /// Returns the output columns of single rows of a segment.
    pub fn gather(&self, number: usize, rows: &[RowId]) -> Result<RecordBatch> {
        let segment = &self.open.table.segments()[number];
        self.batch(rows.len(), |column| match segment.columns().get(column) {
            Some(column) => column.gather(rows).map_err(external),
            None => match self.coded(column) {
                Some(coded) => coded.read((number, segment), |column| column.gather_ranks(rows)),
                None => Ok(addresses(number, rows.iter().map(|row| *row as usize))),
            },
        })
    }

    /// Returns the output columns of selected rows of a segment.
    pub fn decode(&self, number: usize, selection: &RowSelection) -> Result<RecordBatch> {
        let segment = &self.open.table.segments()[number];
        self.batch(selection.len(), |column| match segment.columns().get(column) {
            Some(column) => column.decode(selection).map_err(external),
            None => match self.coded(column) {
                Some(coded) => coded.read((number, segment), |column| column.decode_ranks(selection)),
                None => Ok(addresses(number, selection.rows().map(|row| row as usize))),
            },
        })
    }

    /// Makes a batch of the output, column by column.
    pub fn batch(&self, rows: usize, column: impl FnMut(usize) -> Result<ArrayRef>) -> Result<RecordBatch> {
        let columns = self
            .projection
            .iter()
            .copied()
            .map(column)
            .collect::<Result<Vec<_>>>()?;
        batch_of(&self.schema, columns, rows)
    }

    /// Returns the plan properties of a node with this output.
    pub fn properties(&self, partitions: usize) -> Arc<PlanProperties> {
        let equivalences = EquivalenceProperties::new(Arc::clone(&self.schema));
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        let properties = PlanProperties::new(
            equivalences,
            partitioning,
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
    }

    /// Returns statistics of the output, which are exact only if every row is output (`whole`). Otherwise
    /// rows and distinct values are those that the conditions are estimated to leave.
    pub fn statistics(&self, whole: bool, fetch: Option<usize>) -> Result<Statistics> {
        let mut table = self.open.statistics().map_err(external)?;
        if !whole {
            let mut estimate = estimate::of_statistics(&table);
            estimate.select(self.estimate.rows.min(estimate.rows), &self.estimate.shares);
            table = table.to_inexact();
            table.num_rows = Precision::Inexact(estimate.rows.round() as usize);
            for (column, estimate) in table.column_statistics.iter_mut().zip(&estimate.columns) {
                column.null_count = column
                    .null_count
                    .map(|_| (estimate.nulls * self.estimate.rows) as usize);
                column.distinct_count = column.distinct_count.map(|_| estimate.distinct.round() as usize);
            }
        }
        let mut table = with_address(table);
        let unknown = self.codes.iter().map(|_| ColumnStatistics::new_unknown());
        table.column_statistics.extend(unknown);
        let mut statistics = table.project(Some(&self.projection));
        if let Some(fetch) = fetch
            && statistics.num_rows.get_value().is_none_or(|rows| *rows > fetch)
        {
            let exact = matches!(statistics.num_rows, Precision::Exact(_));
            statistics = statistics.to_inexact();
            statistics.num_rows = if exact {
                Precision::Exact(fetch)
            } else {
                Precision::Inexact(fetch)
            };
        }
        Ok(statistics)
    }

    /// Returns the names of the output columns, for EXPLAIN.
    pub fn column_names(&self) -> String {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        names.join(", ")
    }

    /// Returns the number of rows in the delta, for EXPLAIN; empty if there are none.
    pub fn log_text(&self) -> String {
        match self.open.delta.as_ref().map_or(0, |delta| delta.live_rows()) {
            0 => String::new(),
            rows => format!(", rows_in_log={rows}"),
        }
    }

    /// Returns the conditions that no index answers, for EXPLAIN.
    pub fn filter_text(&self) -> String {
        let mut texts = self.described.clone();
        texts.extend(self.residual.as_ref().map(|residual| residual.text.clone()));
        texts.join(" AND ")
    }
}

/// A condition that is evaluated on values.
#[derive(Debug, Clone)]
pub struct ResidualFilter {
    columns: Vec<usize>,
    schema: SchemaRef,
    physical: Arc<dyn PhysicalExpr>,
    text: String,
}

impl ResidualFilter {
    /// Plans the conjunction of `expressions`; `None` if there are none.
    ///
    /// # Errors
    /// DataFusion cannot plan it.
    pub fn plan(expressions: Vec<Expr>, open: &OpenTable, state: &dyn Session) -> Result<Option<Self>> {
        let Some(whole) = balanced(expressions, &mut Expr::and) else {
            return Ok(None);
        };
        let mut columns: Vec<usize> = whole
            .column_refs()
            .iter()
            .map(|c| open.table.schema().index_of(&c.name))
            .collect::<Result<_, _>>()?;
        columns.sort_unstable();
        let schema: SchemaRef = Arc::new(open.table.schema().project(&columns)?);
        let text = whole.to_string();
        let physical = state.create_physical_expr(whole, &DFSchema::try_from(Arc::clone(&schema))?)?;
        Ok(Some(Self {
            columns,
            schema,
            physical,
            text,
        }))
    }

    /// Returns the condition that `physical` is on an input with this schema, whose columns are these of the
    /// table.
    pub fn of_physical(physical: Arc<dyn PhysicalExpr>, columns: Vec<usize>, schema: SchemaRef) -> Self {
        Self {
            text: String::new(),
            columns,
            schema,
            physical,
        }
    }

    /// Returns the rows of a segment for which the condition is true.
    pub fn keep(&self, segment: &Segment, rows: &[RowId]) -> Result<Vec<RowId>> {
        let answer = self.of_columns(rows.len(), |column| segment.column(column).gather(rows))?;
        let kept = |(at, row): (usize, &RowId)| (answer.is_valid(at) && answer.value(at)).then_some(*row);
        Ok(rows.iter().enumerate().filter_map(kept).collect())
    }

    /// Keeps the selected rows of a segment for which the condition is true.
    pub fn keep_selected(&self, segment: &Segment, selection: &mut RowSelection) -> Result<()> {
        let of_column = |column: usize| segment.column(column).decode(selection);
        let answer = self.of_columns(selection.len(), of_column)?;
        selection.keep(&match answer.nulls() {
            None => answer.values().clone(),
            Some(valid) => answer.values() & valid.inner(),
        });
        Ok(())
    }

    /// Evaluates the condition on `rows` rows of its columns.
    fn of_columns(
        &self,
        rows: usize,
        column: impl Fn(usize) -> Result<ArrayRef, ColumnsError>,
    ) -> Result<BooleanArray> {
        let columns = self.columns.iter().map(|number| column(*number));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(external)?;
        self.evaluate(&batch_of(&self.schema, columns, rows)?)
    }

    /// Evaluates the condition on a batch with all columns of the table.
    pub fn of_batch(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        self.evaluate(&batch.project(&self.columns)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let answer = self.physical.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(answer.as_boolean().clone())
    }
}

/// Makes a batch, which has `rows` rows even if it has no columns.
fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// Returns the column with the addresses of the rows.
pub(super) fn address_field() -> Field {
    Field::new(ADDRESS, DataType::UInt64, false)
}

/// Adds a column for the addresses of the rows to the statistics of a table.
pub(super) fn with_address(mut statistics: Statistics) -> Statistics {
    statistics.column_statistics.push(ColumnStatistics::new_unknown());
    statistics
}

/// Returns the addresses of rows: the position of their segment (that of the delta follows the last segment)
/// in the upper 32 bits, the row number in the lower ones. They hold within one version of the table.
pub(super) fn addresses(segment: usize, rows: impl Iterator<Item = usize>) -> ArrayRef {
    let address = |row: usize| (segment as u64) << 32 | row as u64;
    Arc::new(UInt64Array::from_iter_values(rows.map(address)))
}

/// Returns the position of the segment and the row number of an address.
pub fn segment_and_row(address: u64) -> (usize, RowId) {
    ((address >> 32) as usize, address as RowId)
}
