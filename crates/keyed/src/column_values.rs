//! The values of Arrow columns as bytes.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray, StringViewArray};
use arrow_data::ArrayData;

use crate::kind::ColumnKind;

/// A column whose values are read as bytes.
pub(crate) enum ColumnValues {
    Bool(BooleanArray),
    Text(StringViewArray),
    Bytes(BinaryViewArray),
    Fixed(ArrayData, usize),
}

impl ColumnValues {
    /// Creates the values of an array; returns `None` if the array is not of this kind.
    pub(crate) fn new(array: &ArrayRef, kind: ColumnKind) -> Option<Self> {
        if ColumnKind::from_type(array.data_type()) != Some(kind) {
            return None;
        }
        Some(match kind {
            ColumnKind::Bool => Self::Bool(array.as_boolean_opt()?.clone()),
            ColumnKind::Text => Self::Text(array.as_string_view_opt()?.clone()),
            ColumnKind::Bytes => Self::Bytes(array.as_binary_view_opt()?.clone()),
            ColumnKind::Signed(width) | ColumnKind::Unsigned(width) | ColumnKind::Float(width) => {
                Self::Fixed(array.to_data(), width)
            }
        })
    }

    /// Returns a value, little-endian if its width is fixed; `None` if it is NULL.
    pub(crate) fn value(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Bool(values) => values
                .is_valid(row)
                .then(|| if values.value(row) { &[1][..] } else { &[0][..] }),
            Self::Text(values) => values.is_valid(row).then(|| values.value(row).as_bytes()),
            Self::Bytes(values) => values.is_valid(row).then(|| values.value(row)),
            Self::Fixed(data, width) => data.is_valid(row).then(|| {
                let from = (data.offset() + row) * width;
                &data.buffers()[0].as_slice()[from..from + width]
            }),
        }
    }
}
