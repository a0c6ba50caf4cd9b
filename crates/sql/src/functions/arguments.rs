//! Arguments and results of functions: texts of every type, and one value for arguments that are constants.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_cast::cast::cast;
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, DocSection, Documentation, ScalarFunctionArgs};
use halocline_values::names::sql_name;

/// Returns the description of a function for `SHOW FUNCTIONS`.
pub(super) fn documentation(description: &str, syntax: &str) -> Documentation {
    Documentation::builder(DocSection::default(), description, syntax).build()
}

/// Returns true for a type of texts, or that of NULL.
pub(super) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Returns true for a type of integers, or that of NULL.
pub(super) fn is_whole(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_whole(values),
        other => other.is_integer() || other.is_null(),
    }
}

/// Returns an error of planning.
pub(super) fn refused<T>(text: String) -> Result<T> {
    Err(DataFusionError::Plan(text))
}

/// Returns an error of execution.
pub(super) fn failed<T>(text: String) -> Result<T> {
    Err(DataFusionError::Execution(text))
}

/// The types that an argument may have: their name, and a condition.
pub(super) type AcceptedType<'a> = (&'a str, fn(&DataType) -> bool);

/// Checks the types of arguments, each by a condition with a name for what it accepts.
///
/// # Errors
/// The number of arguments is another one, or a type does not match; the text ends with the syntax.
pub(super) fn check_types(
    syntax: &str,
    types: &[DataType],
    needed: usize,
    accepted: &[AcceptedType<'_>],
) -> Result<()> {
    if !(needed..=accepted.len()).contains(&types.len()) {
        return refused(format!(
            "wrong number of arguments ({}); write {syntax}",
            types.len()
        ));
    }
    for (at, (data_type, (what, accepts))) in types.iter().zip(accepted).enumerate() {
        if !accepts(data_type) {
            return refused(format!(
                "argument {} has type {} and has to be {what}; write {syntax}",
                at + 1,
                sql_name(data_type)
            ));
        }
    }
    Ok(())
}

/// Returns texts of any type as those of one type.
pub(super) fn texts(values: &ArrayRef) -> Result<StringArray> {
    Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// Computes a function over columns; of constants one value.
pub(super) fn by_columns(
    args: &ScalarFunctionArgs,
    compute: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
    let constant = args.args.iter().all(is_constant);
    let rows = if constant { 1 } else { args.number_rows };
    let columns = args.args.iter().map(|arg| arg.to_array(rows));
    let computed = compute(&columns.collect::<Result<Vec<_>>>()?)?;
    if constant {
        ScalarValue::try_from_array(&computed, 0).map(ColumnarValue::Scalar)
    } else {
        Ok(ColumnarValue::Array(computed))
    }
}
