//! Building string and binary arrays of any of their six Arrow types, and decimals that are stored like
//! strings (`wide.rs`).
//!
//! Values are collected one after the other with their ends, whatever the type; views are made of that at the
//! end, so that UTF-8 is verified once for all bytes instead of string by string.

use crate::error::damaged;
use crate::format::wide;
use crate::kernel::{BlockMask, string_views, view};
use crate::{ColumnsError, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray,
};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_data::MAX_INLINE_VIEW_LEN;
use arrow_schema::DataType;
use std::sync::Arc;

/// Collects values, then becomes an array of `data_type`.
pub(crate) struct BytesBuilder {
    data_type: DataType,
    bytes: Vec<u8>,
    ends: Vec<i64>,
    nulls: NullBufferBuilder,
}

impl BytesBuilder {
    pub(crate) fn new(data_type: &DataType, rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self {
            data_type: data_type.clone(),
            bytes: Vec::new(),
            ends,
            nulls: NullBufferBuilder::new(rows),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as i64);
        self.nulls.append_non_null();
    }

    /// Pushes values that lie one after the other in `bytes`, up to their ends. A value is NULL unless its
    /// bit, counted from `first` on, is set.
    pub(crate) fn push_all(&mut self, bytes: &[u8], ends: &[u32], valid: &BlockMask, first: usize) {
        let start = self.bytes.len() as i64;
        self.bytes.extend_from_slice(bytes);
        self.ends.extend(ends.iter().map(|end| start + i64::from(*end)));
        if valid.iter().all(|word| *word == u64::MAX) {
            return self.nulls.append_n_non_nulls(ends.len());
        }
        for row in first..first + ends.len() {
            self.nulls.append(valid[row / 64] >> (row % 64) & 1 == 1);
        }
    }

    pub(crate) fn push_null(&mut self) {
        self.ends.push(self.bytes.len() as i64);
        self.nulls.append_null();
    }

    /// Pushes the value that `write` appends to the bytes it gets; its result is handed on.
    #[inline]
    pub(crate) fn push_with<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let result = write(&mut self.bytes);
        self.ends.push(self.bytes.len() as i64);
        self.nulls.append_non_null();
        result
    }

    /// Builds the array.
    ///
    /// # Errors
    /// [`ColumnsError::TooLarge`] if the values exceed 2 GiB and the type has 32-bit offsets;
    /// [`ColumnsError::Arrow`] if the bytes are not the valid UTF-8 or decimals that the type requires, which
    /// means damage.
    pub(crate) fn finish(mut self) -> Result<ArrayRef> {
        let nulls = self.nulls.finish();
        if wide::may_be_wide(&self.data_type) {
            return Ok(wide::array(&self.data_type, &self.bytes, &self.ends, nulls)?);
        }
        let large = matches!(self.data_type, DataType::LargeUtf8 | DataType::LargeBinary);
        if !large && i32::try_from(self.bytes.len()).is_err() {
            let what = format!(
                "{} bytes of strings in one array of type {}; read fewer rows at once",
                self.bytes.len(),
                self.data_type
            );
            return Err(ColumnsError::TooLarge { what });
        }
        if matches!(self.data_type, DataType::Utf8View | DataType::BinaryView) {
            return self.into_views(nulls);
        }
        let bytes = Buffer::from_vec(self.bytes);
        let small = |ends: Vec<i64>| OffsetBuffer::new(ends.iter().map(|&end| end as i32).collect());
        let large = |ends: Vec<i64>| OffsetBuffer::new(ScalarBuffer::from(ends));
        Ok(match self.data_type {
            DataType::Utf8 => Arc::new(StringArray::try_new(small(self.ends), bytes, nulls)?),
            DataType::LargeUtf8 => Arc::new(LargeStringArray::try_new(large(self.ends), bytes, nulls)?),
            DataType::LargeBinary => Arc::new(LargeBinaryArray::try_new(large(self.ends), bytes, nulls)?),
            _ => Arc::new(BinaryArray::try_new(small(self.ends), bytes, nulls)?),
        })
    }

    /// Builds the array of values that are stored at `place`.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`] at that place if the bytes are not valid for the type;
    /// [`ColumnsError::TooLarge`] as [`finish`](Self::finish).
    pub(crate) fn finish_stored(self, place: &str) -> Result<ArrayRef> {
        self.finish().map_err(|error| match error {
            ColumnsError::Arrow(error) => damaged(place, error.to_string()),
            other => other,
        })
    }

    fn into_views(self, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        if self.data_type == DataType::Utf8View {
            return string_views(self.bytes, &self.ends, nulls);
        }
        let mut all_inline = true;
        let views = self.ends.windows(2).map(|ends| {
            let value = &self.bytes[ends[0] as usize..ends[1] as usize];
            all_inline &= value.len() <= MAX_INLINE_VIEW_LEN as usize;
            view(value, ends[0] as usize)
        });
        let views: Vec<u128> = views.collect();
        let buffers = if all_inline {
            Vec::new()
        } else {
            vec![Buffer::from_vec(self.bytes)]
        };
        Ok(Arc::new(BinaryViewArray::try_new(views.into(), buffers, nulls)?))
    }
}

/// Calls `each` with every value (or NULL) of a string or binary array, in order, or with the strings of
/// decimals.
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
        DataType::Decimal128(..) => {
            let decimals = array.as_primitive::<Decimal128Type>().iter();
            decimals
                .map(|value| value.map(wide::to_bytes))
                .try_for_each(|value| each(value.as_ref().map(<[u8; wide::WIDE_BYTES]>::as_slice)))
        }
        _ => visit!(array.as_binary_view()),
    }
}
