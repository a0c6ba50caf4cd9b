//! Defaults: what a column takes where a statement gives no value for it. A table only remembers them, for
//! those who make its rows; rows that are written have all their values.

use crate::Result;
use crate::error::damaged;
use crate::format::wide;
use crate::read::bytes_array::{BytesBuilder, for_each_bytes};
use crate::table::accept::accept;
use crate::table::table_edit::TableEdit;
use crate::write::physical::{Physical, append_keys, array_from_keys, is_text};
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use halocline_pool::Txn;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// A default in a table's durable description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DefaultMeta {
    /// The key of a value that is no string.
    Key(u64),
    /// The unscaled value of a decimal without a key, in decimal digits.
    Wide(String),
    /// A text.
    Text(String),
    /// A binary string.
    Bytes(Vec<u8>),
}

/// Sets the default of a column, an array of length 1 of the column's type (any string type for strings);
/// none, or NULL, takes it away. Rows that are there stay as they are.
///
/// # Errors
/// [`NoSuchTable`](crate::ColumnsError::NoSuchTable), [`NoSuchColumn`](crate::ColumnsError::NoSuchColumn),
/// [`TypeMismatch`](crate::ColumnsError::TypeMismatch), [`Damaged`](crate::ColumnsError::Damaged),
/// [`Pool`](crate::ColumnsError::Pool).
///
/// # Panics
/// If `default` is not of length 1.
pub fn set_default(txn: &Txn, table: &str, column: &str, default: Option<&ArrayRef>) -> Result<()> {
    let mut edit = TableEdit::load(txn, table)?;
    let position = edit.column(column)?;
    let field = edit.schema()?.field(position).clone();
    edit.meta.columns[position].default = match default {
        Some(value) => DefaultMeta::from_array(&field, value)?,
        None => None,
    };
    edit.put(txn)
}

impl DefaultMeta {
    /// Converts an array of length 1 to a default; `None` for NULL.
    ///
    /// # Errors
    /// [`TypeMismatch`](crate::ColumnsError::TypeMismatch).
    pub(crate) fn from_array(field: &Field, value: &ArrayRef) -> Result<Option<Self>> {
        assert_eq!(value.len(), 1, "a default is one value");
        let plain = accept(&field.clone().with_nullable(true), value, 0)?;
        let value = plain.get();
        if value.is_null(0) {
            return Ok(None);
        }
        // The types of stored columns have a physical form.
        let physical = Physical::from_data_type(field.data_type()).unwrap_or(Physical::Bytes);
        if physical != Physical::Bytes {
            let mut keys = Vec::new();
            return Ok(match append_keys(value, physical, &mut keys) {
                Ok(()) => keys.first().map(|&key| Self::Key(key)),
                Err(_) => {
                    let decimal = value.as_primitive_opt::<Decimal128Type>();
                    decimal.map(|decimal| Self::Wide(decimal.value(0).to_string()))
                }
            });
        }
        let mut bytes = Vec::new();
        let never: Result<(), Infallible> = for_each_bytes(value, |value| {
            bytes.extend_from_slice(value.unwrap_or_default());
            Ok(())
        });
        never.unwrap_or_else(|never| match never {});
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) if is_text(field.data_type()) => Self::Text(text),
            Ok(text) => Self::Bytes(text.into_bytes()),
            Err(error) => Self::Bytes(error.into_bytes()),
        }))
    }

    /// Returns true if programs that do not know decimals of more than 64 bits do not know it.
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self, Self::Wide(_))
    }

    /// Decodes the default to an array of length 1 of the column's type.
    ///
    /// # Errors
    /// [`Damaged`](crate::ColumnsError::Damaged) if it is not of that type.
    pub(crate) fn value(&self, place: &str, data_type: &DataType) -> Result<ArrayRef> {
        let physical = Physical::from_data_type(data_type).unwrap_or(Physical::Bytes);
        let wide: [u8; wide::WIDE_BYTES];
        let bytes = match self {
            Self::Wide(digits) if wide::may_be_wide(data_type) => {
                let value = digits
                    .parse()
                    .map_err(|_| damaged(place, "its default is no number"))?;
                wide = wide::to_bytes(value);
                &wide
            }
            Self::Key(key) if physical != Physical::Bytes => {
                return array_from_keys(data_type, physical, &[*key], None);
            }
            Self::Text(text) if is_text(data_type) => text.as_bytes(),
            Self::Bytes(bytes) if physical == Physical::Bytes && !is_text(data_type) => bytes,
            _ => return Err(damaged(place, "its default is of another type")),
        };
        let mut builder = BytesBuilder::new(data_type, 1);
        builder.push(bytes);
        builder.finish_stored(place)
    }
}
