//! Finds the first fault of a text file, with its line and column. Runs only after a decoder has refused the file, so
//! that it may take its time.

use std::io::{BufReader, Read};
use std::path::Path;

use arrow_schema::{DataType, SchemaRef};

use super::dialect::{Dialect, broken};
use super::error::{ImportError, ImportFault, Place};
use super::input::{fault, open};
use super::value::{is_value, sql_name};

/// The first fault of the file; none if every line is well formed after all.
pub(crate) fn first_fault(path: &Path, schema: &SchemaRef, dialect: &Dialect) -> Option<ImportError> {
    if dialect.quoting
        && let Some(error) = open_quote(path, dialect.delimiter)
    {
        return Some(error);
    }
    let file = match open(path) {
        Ok(file) => file,
        Err(error) => return Some(error),
    };
    let mut reader = dialect.records(file);
    let mut record = csv::ByteRecord::new();
    let mut header = dialect.header;
    loop {
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(broken(path, &error)),
        }
        let line = record.position().map_or(0, csv::Position::line);
        if std::mem::take(&mut header) {
            continue;
        }
        if let Some(error) = record_fault(path, line, &record, schema, dialect) {
            return Some(error);
        }
    }
}

fn record_fault(
    path: &Path,
    line: u64,
    record: &csv::ByteRecord,
    schema: &SchemaRef,
    dialect: &Dialect,
) -> Option<ImportError> {
    let place = Place::Line(line);
    let (found, expected) = (dialect.columns(record), schema.fields().len());
    let unended = dialect.trailing && found == record.len();
    if found != expected {
        return Some(fault(path, place, ImportFault::ColumnCount { found, expected }));
    }
    for (value, field) in record.iter().zip(schema.fields()) {
        let wrong = |fault| {
            Some(ImportError {
                file: path.to_path_buf(),
                place,
                column: Some(field.name().clone()),
                fault,
            })
        };
        let Ok(text) = std::str::from_utf8(value) else {
            return wrong(ImportFault::InvalidUtf8);
        };
        let text_column = *field.data_type() == DataType::Utf8View;
        if text == dialect.null && !(text_column && text.is_empty() && !field.is_nullable()) {
            if !field.is_nullable() {
                return wrong(ImportFault::UnexpectedNull);
            }
        } else if !is_value(text, field.data_type()) {
            return wrong(ImportFault::BadValue {
                value: shortened(text),
                expected: sql_name(field.data_type()),
            });
        }
    }
    unended.then(|| {
        fault(
            path,
            place,
            ImportFault::Truncated("the line does not end in a delimiter".into()),
        )
    })
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// The quote that opens a value and never closes, if there is one.
pub(crate) fn open_quote(path: &Path, delimiter: u8) -> Option<ImportError> {
    #[derive(PartialEq)]
    enum At {
        Start,
        Plain,
        Quoted,
        /// After a quote inside quotes: the end, or the first of two that stand for one.
        Closing,
    }
    let (mut at, mut line, mut opened) = (At::Start, 1u64, 1u64);
    for byte in BufReader::with_capacity(1 << 20, open(path).ok()?).bytes() {
        let byte = byte.ok()?;
        at = match (at, byte) {
            (At::Start, b'"') => {
                opened = line;
                At::Quoted
            }
            (At::Quoted, b'"') => At::Closing,
            (At::Quoted, _) => At::Quoted,
            (At::Closing, b'"') => At::Quoted,
            (_, b'\n' | b'\r') => At::Start,
            (_, byte) if byte == delimiter => At::Start,
            _ => At::Plain,
        };
        line += u64::from(byte == b'\n');
    }
    (at == At::Quoted).then(|| fault(path, Place::Line(opened), ImportFault::OpenQuote))
}
