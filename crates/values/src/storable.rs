//! Types as tables keep them: dictionaries become their values, texts and bytes become views, which a table
//! makes without copying what its dictionaries hold.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::take::take;

/// Returns the type in which a table stores values of `data_type`. The table checks whether it supports that
/// type.
pub fn storable_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => storable_type(values),
        DataType::RunEndEncoded(_, values) => storable_type(values.data_type()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Null => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::BinaryView,
        other => other.clone(),
    }
}

/// Returns the schema in which a table stores batches of `schema`: storable types, no metadata.
pub fn storable_schema(schema: &Schema) -> SchemaRef {
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
/// A value does not fit the type, or a decimal has more digits than its type.
pub fn to_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(array, field)| {
            let array = match array.data_type() {
                same if same == field.data_type() => Arc::clone(array),
                DataType::Dictionary(..) => decoded(array, field.data_type(), &strict)?,
                _ => cast_with_options(array, field.data_type(), &strict)?,
            };
            check_digits(&array).map_err(|error| in_column(field.name(), &error))?;
            Ok(array)
        })
        .collect::<Result<_, ArrowError>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)
}

/// Returns the values of a dictionary array as an array of another type. A key of a NULL among the values is
/// NULL too, which the cast of a dictionary to views overlooks.
fn decoded(array: &ArrayRef, to: &DataType, options: &CastOptions<'_>) -> Result<ArrayRef, ArrowError> {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return cast_with_options(array, to, options);
    };
    let values = match dictionary.values().data_type() {
        DataType::Dictionary(..) => decoded(dictionary.values(), to, options)?,
        _ => cast_with_options(dictionary.values(), to, options)?,
    };
    take(&values, dictionary.keys(), None)
}

/// Checks that decimals have no more digits than their type says: files may hold others, which nothing else
/// checks.
fn check_digits(array: &ArrayRef) -> Result<(), ArrowError> {
    match array.data_type() {
        DataType::Decimal32(precision, _) => {
            let decimals = array.as_primitive::<Decimal32Type>();
            decimals.validate_decimal_precision(*precision)
        }
        DataType::Decimal64(precision, _) => {
            let decimals = array.as_primitive::<Decimal64Type>();
            decimals.validate_decimal_precision(*precision)
        }
        DataType::Decimal128(precision, _) => {
            let decimals = array.as_primitive::<Decimal128Type>();
            decimals.validate_decimal_precision(*precision)
        }
        _ => Ok(()),
    }
}

fn in_column(column: &str, error: &ArrowError) -> ArrowError {
    let text = error.to_string();
    let text = text.strip_prefix("Invalid argument error: ").unwrap_or(&text);
    ArrowError::InvalidArgumentError(format!("column {column}: {text}"))
}
