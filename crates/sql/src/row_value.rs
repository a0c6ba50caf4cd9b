//! `row_value(a, b, …)`: a row of several values as an expression.
//!
//! [`semantics`](crate::semantics) writes `(a, b) IN (SELECT …)` as a comparison of calls of `row_value`,
//! which type coercion gives equal types.

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function that makes a row.
pub const ROW_VALUE: &str = "row_value";

/// `row_value(a, b, …)`: a struct of the values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RowValue {
    signature: Signature,
}

static ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(RowValue {
        signature: Signature::variadic_any(Volatility::Immutable),
    }))
});

/// Returns the function that makes a row.
pub fn row_value() -> Arc<ScalarUDF> {
    Arc::clone(&ROW)
}

/// Returns the fields of a row of these values.
fn fields<'a>(values: impl Iterator<Item = (&'a DataType, bool)>) -> Fields {
    let fields = values.enumerate();
    let fields =
        fields.map(|(at, (data_type, nullable))| Field::new(format!("c{at}"), data_type.clone(), nullable));
    fields.collect()
}

impl ScalarUDFImpl for RowValue {
    fn name(&self) -> &str {
        ROW_VALUE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields(
            types.iter().map(|data_type| (data_type, true)),
        )))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let values = args.arg_fields.iter().map(|field| (field.data_type(), true));
        Ok(Arc::new(Field::new(
            ROW_VALUE,
            DataType::Struct(fields(values)),
            false,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays: Vec<ArrayRef> = ColumnarValue::values_to_arrays(&args.args)?;
        let fields = fields(arrays.iter().map(|array| (array.data_type(), true)));
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(
            fields, arrays, None,
        )?)))
    }
}
