//! A scan that reads a dimension in the pool as codes: keys and the columns that measures read go directly
//! into the join, and attributes are decoded only once per group.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::ArrayRef;
use datafusion::common::Statistics;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use halocline_catalog::OpenTable;
use halocline_columns::{BLOCK_ROWS, BlockMask, CodePredicate, CodeReader, Segment, SelectionVector};
use halocline_joins::star::{CodedValues, MeasureValues};
use halocline_scan::leaf::LeafPlan;
use halocline_scan::plan::PoolTable;
use halocline_sql::error::external;

use super::branch::Branch;
use super::combinations::Combinations;
use super::fact::pool_table;

/// A scan of keys and attributes of a table as codes.
#[derive(Debug, Clone)]
pub(super) struct DimensionScan {
    open: Arc<OpenTable>,
    /// Predicates on codes, per segment; those on strings without codes are part of the segments.
    conditions: Vec<Vec<(usize, CodePredicate)>>,
    filter: String,
    keys: Vec<usize>,
    attributes: Vec<usize>,
    /// Columns of numbers that measures read.
    payload: Vec<usize>,
    /// The plan that returns the same rows as values.
    values: Arc<dyn ExecutionPlan>,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
}

/// Rows of a segment.
pub(super) struct CodedRows {
    /// The keys, row by row.
    pub(super) keys: Vec<i64>,
    /// For each row, the position of its combination of attributes; empty if there are no attributes.
    pub(super) found: Vec<u32>,
    /// The distinct combinations of attributes.
    pub(super) attributes: Vec<ArrayRef>,
    /// For each row, the values that measures read, column by column.
    pub(super) payload: Vec<MeasureValues>,
}

impl DimensionScan {
    /// Returns the scan for the logical plan of a dimension, whose physical plan is `values`; `None` unless
    /// the plan is a projection of coded columns of one table with conditions on codes.
    pub(super) fn from_plan(
        plan: &LogicalPlan,
        branch: &Branch,
        values: &Arc<dyn ExecutionPlan>,
    ) -> Option<DimensionScan> {
        let LogicalPlan::Projection(projection) = plan else {
            return None;
        };
        let (open, filters) = pool_table(&projection.input)?;
        // Rows of the log have no codes.
        if open.delta.as_ref().is_some_and(|delta| delta.live_rows() > 0) {
            return None;
        }
        let schema = open.table.schema();
        let columns = projection.expr.iter().map(|expr| match expr.clone().unalias() {
            Expr::Column(column) => schema.index_of(&column.name).ok(),
            _ => None,
        });
        let mut columns = columns.collect::<Option<Vec<_>>>()?;
        let keys = branch.columns.len();
        let mut attributes = columns.split_off(keys);
        let payload = attributes.split_off(attributes.len() - branch.payload);
        let segments = open.table.segments();
        let spaces = |column: &usize| {
            let column = *column;
            segments
                .iter()
                .map(move |segment| segment.column(column).code_space())
        };
        let whole = columns
            .iter()
            .flat_map(spaces)
            .all(|space| space.is_some_and(|space| space.integer_base().is_some()));
        let fields = values.schema();
        let coded = attributes
            .iter()
            .zip(&fields.fields()[keys..])
            .all(|(column, field)| {
                spaces(column).all(|space| space.is_some_and(|space| space.data_type() == field.data_type()))
            });
        let numbers = payload.iter().flat_map(spaces).all(|space| {
            space.is_some_and(|space| space.integer_base().is_some() || space.floats().is_some())
        });
        if !(whole && coded && numbers) {
            return None;
        }
        let (selected, conditions) = PoolTable::selection(&open, &filters)?;
        let statistics = StatisticsContext::new().compute(values.as_ref(), &StatisticsArgs::new());
        Some(DimensionScan {
            conditions,
            filter: filters
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", "),
            keys: columns,
            attributes,
            payload,
            statistics: statistics.unwrap_or_else(|_| Arc::new(Statistics::new_unknown(&fields))),
            values: Arc::clone(values),
            open: selected,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Calls `each` with the matching rows of each segment.
    ///
    /// # Errors
    /// The table is damaged, or `each` fails; `interrupted` is set.
    pub(super) fn for_each(
        &self,
        interrupted: &AtomicBool,
        mut each: impl FnMut(CodedRows) -> Result<()>,
    ) -> Result<()> {
        let matched = MetricBuilder::new(&self.metrics).global_counter("rows_matched");
        for (segment, conditions) in self.open.table.segments().iter().zip(&self.conditions) {
            if !conditions
                .iter()
                .any(|(_, codes)| *codes == CodePredicate::Nothing)
            {
                each(self.segment(segment, conditions, interrupted, &matched)?)?;
            }
        }
        Ok(())
    }

    fn segment(
        &self,
        segment: &Segment,
        conditions: &[(usize, CodePredicate)],
        interrupted: &AtomicBool,
        matched: &Count,
    ) -> Result<CodedRows> {
        let mut columns = Vec::with_capacity(self.keys.len());
        for &column in &self.keys {
            columns.push(KeyColumn::open(segment, column)?);
        }
        let mut combinations = Combinations::new(segment, &self.attributes)?;
        let mut payload = Vec::with_capacity(self.payload.len());
        for &column in &self.payload {
            payload.push(PayloadColumn::open(segment, column)?);
        }
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        // Without a condition all rows come, so nothing is copied as the vectors grow.
        if conditions.is_empty() {
            keys.reserve(segment.rows() * self.keys.len());
            payload
                .iter_mut()
                .for_each(|column| column.values.reserve(segment.rows()));
        }
        let (mut selection, mut codes) = (SelectionVector::default(), vec![0; BLOCK_ROWS]);
        let has_null = columns.iter().any(|column| column.has_null);
        let mut block = |first: usize, mask: &BlockMask| -> Result<()> {
            if interrupted.load(Ordering::Relaxed) {
                return Err(DataFusionError::Execution("the query was interrupted".into()));
            }
            selection.clear();
            selection.push(0, mask);
            let rows = selection.rows();
            let place = (
                first / segment.chunk_rows(),
                first % segment.chunk_rows() / BLOCK_ROWS,
            );
            let start = keys.len();
            keys.resize(start + rows.len() * columns.len(), 0);
            let mut valid = vec![true; if has_null { rows.len() } else { 0 }];
            for (at, column) in columns.iter_mut().enumerate() {
                let codes = &mut codes[..rows.len()];
                column
                    .reader
                    .read_rows(place.0, place.1, rows, codes)
                    .map_err(external)?;
                let values = keys[start + at..].iter_mut().step_by(self.keys.len());
                for (key, code) in values.zip(&*codes) {
                    *key = (*code as i64).wrapping_add(column.base);
                }
                if column.has_null {
                    let codes = valid.iter_mut().zip(codes);
                    codes.for_each(|(valid, code)| *valid &= *code != 0);
                }
            }
            let start_of_found = found.len();
            combinations.read(place, rows, &mut codes, &mut found)?;
            for column in &mut payload {
                column.read(place, rows, &valid, &mut codes)?;
            }
            if valid.contains(&false) {
                // Rows whose key is NULL match nothing.
                let mut kept = 0;
                for (at, _) in valid.iter().enumerate().filter(|(_, valid)| **valid) {
                    let each = self.keys.len();
                    keys.copy_within(start + at * each..start + (at + 1) * each, start + kept * each);
                    if !self.attributes.is_empty() {
                        found[start_of_found + kept] = found[start_of_found + at];
                    }
                    kept += 1;
                }
                keys.truncate(start + kept * self.keys.len());
                found.truncate(start_of_found + kept);
            }
            matched.add(rows.len());
            Ok(())
        };
        // The selection cannot be stopped: after an error its remaining blocks are ignored.
        let mut result = Ok(());
        let selected = segment.select_blocks(conditions, 0..segment.rows(), |first, mask| {
            if result.is_ok() {
                result = block(first, mask);
            }
        });
        selected.map_err(external)?;
        result?;
        Ok(CodedRows {
            keys,
            found,
            attributes: combinations.decode()?,
            payload: payload.into_iter().map(|column| column.values).collect(),
        })
    }
}

/// A key column of a segment.
struct KeyColumn<'a> {
    reader: CodeReader<'a, u64>,
    /// Offset from a code to its value.
    base: i64,
    /// True if code 0 is NULL.
    has_null: bool,
}

impl<'a> KeyColumn<'a> {
    fn open(segment: &'a Segment, column: usize) -> Result<Self> {
        let column = segment.column(column);
        let space = column.code_space();
        let base = space.and_then(|space| space.integer_base());
        Ok(KeyColumn {
            reader: column.code_reader().map_err(external)?,
            base: base.unwrap_or_default(),
            has_null: space.is_some_and(|space| space.has_null()),
        })
    }
}

/// A column of a segment that measures read.
struct PayloadColumn<'a> {
    reader: CodeReader<'a, u64>,
    numbers: CodedValues,
    has_null: bool,
    values: MeasureValues,
    block: MeasureValues,
}

impl<'a> PayloadColumn<'a> {
    /// Opens a payload column of a segment.
    ///
    /// # Panics
    /// If the column has no codes of integers or floats.
    fn open(segment: &'a Segment, column: usize) -> Result<Self> {
        let column = segment.column(column);
        let space = column.code_space();
        Ok(PayloadColumn {
            reader: column.code_reader().map_err(external)?,
            numbers: space.and_then(CodedValues::for_space).expect("codes of numbers"),
            has_null: space.is_some_and(|space| space.has_null()),
            values: MeasureValues::default(),
            block: MeasureValues::default(),
        })
    }

    /// Appends the values of rows; those for which `valid` is false are left out.
    fn read(&mut self, place: (usize, usize), rows: &[u16], valid: &[bool], codes: &mut [u64]) -> Result<()> {
        let codes = &mut codes[..rows.len()];
        self.reader
            .read_rows(place.0, place.1, rows, codes)
            .map_err(external)?;
        let mut kept = rows.len();
        if valid.contains(&false) {
            kept = 0;
            for (at, _) in valid.iter().enumerate().filter(|(_, valid)| **valid) {
                codes[kept] = codes[at];
                kept += 1;
            }
        }
        self.block.set(&codes[..kept], self.numbers, self.has_null);
        self.values.append(&self.block);
        Ok(())
    }
}

impl DisplayAs for DimensionScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.open.table.schema();
        let names = |columns: &[usize]| {
            let names = columns.iter().map(|column| schema.field(*column).name().as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        write!(
            f,
            "DimensionScan: table={}, key=[{}]",
            self.open.table.name(),
            names(&self.keys)
        )?;
        if !self.attributes.is_empty() {
            write!(f, ", attributes=[{}]", names(&self.attributes))?;
        }
        if !self.payload.is_empty() {
            write!(f, ", values=[{}]", names(&self.payload))?;
        }
        if !self.filter.is_empty() {
            write!(f, ", filter=[{}]", self.filter)?;
        }
        Ok(())
    }
}

impl LeafPlan for DimensionScan {
    fn name(&self) -> &'static str {
        "DimensionScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.values.properties()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    /// Returns the rows as values, for a parent that does not read codes.
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.values.execute(partition, context)
    }

    fn statistics(&self) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&self.statistics))
    }
}
