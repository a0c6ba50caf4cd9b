//! Decodes the records of a part of a file, only the columns that a query needs.
//!
//! Almost all parts are UTF-8 whose quoted fields have no line breaks: fields are found in place, without a
//! copy. All others, and those that are malformed, are read by the reader of imports ([`RecordReader`]),
//! which names the error.

use std::borrow::Cow;
use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use memchr::{memchr, memchr2};

use super::decode::{ColumnDecoder, decoder};
use super::dialect::{Dialect, TrailingDelimiter};
use super::infer::{Inference, TypeCandidate};
use super::records::{FieldText, RecordError, RecordReader, TextRecord};
use crate::error::ImportFault;

/// Bytes of a field that are looked at without a call.
const INLINE_SCAN_BYTES: usize = 24;

/// The columns to decode.
#[derive(Debug, Clone)]
pub(crate) struct ChunkColumns {
    /// Number of columns of the file.
    pub of_file: usize,
    /// The columns of the file that are decoded.
    pub projection: Vec<usize>,
    /// These columns.
    pub schema: SchemaRef,
    /// The forms of their values; `None` for text.
    pub forms: Vec<Option<TypeCandidate>>,
    /// True where no value is known yet: the first one decides whether the column is text.
    pub unknown: Vec<bool>,
}

/// An error in a part of a file.
#[derive(Debug)]
pub(crate) struct ChunkError {
    /// The line within the part, from 1.
    pub line: u64,
    /// The column among those that are decoded, where one is to blame.
    pub column: Option<usize>,
    pub fault: ChunkFault,
}

#[derive(Debug)]
pub(crate) enum ChunkFault {
    /// The part is malformed.
    Malformed(ImportFault),
    /// A value is not of the column's type.
    OtherType { value: Vec<u8>, quoted: bool },
}

/// Decodes the records of `bytes`.
///
/// # Errors
/// They are malformed, or a value is not of the column's type.
pub(crate) fn decode_chunk(
    bytes: &[u8],
    dialect: &Dialect,
    columns: &ChunkColumns,
) -> Result<RecordBatch, ChunkError> {
    let mut sinks = sinks(columns)?;
    let mut targets = vec![None; columns.of_file];
    for (i, column) in columns.projection.iter().enumerate() {
        targets[*column] = Some(i);
    }
    let in_place = match std::str::from_utf8(bytes) {
        Ok(text) => fields_in_place(text, dialect, &targets, &mut sinks),
        Err(_) => Err(Stop::Unusual),
    };
    let rows = match in_place {
        Ok(rows) => rows,
        Err(Stop::Other(error)) => return Err(error),
        Err(Stop::Unusual) => {
            sinks = self::sinks(columns)?;
            read_records(bytes, dialect, columns, &mut sinks)?
        }
    };
    let arrays: Vec<ArrayRef> = sinks.iter_mut().map(|sink| sink.decoder.finish()).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(columns.schema.clone(), arrays, &options);
    batch.map_err(|error: ArrowError| malformed(1, None, ImportFault::Other(error.to_string())))
}

fn malformed(line: u64, column: Option<usize>, fault: ImportFault) -> ChunkError {
    ChunkError {
        line,
        column,
        fault: ChunkFault::Malformed(fault),
    }
}

fn sinks(columns: &ChunkColumns) -> Result<Vec<ColumnSink>, ChunkError> {
    let fields = columns.schema.fields().iter().enumerate();
    let sink = |(i, field): (usize, &arrow_schema::FieldRef)| {
        let unsupported = || ImportFault::UnsupportedType(field.data_type().to_string());
        let decoder = decoder(field, columns.forms[i], None);
        Ok(ColumnSink {
            decoder: decoder.ok_or_else(|| malformed(1, Some(i), unsupported()))?,
            is_text: *field.data_type() == DataType::Utf8View,
            unknown: columns.unknown[i],
        })
    };
    fields.map(sink).collect()
}

/// Takes the fields of one column.
struct ColumnSink {
    decoder: Box<dyn ColumnDecoder>,
    is_text: bool,
    unknown: bool,
}

impl ColumnSink {
    /// Appends a field, whose bytes are `text`; false if it is not of the column's type.
    #[inline]
    fn append(&mut self, field: FieldText<'_>, text: &str, dialect: &Dialect) -> bool {
        let null = dialect.is_null(field) || (!self.is_text && field.quoted && field.bytes.is_empty());
        if null {
            self.decoder.append_null();
            return true;
        }
        if std::mem::take(&mut self.unknown) {
            let mut inference = Inference::default();
            inference.see(field, dialect, (Path::new(""), 1));
            if inference.is_typed() {
                return false;
            }
        }
        self.decoder.append(text)
    }
}

/// The reason why fields are not decoded in place any more.
enum Stop {
    /// The records must be read one by one.
    Unusual,
    Other(ChunkError),
}

/// Decodes the fields of `text` in place and returns the number of rows.
fn fields_in_place(
    text: &str,
    dialect: &Dialect,
    targets: &[Option<usize>],
    sinks: &mut [ColumnSink],
) -> Result<usize, Stop> {
    let bytes = text.as_bytes();
    let (quote, ending) = (dialect.separators.quote, dialect.separators.ending.byte());
    let (mut at, mut rows) = (0, 0);
    while at < bytes.len() {
        if targets.len() != 1 {
            match &bytes[at..] {
                [byte, ..] if *byte == ending => {
                    at += 1;
                    continue;
                }
                [b'\r', b'\n', ..] if ending == b'\n' => {
                    at += 2;
                    continue;
                }
                _ => {}
            }
        }
        let mut column = 0;
        loop {
            let quoted = quote.is_some() && bytes.get(at).copied() == quote;
            let found = if quoted {
                quoted_field(text, at, dialect).ok_or(Stop::Unusual)?
            } else {
                plain_field(text, at, dialect).ok_or(Stop::Unusual)?
            };
            match targets.get(column) {
                Some(Some(target)) => {
                    let value = &*found.value;
                    let field = FieldText {
                        bytes: value.as_bytes(),
                        quoted,
                    };
                    if !sinks[*target].append(field, value, dialect) {
                        return Err(Stop::Other(ChunkError {
                            line: 1 + memchr::memchr_iter(ending, &bytes[..at]).count() as u64,
                            column: Some(*target),
                            fault: ChunkFault::OtherType {
                                value: field.bytes.to_vec(),
                                quoted,
                            },
                        }));
                    }
                }
                Some(None) => {}
                None => {
                    let trailing = matches!(dialect.trailing, TrailingDelimiter::After(_));
                    if !trailing || column > targets.len() || !found.value.is_empty() {
                        return Err(Stop::Unusual);
                    }
                }
            }
            column += 1;
            at = found.next;
            if found.last {
                break;
            }
        }
        if column < targets.len() {
            return Err(Stop::Unusual);
        }
        rows += 1;
    }
    Ok(rows)
}

/// A field of a record.
struct FoundField<'a> {
    value: Cow<'a, str>,
    /// It is the last one of its record.
    last: bool,
    /// Where the next one begins.
    next: usize,
}

/// Returns the field without quotes at `at`.
#[inline]
fn plain_field<'a>(text: &'a str, at: usize, dialect: &Dialect) -> Option<FoundField<'a>> {
    let bytes = text.as_bytes();
    let (delimiter, ending) = (dialect.separators.delimiter, dialect.separators.ending.byte());
    let rest = &bytes[at..];
    let end = find_either(rest, delimiter, ending);
    let Some(end) = end else {
        return Some(FoundField {
            value: Cow::Borrowed(text.get(at..)?),
            last: true,
            next: bytes.len(),
        });
    };
    let last = rest[end] != delimiter;
    let returns = last && ending == b'\n' && rest[..end].last() == Some(&b'\r');
    Some(FoundField {
        value: Cow::Borrowed(text.get(at..at + end - usize::from(returns))?),
        last,
        next: at + end + 1,
    })
}

/// Returns the place of the first of two bytes. Most fields are short: eight bytes at a time are compared in
/// a register, before a call that looks at more of them at once.
#[inline]
fn find_either(bytes: &[u8], one: u8, other: u8) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // The lowest bit that is set is that of a zero byte.
    let zeros = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let mut at = 0;
    while at < INLINE_SCAN_BYTES
        && let Some(word) = bytes[at..].first_chunk()
    {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ (LOW * u64::from(one))) | zeros(word ^ (LOW * u64::from(other)));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr2(one, other, &bytes[at..]).map(|found| at + found)
}

/// Returns the quoted field at `at`; `None` if it has line breaks or is malformed.
fn quoted_field<'a>(text: &'a str, at: usize, dialect: &Dialect) -> Option<FoundField<'a>> {
    let bytes = text.as_bytes();
    let (delimiter, ending) = (dialect.separators.delimiter, dialect.separators.ending.byte());
    let quote = dialect.separators.quote?;
    let start = at + 1;
    let mut close = start + memchr(quote, bytes.get(start..)?)?;
    let mut doubled = false;
    while bytes.get(close + 1) == Some(&quote) {
        doubled = true;
        close += 2 + memchr(quote, bytes.get(close + 2..)?)?;
    }
    let inner = text.get(start..close)?;
    if memchr(ending, inner.as_bytes()).is_some() {
        return None;
    }
    let (last, next) = match &bytes[close + 1..] {
        [] => (true, close + 1),
        [byte, ..] if *byte == delimiter => (false, close + 2),
        [byte, ..] if *byte == ending => (true, close + 2),
        [b'\r', b'\n', ..] if ending == b'\n' => (true, close + 3),
        _ => return None,
    };
    let value = if doubled {
        let quote = char::from(quote).to_string();
        Cow::Owned(inner.replace(&quote.repeat(2), &quote))
    } else {
        Cow::Borrowed(inner)
    };
    Some(FoundField { value, last, next })
}

/// Decodes the records of `bytes` one by one and returns their number.
fn read_records(
    bytes: &[u8],
    dialect: &Dialect,
    columns: &ChunkColumns,
    sinks: &mut [ColumnSink],
) -> Result<usize, ChunkError> {
    let mut reader = RecordReader::within(bytes, dialect.separators);
    reader.expect_columns(columns.of_file);
    let (mut record, mut rows) = (TextRecord::default(), 0);
    loop {
        match reader.read(&mut record) {
            Ok(true) => rows += 1,
            Ok(false) => return Ok(rows),
            Err(RecordError::Malformed { line, fault, .. }) => return Err(malformed(line, None, fault)),
            Err(RecordError::Io(error)) => {
                return Err(malformed(1, None, ImportFault::Unreadable(error.to_string())));
            }
        }
        let (found, expected) = (dialect.columns(&record), columns.of_file);
        if found != expected {
            let fault = ImportFault::ColumnCount { found, expected };
            return Err(malformed(record.line(), None, fault));
        }
        for (i, (column, sink)) in columns.projection.iter().zip(&mut *sinks).enumerate() {
            let field = record.field(*column);
            let text = std::str::from_utf8(field.bytes)
                .map_err(|_| malformed(record.line(), Some(i), ImportFault::InvalidUtf8))?;
            if !sink.append(field, text, dialect) {
                return Err(ChunkError {
                    line: record.line(),
                    column: Some(i),
                    fault: ChunkFault::OtherType {
                        value: field.bytes.to_vec(),
                        quoted: field.quoted,
                    },
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_bytes_is_found_at_each_place() {
        for len in 0..60 {
            // The byte above one that is searched, and one with its highest bit set, are none of them.
            let mut bytes = vec![b'-'; len];
            bytes.iter_mut().step_by(3).for_each(|byte| *byte = 0xAC);
            assert_eq!(find_either(&bytes, b',', b'\n'), None);
            for at in 0..len {
                for found in [b',', b'\n'] {
                    let mut bytes = bytes.clone();
                    bytes[at] = found;
                    if at + 2 < len {
                        bytes[at + 2] = b',';
                    }
                    assert_eq!(find_either(&bytes, b',', b'\n'), Some(at), "{at} of {len}");
                }
            }
        }
    }
}
