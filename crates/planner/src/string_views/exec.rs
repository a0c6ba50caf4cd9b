//! The node that copies strings, or changes their types.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::StreamExt;

use super::compact::compacted;
use crate::unary_node::{no_expressions, one_child};

/// Returns the rows of the input in the types of a schema. Views have buffers of their own.
#[derive(Debug)]
pub struct StringsExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl StringsExec {
    /// Creates a node that keeps the types.
    pub fn compact(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = Arc::clone(input.properties());
        Self { input, properties }
    }

    /// Creates a node that returns strings in place of views.
    pub(super) fn plain(input: Arc<dyn ExecutionPlan>) -> Self {
        let schema = input.schema();
        let fields = schema
            .fields()
            .iter()
            .map(|field| match plain(field.data_type()) {
                Some(plain) => Arc::new(field.as_ref().clone().with_data_type(plain)),
                None => Arc::clone(field),
            });
        let plain = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
        Self::typed(input, &Arc::new(plain))
    }

    /// Creates a node that returns the same values in the types of `schema`.
    pub(super) fn typed(input: Arc<dyn ExecutionPlan>, schema: &SchemaRef) -> Self {
        let mut equivalence = EquivalenceProperties::new(Arc::clone(schema));
        let before = input.schema();
        let is_same = |column: &Column| before.field(column.index()) == schema.field(column.index());
        // Strings are in the order of their bytes, whatever their type.
        let keeps =
            |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>() || collect_columns(expr).iter().all(is_same);
        let order = input.output_ordering().into_iter().flatten();
        let kept = order.take_while(|sort| keeps(&sort.expr)).cloned();
        if let Some(order) = LexOrdering::new(kept) {
            equivalence.add_ordering(order);
        }
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

/// Returns the type of the same values without views.
pub fn plain(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    }
}

impl DisplayAs for StringsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CopiedStrings")
    }
}

impl ExecutionPlan for StringsExec {
    fn name(&self) -> &'static str {
        "CopiedStrings"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    no_expressions!();

    one_child!(|node, input| {
        let schema = node.schema();
        if input.schema() == schema {
            Self::compact(input)
        } else {
            Self::typed(input, &schema)
        }
    });

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let schema = self.schema();
        let output = Arc::clone(&schema);
        let copied = rows.map(move |batch| copied(&batch?, &output));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, copied)))
    }
}

fn copied(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        if column.data_type() == field.data_type() {
            Ok(compacted(column))
        } else {
            Ok(cast(column, field.data_type())?)
        }
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}
