//! The classes of types that are encoded alike.

use arrow_schema::DataType;

/// A class of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Bool,
    /// Integers of this number of bytes with a sign, and what is stored as such: dates, times, timestamps,
    /// durations, decimals.
    Signed(usize),
    /// Integers of this number of bytes without a sign.
    Unsigned(usize),
    /// Floats of this number of bytes.
    Float(usize),
    /// UTF-8 text.
    Text,
    /// Bytes.
    Bytes,
}

impl ColumnKind {
    /// Returns the class of a type; `None` if it cannot be stored.
    pub(crate) fn from_type(data_type: &DataType) -> Option<Self> {
        use DataType as T;
        let width = data_type.primitive_width();
        Some(match data_type {
            T::Boolean => Self::Bool,
            T::Utf8View => Self::Text,
            T::BinaryView => Self::Bytes,
            T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => Self::Unsigned(width?),
            T::Float16 | T::Float32 | T::Float64 => Self::Float(width?),
            T::Int8
            | T::Int16
            | T::Int32
            | T::Int64
            | T::Date32
            | T::Date64
            | T::Time32(_)
            | T::Time64(_)
            | T::Timestamp(..)
            | T::Duration(_)
            | T::Decimal32(..)
            | T::Decimal64(..)
            | T::Decimal128(..) => Self::Signed(width?),
            _ => return None,
        })
    }

    /// Returns the bytes of a value that is stored in a fixed number of bytes; `None` for text and bytes.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::Signed(width) | Self::Unsigned(width) | Self::Float(width) => Some(width),
            Self::Text | Self::Bytes => None,
        }
    }
}
