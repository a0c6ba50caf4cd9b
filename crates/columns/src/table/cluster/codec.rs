//! Rows as byte records, and back.
//!
//! A record is its length (u32), the length of its key (u32), the key, then for every column a byte (0 =
//! NULL) and, if it is not NULL, its key (u64) or the length (u32) and bytes of its string. The byte is 2 for
//! a decimal without a key, of which the 16 bytes of `wide.rs` follow. In the sort key a column is a byte (0
//! = NULL) if it may be NULL, and its key, highest byte first, or its string, in which 0 becomes 0 255, ended
//! by 0 0. A decimal has another byte first: 1 if it has a key, else 0 or 2, by its sign, and its 16 bytes.
//! No such column is the start of another, so comparing the bytes compares the columns in turn.

use crate::Result;
use crate::format::wide::{self, WIDE_BYTES};
use crate::read::bytes_array::{BytesBuilder, for_each_bytes};
use crate::table::accept::accept;
use crate::write::physical::{Native, Physical, append_keys, array_from_keys, native_values};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::{NullBuffer, NullBufferBuilder, ScalarBuffer};
use arrow_schema::SchemaRef;
use std::convert::Infallible;

/// Bytes before the key.
const HEAD: usize = 8;
/// The byte before a decimal without a key.
const WIDE: u8 = 2;

/// Returns the length in bytes of the record at the start of `bytes`.
pub(super) fn len(bytes: &[u8]) -> usize {
    word(bytes, 0)
}

/// Returns the sort key of a record.
pub(super) fn key(record: &[u8]) -> &[u8] {
    &record[HEAD..HEAD + word(record, 4)]
}

fn word(bytes: &[u8], at: usize) -> usize {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word) as usize
}

/// How the rows of a table become records.
pub(super) struct RowCodec {
    schema: SchemaRef,
    physical: Vec<Physical>,
    /// The clustering columns.
    sorted_by: Vec<usize>,
}

/// A column of a batch, ready for row by row.
struct PreparedColumn {
    nulls: Option<NullBuffer>,
    values: ColumnValues,
}

enum ColumnValues {
    Keys(Vec<u64>),
    Decimals(ScalarBuffer<i128>),
    /// Ends of the strings in the bytes.
    Strings(Vec<u8>, Vec<usize>),
}

impl PreparedColumn {
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

/// A batch whose columns were accepted.
pub(super) struct PreparedRows(Vec<PreparedColumn>);

fn string<'a>(bytes: &'a [u8], ends: &[usize], row: usize) -> &'a [u8] {
    let start = if row == 0 { 0 } else { ends[row - 1] };
    &bytes[start..ends[row]]
}

impl RowCodec {
    /// Creates a codec for rows of `schema`, whose types have a physical form, sorted by the columns
    /// `sorted_by`.
    pub(super) fn new(schema: SchemaRef, sorted_by: Vec<usize>) -> Self {
        let fields = schema.fields().iter();
        let physical =
            fields.map(|field| Physical::from_data_type(field.data_type()).unwrap_or(Physical::Bytes));
        Self {
            physical: physical.collect(),
            schema,
            sorted_by,
        }
    }

    /// Checks the columns of a batch and converts them so that they can be encoded row by row. `first_row` is
    /// the number of its first row, for errors.
    ///
    /// # Errors
    /// As [`accept`].
    pub(super) fn prepare(&self, batch: &RecordBatch, first_row: u64) -> Result<PreparedRows> {
        let mut prepared = Vec::with_capacity(self.physical.len());
        let columns = self.schema.fields().iter().zip(&self.physical);
        for ((field, &physical), array) in columns.zip(batch.columns()) {
            let array = accept(field, array, first_row)?;
            let array = array.get();
            let values = if physical == Physical::I128 {
                ColumnValues::Decimals(native_values(&array.to_data()))
            } else if physical == Physical::Bytes {
                let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(array.len()));
                let never: Result<(), Infallible> = for_each_bytes(array, |value| {
                    bytes.extend_from_slice(value.unwrap_or_default());
                    ends.push(bytes.len());
                    Ok(())
                });
                never.unwrap_or_else(|never| match never {});
                ColumnValues::Strings(bytes, ends)
            } else {
                let mut values = Vec::with_capacity(array.len());
                append_keys(array, physical, &mut values).expect("only decimals lack keys");
                ColumnValues::Keys(values)
            };
            prepared.push(PreparedColumn {
                nulls: array.nulls().cloned(),
                values,
            });
        }
        Ok(PreparedRows(prepared))
    }

    /// Appends the record of a row.
    pub(super) fn encode(&self, rows: &PreparedRows, row: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        for &column in &self.sorted_by {
            let prepared = &rows.0[column];
            if self.schema.field(column).is_nullable() {
                out.push(u8::from(!prepared.is_null(row)));
                if prepared.is_null(row) {
                    continue;
                }
            }
            match &prepared.values {
                ColumnValues::Keys(keys) => out.extend_from_slice(&keys[row].to_be_bytes()),
                ColumnValues::Decimals(values) => match values[row] {
                    wide if wide::is_wide(wide) => {
                        out.push(if wide < 0 { 0 } else { 2 });
                        out.extend_from_slice(&wide::to_bytes(wide));
                    }
                    value => {
                        out.push(1);
                        out.extend_from_slice(&value.key().to_be_bytes());
                    }
                },
                ColumnValues::Strings(bytes, ends) => {
                    for &byte in string(bytes, ends, row) {
                        out.push(byte);
                        if byte == 0 {
                            out.push(u8::MAX);
                        }
                    }
                    out.extend_from_slice(&[0, 0]);
                }
            }
        }
        let key_len = out.len() - start - HEAD;
        for prepared in &rows.0 {
            out.push(u8::from(!prepared.is_null(row)));
            if prepared.is_null(row) {
                continue;
            }
            match &prepared.values {
                ColumnValues::Keys(keys) => out.extend_from_slice(&keys[row].to_le_bytes()),
                ColumnValues::Decimals(values) => match values[row] {
                    wide if wide::is_wide(wide) => {
                        *out.last_mut().expect("it was pushed") = WIDE;
                        out.extend_from_slice(&wide::to_bytes(wide));
                    }
                    value => out.extend_from_slice(&value.key().to_le_bytes()),
                },
                ColumnValues::Strings(bytes, ends) => {
                    let string = string(bytes, ends, row);
                    out.extend_from_slice(&(string.len() as u32).to_le_bytes());
                    out.extend_from_slice(string);
                }
            }
        }
        // Arrow's strings are below 2 GiB, but several of them make a row.
        let len = u32::try_from(out.len() - start).expect("a row is shorter than 4 GiB");
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
        out[start + 4..start + HEAD].copy_from_slice(&(key_len as u32).to_le_bytes());
    }

    /// Creates a decoder whose batches have at most about `batch_bytes` bytes.
    pub(super) fn decoder(&self, batch_bytes: usize) -> Decoder<'_> {
        Decoder {
            codec: self,
            columns: self.builders(),
            rows: 0,
            bytes: 0,
            batch_bytes,
        }
    }

    fn builders(&self) -> Vec<Builder> {
        let fields = self.schema.fields().iter().zip(&self.physical);
        let builder = |(field, physical): (&arrow_schema::FieldRef, &Physical)| match physical {
            Physical::Bytes => Builder::Strings(BytesBuilder::new(field.data_type(), super::BATCH_ROWS)),
            Physical::I128 => Builder::Decimals(BytesBuilder::new(field.data_type(), super::BATCH_ROWS)),
            _ => Builder::Keys(Vec::new(), NullBufferBuilder::new(super::BATCH_ROWS)),
        };
        fields.map(builder).collect()
    }
}

enum Builder {
    Keys(Vec<u64>, NullBufferBuilder),
    Decimals(BytesBuilder),
    Strings(BytesBuilder),
}

/// Makes batches of records.
pub(super) struct Decoder<'a> {
    codec: &'a RowCodec,
    columns: Vec<Builder>,
    rows: usize,
    bytes: usize,
    batch_bytes: usize,
}

impl Decoder<'_> {
    /// Takes a record, and hands a batch on when there is one.
    pub(super) fn push(
        &mut self,
        record: &[u8],
        each: &mut impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut at = HEAD + word(record, 4);
        for column in &mut self.columns {
            let (valid, wide) = (record[at] != 0, record[at] == WIDE);
            at += 1;
            match column {
                Builder::Keys(keys, nulls) => {
                    nulls.append(valid);
                    let mut key = [0; 8];
                    if valid {
                        key.copy_from_slice(&record[at..at + 8]);
                        at += 8;
                    }
                    keys.push(u64::from_le_bytes(key));
                }
                Builder::Decimals(builder) if wide => {
                    builder.push(&record[at..at + WIDE_BYTES]);
                    at += WIDE_BYTES;
                }
                Builder::Decimals(builder) if valid => {
                    let mut key = [0; 8];
                    key.copy_from_slice(&record[at..at + 8]);
                    at += 8;
                    builder.push(&wide::to_bytes(i128::value(u64::from_le_bytes(key))));
                }
                Builder::Strings(builder) if valid => {
                    let end = at + 4 + word(record, at);
                    builder.push(&record[at + 4..end]);
                    at = end;
                }
                Builder::Strings(builder) | Builder::Decimals(builder) => builder.push_null(),
            }
        }
        self.rows += 1;
        self.bytes += record.len();
        if self.rows == super::BATCH_ROWS || self.bytes >= self.batch_bytes {
            self.flush(each)?;
        }
        Ok(())
    }

    /// Hands on what is left.
    pub(super) fn flush(&mut self, each: &mut impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let codec = self.codec;
        let builders = std::mem::replace(&mut self.columns, codec.builders());
        let fields = codec.schema.fields().iter().zip(&codec.physical);
        let arrays = builders
            .into_iter()
            .zip(fields)
            .map(|(builder, (field, physical))| {
                Ok::<ArrayRef, crate::ColumnsError>(match builder {
                    Builder::Keys(keys, mut nulls) => {
                        array_from_keys(field.data_type(), *physical, &keys, nulls.finish())?
                    }
                    Builder::Strings(builder) | Builder::Decimals(builder) => builder.finish()?,
                })
            });
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let schema = SchemaRef::clone(&codec.schema);
        let batch = RecordBatch::try_new_with_options(schema, arrays.collect::<Result<_>>()?, &options)?;
        (self.rows, self.bytes) = (0, 0);
        each(&batch)
    }
}
