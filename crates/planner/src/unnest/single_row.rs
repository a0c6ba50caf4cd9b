//! The value of a scalar subquery that may have several rows: an error where it is used.

use std::sync::{Arc, LazyLock};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function.
pub const SCALAR_SUBQUERY: &str = "scalar_subquery";

/// `scalar_subquery(rows, value)`: the value, unless there is more than one row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

static SINGLE_ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(SingleRow {
        signature: Signature::any(2, Volatility::Immutable),
    }))
});

/// Returns an expression with the value, which fails for a row whose subquery has returned several.
pub(super) fn single_row(rows: Expr, value: Expr) -> Expr {
    SINGLE_ROW.call(vec![rows, value])
}

impl ScalarUDFImpl for SingleRow {
    fn name(&self) -> &str {
        SCALAR_SUBQUERY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.get(1).cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let value = args.arg_fields.get(1);
        let data_type = value.map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [rows, value] = args.args.as_slice() else {
            return Err(DataFusionError::Internal(format!(
                "{} has two arguments",
                self.name()
            )));
        };
        let several = match rows {
            ColumnarValue::Scalar(ScalarValue::Int64(rows)) => *rows > Some(1),
            ColumnarValue::Scalar(_) => false,
            ColumnarValue::Array(rows) => {
                let rows = rows.as_primitive::<Int64Type>();
                (0..rows.len()).any(|row| rows.is_valid(row) && rows.value(row) > 1)
            }
        };
        if several {
            Err(DataFusionError::Execution(
                "a subquery used as a value returned more than one row; aggregate it (max), add LIMIT 1, or \
                 write IN (SELECT …)"
                    .into(),
            ))
        } else {
            Ok(value.clone())
        }
    }
}
