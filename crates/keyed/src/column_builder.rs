//! Arrow columns from encoded values.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, BooleanBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{Buffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use crate::kind::ColumnKind;

/// A column that is being built.
pub(crate) enum ColumnBuilder {
    Bool(BooleanBuilder),
    Text(StringViewBuilder),
    Bytes(BinaryViewBuilder),
    /// Values of a fixed width, little-endian.
    Fixed {
        data_type: DataType,
        width: usize,
        values: Vec<u8>,
        nulls: NullBufferBuilder,
    },
}

impl ColumnBuilder {
    pub(crate) fn new(data_type: &DataType, kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnKind::Text => Self::Text(StringViewBuilder::new()),
            ColumnKind::Bytes => Self::Bytes(BinaryViewBuilder::new()),
            ColumnKind::Signed(width) | ColumnKind::Unsigned(width) | ColumnKind::Float(width) => {
                Self::Fixed {
                    data_type: data_type.clone(),
                    width,
                    values: Vec::new(),
                    nulls: NullBufferBuilder::new(0),
                }
            }
        }
    }

    /// Appends a value, NULL if there is none. Returns `None` if the value is none of the type.
    pub(crate) fn push(&mut self, value: Option<&[u8]>) -> Option<()> {
        match (self, value) {
            (Self::Bool(builder), value) => builder.append_option(match value {
                Some(value) => Some(*value.first()? == 1),
                None => None,
            }),
            (Self::Text(builder), value) => builder.append_option(match value {
                Some(value) => Some(std::str::from_utf8(value).ok()?),
                None => None,
            }),
            (Self::Bytes(builder), value) => builder.append_option(value),
            (Self::Fixed { values, nulls, .. }, Some(value)) => {
                values.extend_from_slice(value);
                nulls.append_non_null();
            }
            (
                Self::Fixed {
                    values, nulls, width, ..
                },
                None,
            ) => {
                values.resize(values.len() + *width, 0);
                nulls.append_null();
            }
        }
        Some(())
    }

    /// Returns the column and begins another one.
    ///
    /// # Errors
    /// The values are none of the type.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Bool(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Bytes(builder) => Arc::new(builder.finish()),
            Self::Fixed {
                data_type,
                width,
                values,
                nulls,
            } => {
                let values = std::mem::take(values);
                let data = ArrayData::builder(data_type.clone())
                    .len(values.len() / *width)
                    .add_buffer(Buffer::from_vec(values))
                    .nulls(nulls.finish())
                    .align_buffers(true)
                    .build()?;
                make_array(data)
            }
        })
    }
}
