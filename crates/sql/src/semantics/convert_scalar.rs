//! Conversion of single values.

use arrow_array::timezone::Tz;
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use halocline_values::convert;

/// Converts one value; see [`convert()`].
///
/// # Errors
/// There is no such conversion, or the value does not fit and `safe` is false.
pub fn convert_scalar(
    value: &ScalarValue,
    to: &DataType,
    safe: bool,
    zone: Option<Tz>,
) -> Result<ScalarValue> {
    if value.data_type() == *to {
        return Ok(value.clone());
    }
    ScalarValue::try_from_array(&convert(&value.to_array()?, to, safe, zone)?, 0)
}
