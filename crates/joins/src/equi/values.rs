//! Values of arrays as bits and bytes, and back.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayAccessor, ArrayRef, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::layout::{BitField, MAX_VALUE_LEN, Span};
use crate::{JoinError, JoinResult};

/// Adds the values of an array of at most 64 bits to a field of rows: those of the selected rows, or all.
pub(super) fn write_fixed(
    array: &ArrayRef,
    field: BitField,
    stride: usize,
    selection: Option<&[u32]>,
    words: &mut [u64],
) {
    fn write<T: ArrowNativeType>(
        values: &[T],
        bits: impl Fn(T) -> u64,
        (field, stride, selection): (BitField, usize, Option<&[u32]>),
        words: &mut [u64],
    ) {
        let rows = words.chunks_exact_mut(stride);
        match selection {
            None => rows
                .zip(values)
                .for_each(|(row, value)| field.put(row, bits(*value))),
            Some(selection) => rows
                .zip(selection)
                .for_each(|(row, at)| field.put(row, bits(values[*at as usize]))),
        }
    }
    let place = (field, stride, selection);
    if let Some(booleans) = array.as_boolean_opt() {
        let values = booleans.values();
        for (number, row) in words.chunks_exact_mut(stride).enumerate() {
            let at = selection.map_or(number, |selection| selection[number] as usize);
            field.put(row, u64::from(values.value(at)));
        }
        return;
    }
    let data = array.to_data();
    match field.bits {
        8 => write(data.buffer::<u8>(0), u64::from, place, words),
        16 => write(data.buffer::<u16>(0), u64::from, place, words),
        32 => write(data.buffer::<u32>(0), u64::from, place, words),
        _ => write(data.buffer::<u64>(0), |value| value, place, words),
    }
}

/// Calls `each` with the bytes of the values of an array of strings or binary values; empty for NULL.
///
/// # Errors
/// Those of `each`.
pub(super) fn for_each_value(
    array: &ArrayRef,
    selection: Option<&[u32]>,
    each: impl FnMut(usize, &[u8]) -> JoinResult<()>,
) -> JoinResult<()> {
    match array.data_type() {
        DataType::Utf8 => walk(array.as_string::<i32>(), selection, each),
        DataType::LargeUtf8 => walk(array.as_string::<i64>(), selection, each),
        DataType::Utf8View => walk(array.as_string_view(), selection, each),
        DataType::Binary => walk(array.as_binary::<i32>(), selection, each),
        DataType::LargeBinary => walk(array.as_binary::<i64>(), selection, each),
        DataType::BinaryView => walk(array.as_binary_view(), selection, each),
        other => Err(JoinError::UnsupportedType {
            data_type: other.clone(),
        }),
    }
}

fn walk<A>(
    array: A,
    selection: Option<&[u32]>,
    mut each: impl FnMut(usize, &[u8]) -> JoinResult<()>,
) -> JoinResult<()>
where
    A: ArrayAccessor,
    A::Item: AsRef<[u8]>,
{
    let len = selection.map_or(array.len(), <[u32]>::len);
    for number in 0..len {
        let row = selection.map_or(number, |selection| selection[number] as usize);
        if array.is_null(row) {
            each(number, &[])?;
        } else {
            each(number, array.value(row).as_ref())?;
        }
    }
    Ok(())
}

/// Appends a value to the bytes beside rows.
///
/// # Errors
/// [`JoinError::ValueTooLong`].
#[inline]
pub(super) fn append_bytes(value: &[u8], bytes: &mut Vec<u8>) -> JoinResult<Span> {
    if value.len() > MAX_VALUE_LEN || bytes.len() > u32::MAX as usize {
        return Err(JoinError::ValueTooLong {
            bytes: value.len(),
            most: MAX_VALUE_LEN,
        });
    }
    let span = Span::new(bytes.len(), value.len());
    bytes.extend_from_slice(value);
    Ok(span)
}

/// Returns an array of values of at most 128 bits, given as their bytes.
///
/// # Errors
/// [`JoinError::Arrow`].
pub(super) fn fixed_array(
    data_type: &DataType,
    len: usize,
    buffer: Buffer,
    nulls: Option<NullBuffer>,
) -> JoinResult<ArrayRef> {
    let data = ArrayData::builder(data_type.clone())
        .len(len)
        .add_buffer(buffer)
        .nulls(nulls)
        .build()?;
    Ok(make_array(data))
}
