//! Rows of one side: from arrays, and to arrays.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, GenericBinaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, BooleanArray, GenericBinaryArray, GenericStringArray, OffsetSizeTrait};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType};

use super::key::{KeyBatch, KeyValues};
use super::layout::{BitField, ColumnLayout, FieldStorage, KeyForm, RowLayout, Span};
use super::values::{append_bytes, fixed_array, for_each_value, write_fixed};
use crate::{JoinError, JoinResult};

/// Some rows and the bytes of their variable-length values.
#[derive(Debug, Default, Clone)]
pub(super) struct RowBlock {
    pub(super) words: Vec<u64>,
    pub(super) bytes: Vec<u8>,
    /// Hash of each key.
    pub(super) hashes: Vec<u64>,
}

impl RowBlock {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.bytes.clear();
        self.hashes.clear();
    }

    /// Computes the hashes.
    pub(super) fn hash(&mut self, layout: &RowLayout) {
        self.hashes.clear();
        let rows = self.words.chunks_exact(layout.stride);
        self.hashes.extend(rows.map(|row| layout.hash(row)));
    }
}

impl RowLayout {
    /// Makes rows of the selected rows of a batch, given as its keys and payload columns.
    ///
    /// # Errors
    /// [`JoinError::Arrow`], [`JoinError::ValueTooLong`].
    pub(super) fn encode(
        &self,
        keys: &KeyBatch,
        columns: &[ArrayRef],
        selection: &[u32],
        block: &mut RowBlock,
    ) -> JoinResult<()> {
        block.clear();
        let stride = self.stride;
        block.words.resize(selection.len() * stride, 0);
        let hashes = selection.iter().map(|row| keys.hashes[*row as usize]);
        block.hashes.extend(hashes);
        let rows = block.words.chunks_exact_mut(stride).zip(selection);
        match &keys.keys {
            KeyValues::Words(1, words) => rows.for_each(|(row, at)| row[0] = words[*at as usize]),
            KeyValues::Words(width, words) => {
                for (row, at) in rows {
                    let from = *at as usize * width;
                    row[..*width].copy_from_slice(&words[from..from + width]);
                }
            }
            KeyValues::Bytes(spans, bytes) => {
                for (row, at) in rows {
                    let at = *at as usize;
                    row[0] = keys.hashes[at];
                    row[1] = append_bytes(spans[at].slice(bytes), &mut block.bytes)?.0;
                }
            }
        }
        for (column, array) in self.columns.iter().zip(columns) {
            self.encode_column(column, array, selection, block)?;
        }
        Ok(())
    }

    fn encode_column(
        &self,
        column: &ColumnLayout,
        array: &ArrayRef,
        selection: &[u32],
        block: &mut RowBlock,
    ) -> JoinResult<()> {
        let (stride, words) = (self.stride, &mut block.words);
        if let Some(field) = column.valid {
            let nulls = array.nulls();
            for (row, at) in words.chunks_exact_mut(stride).zip(selection) {
                let valid = nulls.is_none_or(|nulls| nulls.is_valid(*at as usize));
                field.put(row, u64::from(valid));
            }
        } else if array.null_count() > 0 && !matches!(column.storage, FieldStorage::Encoded(_)) {
            return Err(JoinError::Unsupported(
                "a column that is declared as NOT NULL holds a NULL",
            ));
        }
        match column.storage {
            FieldStorage::Bool(field) | FieldStorage::Fixed(field) => {
                write_fixed(array, field, stride, Some(selection), words);
            }
            FieldStorage::Wide([low, high]) => {
                let values = array.as_primitive::<Decimal128Type>().values();
                for (row, at) in words.chunks_exact_mut(stride).zip(selection) {
                    let value = values[*at as usize] as u128;
                    low.put(row, value as u64);
                    high.put(row, (value >> 64) as u64);
                }
            }
            FieldStorage::Bytes(field) => for_each_value(array, Some(selection), |number, value| {
                words[number * stride + field.word] = append_bytes(value, &mut block.bytes)?.0;
                Ok(())
            })?,
            FieldStorage::Encoded(field) => {
                let converter = RowConverter::new(vec![SortField::new(column.data_type.clone())])?;
                let rows = converter.convert_columns(std::slice::from_ref(array))?;
                for (row, at) in words.chunks_exact_mut(stride).zip(selection) {
                    let value = rows.row(*at as usize);
                    row[field.word] = append_bytes(value.as_ref(), &mut block.bytes)?.0;
                }
            }
        }
        Ok(())
    }

    /// Returns a column of some rows. `bytes_of` returns the bytes of a span of a row.
    ///
    /// # Errors
    /// [`JoinError::Arrow`].
    pub(super) fn decode<'b>(
        &self,
        column: usize,
        words: &[u64],
        bytes_of: &dyn Fn(usize, Span) -> &'b [u8],
    ) -> JoinResult<ArrayRef> {
        let column = &self.columns[column];
        let len = words.len() / self.stride;
        let get = |field: BitField| words.chunks_exact(self.stride).map(move |row| field.get(row));
        let nulls = column.valid.map(|field| {
            let valid = BooleanBuffer::collect_bool(len, |row| field.get(&words[row * self.stride..]) != 0);
            NullBuffer::new(valid)
        });
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let data_type = &column.data_type;
        match column.storage {
            FieldStorage::Bool(field) => {
                let at = |row: usize| field.get(&words[row * self.stride..]) != 0;
                Ok(Arc::new(BooleanArray::new(
                    BooleanBuffer::collect_bool(len, at),
                    nulls,
                )))
            }
            FieldStorage::Fixed(field) => {
                let buffer = match field.bits {
                    8 => Buffer::from_vec(get(field).map(|value| value as u8).collect::<Vec<_>>()),
                    16 => Buffer::from_vec(get(field).map(|value| value as u16).collect::<Vec<_>>()),
                    32 => Buffer::from_vec(get(field).map(|value| value as u32).collect::<Vec<_>>()),
                    _ => Buffer::from_vec(get(field).collect::<Vec<_>>()),
                };
                fixed_array(data_type, len, buffer, nulls)
            }
            FieldStorage::Wide([low, high]) => {
                let halves = get(low).zip(get(high));
                let values = halves.map(|(low, high)| (u128::from(high) << 64 | u128::from(low)) as i128);
                fixed_array(
                    data_type,
                    len,
                    Buffer::from_vec(values.collect::<Vec<_>>()),
                    nulls,
                )
            }
            FieldStorage::Bytes(field) => {
                let value = |row: usize| {
                    let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                    valid.then(|| bytes_of(row, Span(words[row * self.stride + field.word])))
                };
                bytes_array(data_type, len, &value)
            }
            FieldStorage::Encoded(field) => {
                let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
                let parser = converter.parser();
                let value = |row: usize| bytes_of(row, Span(words[row * self.stride + field.word]));
                let rows = (0..len).map(|row| parser.parse(value(row)));
                let mut arrays = converter.convert_rows(rows)?;
                arrays.pop().ok_or(JoinError::UnsupportedType {
                    data_type: data_type.clone(),
                })
            }
        }
    }

    /// Returns the keys of a block's rows, and its columns.
    ///
    /// # Errors
    /// [`JoinError::Arrow`].
    pub(super) fn decode_block(&self, block: RowBlock) -> JoinResult<(KeyBatch, Vec<ArrayRef>)> {
        let bytes_of = |_: usize, span: Span| span.slice(&block.bytes);
        let columns = (0..self.columns.len()).map(|column| self.decode(column, &block.words, &bytes_of));
        let columns = columns.collect::<JoinResult<_>>()?;
        let rows = block.words.chunks_exact(self.stride);
        let keys = match self.key {
            KeyForm::Words(width) if width == self.stride => KeyValues::Words(width, block.words),
            KeyForm::Words(width) => {
                KeyValues::Words(width, rows.flat_map(|row| row[..width].iter().copied()).collect())
            }
            KeyForm::Bytes => KeyValues::Bytes(rows.map(|row| Span(row[1])).collect(), block.bytes),
        };
        let batch = KeyBatch {
            hashes: block.hashes,
            keys,
            nulls: None,
        };
        Ok((batch, columns))
    }
}

fn bytes_array<'b>(
    data_type: &DataType,
    len: usize,
    value: &dyn Fn(usize) -> Option<&'b [u8]>,
) -> JoinResult<ArrayRef> {
    fn binary<'b, O: OffsetSizeTrait>(
        len: usize,
        value: &dyn Fn(usize) -> Option<&'b [u8]>,
    ) -> JoinResult<GenericBinaryArray<O>> {
        let bytes: usize = (0..len).filter_map(value).map(<[u8]>::len).sum();
        if O::from_usize(bytes).is_none() {
            return Err(ArrowError::OffsetOverflowError(bytes).into());
        }
        let mut builder = GenericBinaryBuilder::with_capacity(len, bytes);
        (0..len).for_each(|row| builder.append_option(value(row)));
        Ok(builder.finish())
    }
    let views = || {
        let mut builder = BinaryViewBuilder::with_capacity(len);
        (0..len).for_each(|row| builder.append_option(value(row)));
        builder.finish()
    };
    Ok(match data_type {
        DataType::Utf8 => Arc::new(GenericStringArray::<i32>::try_from_binary(binary(len, value)?)?),
        DataType::LargeUtf8 => Arc::new(GenericStringArray::<i64>::try_from_binary(binary(len, value)?)?),
        DataType::Binary => Arc::new(binary::<i32>(len, value)?),
        DataType::LargeBinary => Arc::new(binary::<i64>(len, value)?),
        DataType::Utf8View => Arc::new(views().to_string_view()?),
        _ => Arc::new(views()),
    })
}
