//! The node that computes the columns of a [`Layout`] from the rows of the input.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::compute::{is_not_null, not, nullif, prep_null_mask_filter};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::{PhysicalGroupBy, evaluate_group_by};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, stream};

use super::layout::{Layout, ValueColumn};
use crate::string_views::compacted;
use crate::unary_node::{no_expressions, one_child};

/// Computes keys and values; a row for each grouping set.
#[derive(Debug)]
pub(super) struct ColumnsExec {
    input: Arc<dyn ExecutionPlan>,
    group_by: PhysicalGroupBy,
    layout: Arc<Layout>,
    properties: Arc<PlanProperties>,
}

impl ColumnsExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, group_by: PhysicalGroupBy, layout: Arc<Layout>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&layout.columns)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            input,
            group_by,
            layout,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for ColumnsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AggregateColumns")
    }
}

impl ExecutionPlan for ColumnsExec {
    fn name(&self) -> &'static str {
        "AggregateColumns"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    no_expressions!();

    one_child!(|node, input| Self::new(input, node.group_by.clone(), Arc::clone(&node.layout)));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (group_by, layout) = (self.group_by.clone(), Arc::clone(&self.layout));
        let mut first_row = 0;
        let columns = rows.flat_map(move |batch| {
            let computed = batch.and_then(|batch| {
                let computed = compute(&batch, &group_by, &layout, first_row);
                first_row += batch.num_rows() as u64;
                computed
            });
            stream::iter(match computed {
                Ok(batches) => batches.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), columns)))
    }
}

fn compute(
    batch: &RecordBatch,
    group_by: &PhysicalGroupBy,
    layout: &Layout,
    first_row: u64,
) -> Result<Vec<RecordBatch>> {
    let values = layout.values.iter().map(|value| value.evaluate(batch));
    let mut values = values.collect::<Result<Vec<_>>>()?;
    if layout.is_numbered {
        let numbers = first_row..first_row + batch.num_rows() as u64;
        values.push(Arc::new(UInt64Array::from_iter_values(numbers)) as ArrayRef);
    }
    // Without keys there are no sets, and all rows are one group.
    let sets = match layout.keys {
        0 => vec![Vec::new()],
        _ => evaluate_group_by(group_by, batch)?,
    };
    let sets = sets.into_iter().map(|keys| {
        let columns = keys.iter().chain(&values);
        let columns: Vec<ArrayRef> = columns.map(compacted).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns_of = Arc::clone(&layout.columns);
        Ok(RecordBatch::try_new_with_options(columns_of, columns, &options)?)
    });
    sets.collect()
}

impl ValueColumn {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let value = self.expr.evaluate(batch)?.into_array(batch.num_rows())?;
        let Some(filter) = &self.filter else {
            return Ok(value);
        };
        let filter = filter.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(nullif(&value, &not(&as_mask(as_boolean_array(&filter)?)?)?)?)
    }
}

/// Returns a mask with false in place of NULL.
fn as_mask(filter: &BooleanArray) -> Result<BooleanArray> {
    Ok(if is_not_null(filter)?.true_count() == filter.len() {
        filter.clone()
    } else {
        prep_null_mask_filter(filter)
    })
}
