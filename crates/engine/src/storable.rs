//! Types as tables keep them: dictionaries become their values, texts and bytes become views, which a table
//! makes without copying what its dictionaries hold.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// Returns the type in which a table stores values of `data_type`. The table checks whether it supports that
/// type.
pub(crate) fn storable_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => storable_type(values),
        DataType::RunEndEncoded(_, values) => storable_type(values.data_type()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Null => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    }
}

/// Returns the schema in which a table stores batches of `schema`: storable types, no metadata.
pub(crate) fn storable_schema(schema: &Schema) -> SchemaRef {
    let keep = |field: &Arc<Field>| {
        Field::new(
            field.name(),
            storable_type(field.data_type()),
            field.is_nullable(),
        )
    };
    Arc::new(Schema::new(schema.fields().iter().map(keep).collect::<Vec<_>>()))
}

/// Casts `batch` to the types (and nullability) of `schema`, which has the same number of columns.
///
/// # Errors
/// A value does not fit the type.
pub(crate) fn to_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(array, field)| match array.data_type() == field.data_type() {
            true => Ok(Arc::clone(array)),
            false => cast_with_options(array, field.data_type(), &strict),
        })
        .collect::<Result<_, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)
}
