//! `median` and `percentile_cont` over rows that are sorted by the keys of the groups and the value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, UInt64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::{concat, concat_batches};
use arrow_select::take::take_record_batch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

use super::layout::unexpected;
use super::values::GroupValues;
use crate::key_runs::KeyRuns;

/// Steps into which the distance between two values is divided, as by DataFusion.
const STEPS: f64 = 1_000_000.0;

/// The selection from each group.
pub(super) struct MiddleOf {
    pub(super) aggregate: Arc<AggregateFunctionExpr>,
    pub(super) is_median: bool,
    /// From 0 to 1.
    pub(super) fraction: f64,
    /// The number of columns with keys, which come first.
    pub(super) keys: usize,
    /// The column with the value; NULLs are last in each group.
    pub(super) value: usize,
    /// The keys and the result.
    pub(super) output: SchemaRef,
}

/// Returns a row for each group.
///
/// # Errors
/// The keys cannot be compared.
pub(super) fn middle(
    rows: SendableRecordBatchStream,
    of: MiddleOf,
    context: &TaskContext,
) -> Result<SendableRecordBatchStream> {
    let schema = rows.schema();
    let keys: Vec<usize> = (0..of.keys).collect();
    let columns = keys.iter().map(|&key| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(key).name(), key));
        column
    });
    let output = Arc::clone(&of.output);
    let state = Middle {
        runs: KeyRuns::new(columns.collect(), &schema)?,
        key_schema: Arc::new(schema.project(&keys)?),
        keys: Vec::new(),
        values: GroupValues::new(schema.field(of.value), context),
        batch_size: context.session_config().batch_size(),
        has_group: false,
        finished: Finished::default(),
        rows,
        of,
        is_done: false,
    };
    let batches = stream::try_unfold(state, |mut state| async move {
        let batch = state.next().await?;
        Ok(batch.map(|batch| (batch, state)))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(output, batches)))
}

struct Middle {
    rows: SendableRecordBatchStream,
    of: MiddleOf,
    runs: KeyRuns,
    key_schema: SchemaRef,
    /// The keys of groups that have begun and whose results have not been returned.
    keys: Vec<RecordBatch>,
    batch_size: usize,
    /// True if the values of a group are read.
    has_group: bool,
    values: GroupValues,
    finished: Finished,
    is_done: bool,
}

/// Groups whose results have not been returned.
#[derive(Default)]
struct Finished {
    count: usize,
    lower: Vec<ArrayRef>,
    upper: Vec<ArrayRef>,
    /// The group of each of these values, and the part of the way to the upper one.
    groups: Vec<usize>,
    weights: Vec<f64>,
}

impl Middle {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.is_done && self.finished.count < self.batch_size {
            match self.rows.try_next().await? {
                Some(batch) => self.add(&batch).await?,
                None => {
                    self.is_done = true;
                    // Without keys there is one group, though it may have no rows.
                    if self.has_group || self.of.keys == 0 {
                        self.finish().await?;
                    }
                }
            }
        }
        match self.finished.count {
            0 => Ok(None),
            _ => self.flush().map(Some),
        }
    }

    async fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let value = batch.column(self.of.value);
        let runs = self.runs.next(batch)?;
        if self.of.keys > 0 {
            let begin = runs
                .iter()
                .filter(|run| run.begins)
                .map(|run| run.rows.start as u64);
            let keys: Vec<usize> = (0..self.of.keys).collect();
            // Slices would hold the whole batch.
            let keys = take_record_batch(&batch.project(&keys)?, &UInt64Array::from_iter_values(begin))?;
            self.keys.push(keys);
        }
        for run in runs {
            if run.begins && self.has_group {
                self.finish().await?;
            }
            self.has_group = true;
            self.push(value, run.rows.start, run.rows.len())?;
        }
        Ok(())
    }

    fn push(&mut self, value: &ArrayRef, start: usize, len: usize) -> Result<()> {
        let values = value.slice(start, len);
        self.values.push(values.slice(0, len - values.null_count()))
    }

    async fn finish(&mut self) -> Result<()> {
        self.has_group = false;
        let count = self.values.count();
        if count > 0 {
            let (lower, upper, weight) = self.of.positions(count);
            let [lower, upper] = self.values.take([lower, upper]).await?;
            self.finished.lower.push(lower);
            self.finished.upper.push(upper);
            self.finished.groups.push(self.finished.count);
            self.finished.weights.push(weight);
        }
        self.finished.count += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let finished = std::mem::take(&mut self.finished);
        let mut columns = Vec::new();
        if self.of.keys > 0 {
            let keys = concat_batches(&self.key_schema, &self.keys)?;
            self.keys = vec![keys.slice(finished.count, keys.num_rows() - finished.count)];
            columns.extend_from_slice(keys.slice(0, finished.count).columns());
        }
        columns.push(self.of.results(&finished)?);
        let fields = self.of.output.fields().iter().zip(columns);
        let columns = fields.map(|(field, column)| Ok(cast(&column, field.data_type())?));
        let columns = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.of.output), columns)?)
    }
}

impl MiddleOf {
    /// Returns the row of a group without keys, with the value at each position in the order of its values.
    ///
    /// # Errors
    /// That of `value_at`.
    pub(super) fn group(
        &self,
        count: u64,
        value_at: impl Fn(u64) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        let mut finished = Finished {
            count: 1,
            ..Finished::default()
        };
        if count > 0 {
            let (lower, upper, weight) = self.positions(count);
            finished.lower.push(value_at(lower)?);
            finished.upper.push(value_at(upper)?);
            finished.groups.push(0);
            finished.weights.push(weight);
        }
        let field = self.output.fields().last();
        let field = field.ok_or_else(|| unexpected("the result has a column"))?;
        let result = cast(&self.results(&finished)?, field.data_type())?;
        Ok(RecordBatch::try_new(Arc::clone(&self.output), vec![result])?)
    }

    /// Returns the two positions of a group that the result is computed from, and the part of the way to the
    /// second.
    fn positions(&self, count: u64) -> (u64, u64, f64) {
        if self.is_median {
            return ((count - 1) / 2, count / 2, 0.0);
        }
        let index = self.fraction * (count - 1) as f64;
        let lower = index.floor();
        let weight = ((index - lower) * STEPS).trunc() / STEPS;
        (lower as u64, index.ceil() as u64, weight)
    }

    fn results(&self, finished: &Finished) -> Result<ArrayRef> {
        let (mut values, mut groups) = (finished.lower.clone(), finished.groups.clone());
        if self.is_median {
            let pairs = finished.lower.iter().zip(&finished.upper).zip(&finished.groups);
            for ((lower, upper), group) in pairs {
                // The mean of a value and itself can overflow.
                if lower != upper {
                    values.push(Arc::clone(upper));
                    groups.push(*group);
                }
            }
            self.medians(&values, &groups, finished.count)
        } else {
            let results = interpolated(&finished.lower, &finished.upper, &finished.weights)?;
            let mut of_group = vec![None; finished.count];
            for (group, result) in finished.groups.iter().zip(results) {
                of_group[*group] = Some(result);
            }
            Ok(Arc::new(Float64Array::from(of_group)))
        }
    }

    fn medians(&self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<ArrayRef> {
        let mut medians = self.aggregate.create_groups_accumulator()?;
        let parts: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        if !parts.is_empty() {
            medians.update_batch(&[concat(&parts)?], groups, None, count)?;
            return medians.evaluate(EmitTo::All);
        }
        let field = self.output.fields().last();
        let field = field.ok_or_else(|| unexpected("the result has a column"))?;
        Ok(arrow_array::new_null_array(field.data_type(), count))
    }
}

fn interpolated(lower: &[ArrayRef], upper: &[ArrayRef], weights: &[f64]) -> Result<Vec<f64>> {
    if lower.is_empty() {
        return Ok(Vec::new());
    }
    let as_floats = |parts: &[ArrayRef]| {
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok::<_, datafusion::error::DataFusionError>(cast(&concat(&parts)?, &DataType::Float64)?)
    };
    let (lower, upper) = (as_floats(lower)?, as_floats(upper)?);
    let (lower, upper) = (
        lower.as_primitive::<Float64Type>().values(),
        upper.as_primitive::<Float64Type>().values(),
    );
    let pairs = lower.iter().zip(upper).zip(weights);
    // At a weight of 0, the distance to an infinite value would give no number.
    let between = pairs.map(|((lower, upper), weight)| match *weight {
        0.0 => *lower,
        weight => lower + (upper - lower) * weight,
    });
    Ok(between.collect())
}
