//! The values that a column takes: arrays of its type (any string type for strings), no NULL if it is NOT
//! NULL. Errors name the column and the row.

use crate::read::space::{Plain, unpack_dictionary};
use crate::write::physical::Physical;
use crate::{ColumnsError, Result};
use arrow_array::Array;
use arrow_schema::Field;

/// Checks that `array` has values the column can take and returns it with its dictionary unpacked.
/// `first_row` is the number of its first row, for errors.
///
/// # Errors
/// [`ColumnsError::TypeMismatch`], [`ColumnsError::NullInNotNull`], [`ColumnsError::Arrow`] for a corrupt
/// dictionary.
pub(crate) fn accept<'a>(field: &Field, array: &'a dyn Array, first_row: u64) -> Result<Plain<'a>> {
    let plain = unpack_dictionary(array)?;
    let array = plain.get();
    let strings =
        |data_type: &arrow_schema::DataType| Physical::from_data_type(data_type) == Some(Physical::Bytes);
    let interchangeable = strings(field.data_type()) && strings(array.data_type());
    if array.data_type() != field.data_type() && !interchangeable {
        return Err(ColumnsError::TypeMismatch {
            column: field.name().clone(),
            expected: field.data_type().clone(),
            got: array.data_type().clone(),
        });
    }
    if let Some(nulls) = array
        .nulls()
        .filter(|nulls| nulls.null_count() > 0 && !field.is_nullable())
    {
        let row = nulls.iter().position(|valid| !valid).unwrap_or(0);
        return Err(ColumnsError::NullInNotNull {
            column: field.name().clone(),
            row: first_row + row as u64,
        });
    }
    Ok(plain)
}
