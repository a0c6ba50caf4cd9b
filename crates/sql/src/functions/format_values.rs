//! Columns whose values `format` and `printf` write.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow_cast::cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;
use datafusion::common::Result;

use super::arguments::{is_text, texts};
use super::format_fields::FieldValue;

/// A column, in one of few types.
pub(super) enum FieldColumn {
    Integers(Int64Array),
    Unsigned(UInt64Array),
    Decimals(Decimal128Array),
    Floats(Float64Array),
    Texts(StringArray),
    /// Values of other types, which are written as they are shown.
    Others(ArrayRef),
}

impl FieldColumn {
    /// Reads a column of any type.
    ///
    /// # Errors
    /// It cannot be converted, which no type causes.
    pub(super) fn read(values: &ArrayRef) -> Result<Self> {
        Ok(match values.data_type() {
            DataType::Dictionary(_, of) => return Self::read(&cast(values, of)?),
            DataType::UInt64 => Self::Unsigned(values.as_primitive::<UInt64Type>().clone()),
            other if other.is_integer() => Self::Integers(
                cast(values, &DataType::Int64)?
                    .as_primitive::<Int64Type>()
                    .clone(),
            ),
            DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale) if *scale >= 0 => {
                let wide = cast(values, &DataType::Decimal128(*digits, *scale))?;
                Self::Decimals(wide.as_primitive::<Decimal128Type>().clone())
            }
            DataType::Decimal128(_, scale) if *scale >= 0 => {
                Self::Decimals(values.as_primitive::<Decimal128Type>().clone())
            }
            DataType::Float16 | DataType::Float64 => Self::Floats(
                cast(values, &DataType::Float64)?
                    .as_primitive::<Float64Type>()
                    .clone(),
            ),
            // Its shortest digits are others as a double.
            DataType::Float32 => {
                let shown = cast(&cast(values, &DataType::Utf8)?, &DataType::Float64)?;
                Self::Floats(shown.as_primitive::<Float64Type>().clone())
            }
            other if is_text(other) => Self::Texts(texts(values)?),
            _ => Self::Others(ArrayRef::clone(values)),
        })
    }

    /// Returns true for NULL.
    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Integers(values) => values.is_null(row),
            Self::Unsigned(values) => values.is_null(row),
            Self::Decimals(values) => values.is_null(row),
            Self::Floats(values) => values.is_null(row),
            Self::Texts(values) => values.is_null(row),
            Self::Others(values) => values.is_null(row),
        }
    }

    /// Returns the value of a row that is not NULL.
    ///
    /// # Errors
    /// The value cannot be shown.
    pub(super) fn value(&self, row: usize) -> Result<FieldValue, String> {
        Ok(match self {
            Self::Integers(values) => FieldValue::Integer(values.value(row).into()),
            Self::Unsigned(values) => FieldValue::Integer(values.value(row).into()),
            Self::Decimals(values) => {
                FieldValue::Decimal(values.value(row), values.scale().unsigned_abs().into())
            }
            Self::Floats(values) => FieldValue::Float(values.value(row)),
            Self::Texts(values) => FieldValue::Text(values.value(row).to_owned()),
            Self::Others(values) => {
                let shown = array_value_to_string(values, row);
                FieldValue::Text(shown.map_err(|error| error.to_string())?)
            }
        })
    }
}
