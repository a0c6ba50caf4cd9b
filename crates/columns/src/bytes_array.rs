//! Building string and binary arrays of any of their six Arrow types.

use crate::{ColumnsError, Result};
use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, StringArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use std::sync::Arc;

enum Sink {
    /// Bytes and ends, for the types with offsets.
    Offsets {
        bytes: Vec<u8>,
        ends: Vec<i64>,
        nulls: NullBufferBuilder,
    },
    /// For the view types; with room to build one value.
    Views(BinaryViewBuilder, Vec<u8>),
}

/// Collects values, then becomes an array of `data_type`.
pub(crate) struct BytesBuilder {
    data_type: DataType,
    sink: Sink,
}

impl BytesBuilder {
    pub(crate) fn new(data_type: &DataType, rows: usize) -> Self {
        let sink = match data_type {
            DataType::Utf8View | DataType::BinaryView => {
                Sink::Views(BinaryViewBuilder::with_capacity(rows), Vec::new())
            }
            _ => {
                let mut ends = Vec::with_capacity(rows + 1);
                ends.push(0);
                Sink::Offsets {
                    bytes: Vec::new(),
                    ends,
                    nulls: NullBufferBuilder::new(rows),
                }
            }
        };
        Self {
            data_type: data_type.clone(),
            sink,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        match &mut self.sink {
            Sink::Offsets { bytes, ends, nulls } => {
                bytes.extend_from_slice(value);
                ends.push(bytes.len() as i64);
                nulls.append_non_null();
            }
            Sink::Views(builder, _) => builder.append_value(value),
        }
    }

    pub(crate) fn push_null(&mut self) {
        match &mut self.sink {
            Sink::Offsets { bytes, ends, nulls } => {
                ends.push(bytes.len() as i64);
                nulls.append_null();
            }
            Sink::Views(builder, _) => builder.append_null(),
        }
    }

    /// Pushes the value that `write` appends to the bytes it gets; its result is handed on.
    pub(crate) fn push_with<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        match &mut self.sink {
            Sink::Offsets { bytes, ends, nulls } => {
                let result = write(bytes);
                ends.push(bytes.len() as i64);
                nulls.append_non_null();
                result
            }
            Sink::Views(builder, value) => {
                value.clear();
                let result = write(value);
                builder.append_value(&value[..]);
                result
            }
        }
    }

    /// The array.
    ///
    /// # Errors
    /// [`ColumnsError::TooLarge`] if the values pass 2 GiB and the type has 32-bit offsets;
    /// [`ColumnsError::Arrow`] if the bytes are not the UTF-8 that the type promises (damaged).
    pub(crate) fn finish(self) -> Result<ArrayRef> {
        let (bytes, ends, nulls) = match self.sink {
            Sink::Views(mut builder, _) => {
                let array = builder.finish();
                return Ok(match self.data_type {
                    DataType::Utf8View => Arc::new(array.to_string_view()?),
                    _ => Arc::new(array),
                });
            }
            Sink::Offsets {
                bytes,
                ends,
                mut nulls,
            } => (Buffer::from_vec(bytes), ends, nulls.finish()),
        };
        let large = || OffsetBuffer::new(ScalarBuffer::from(ends.clone()));
        let small = || -> Result<OffsetBuffer<i32>> {
            if i32::try_from(bytes.len()).is_err() {
                return Err(ColumnsError::TooLarge {
                    what: format!(
                        "{} bytes of strings in one array of type {}; read fewer rows at once",
                        bytes.len(),
                        self.data_type
                    ),
                });
            }
            Ok(OffsetBuffer::new(ends.iter().map(|&end| end as i32).collect()))
        };
        Ok(match self.data_type {
            DataType::Utf8 => Arc::new(StringArray::try_new(small()?, bytes.clone(), nulls)?),
            DataType::LargeUtf8 => Arc::new(LargeStringArray::try_new(large(), bytes.clone(), nulls)?),
            DataType::LargeBinary => Arc::new(LargeBinaryArray::try_new(large(), bytes.clone(), nulls)?),
            _ => Arc::new(BinaryArray::try_new(small()?, bytes.clone(), nulls)?),
        })
    }
}

/// Calls `each` with every value (or NULL) of a string or binary array, in order.
///
/// # Errors
/// The first error of `each`.
///
/// # Panics
/// If the array is of another type.
pub(crate) fn for_each_bytes<E>(
    array: &dyn Array,
    mut each: impl FnMut(Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    macro_rules! visit {
        ($array:expr) => {{
            let array = $array;
            match array.nulls() {
                None => (0..array.len()).try_for_each(|i| each(Some(array.value(i).as_ref()))),
                Some(nulls) => (0..array.len())
                    .try_for_each(|i| each(nulls.is_valid(i).then(|| array.value(i).as_ref()))),
            }
        }};
    }
    match array.data_type() {
        DataType::Utf8 => visit!(array.as_string::<i32>()),
        DataType::LargeUtf8 => visit!(array.as_string::<i64>()),
        DataType::Utf8View => visit!(array.as_string_view()),
        DataType::Binary => visit!(array.as_binary::<i32>()),
        DataType::LargeBinary => visit!(array.as_binary::<i64>()),
        _ => visit!(array.as_binary_view()),
    }
}
