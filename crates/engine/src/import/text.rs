//! CSV and tbl files.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow_csv::ReaderBuilder;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use regex::Regex;

use super::diagnose::{first_fault, open_quote};
use super::dialect::Dialect;
use super::error::{ImportError, ImportFault, Place};
use super::files::{BatchSize, fixed_bytes};
use super::infer::column_names;
use super::input::{Bytes, Counted, Input, fault, open, unreadable};
use crate::storable::to_schema;

/// Bytes of a file that tell how long its lines are.
const SAMPLE: usize = 256 << 10;
/// A byte that stands in no text: arrow-csv cannot be told not to quote.
const NO_QUOTE: u8 = 0;

/// Opens a text file with the given columns.
pub(crate) fn read(
    path: &Path,
    dialect: Dialect,
    schema: SchemaRef,
    batch: BatchSize,
    bytes: Bytes,
) -> Result<Input, ImportError> {
    if dialect.header {
        check_header(path, &dialect, &schema)?;
    }
    let batch_rows = batch.rows(row_bytes(path, &schema)?);
    let odd = Arc::new(AtomicBool::new(false));
    let source = Quotes {
        inner: Counted::new(open(path)?, bytes),
        odd: Arc::clone(&odd),
    };
    let reader = decoder(&dialect, &schema, batch_rows)
        .and_then(|builder| builder.build_buffered(BufReader::with_capacity(1 << 20, source)))
        .map_err(|e| fault(path, Place::File, ImportFault::Other(e.to_string())))?;
    let lines = Lines {
        path: path.to_path_buf(),
        dialect,
        schema: schema.clone(),
        reader: Some(reader),
        odd,
    };
    Ok(Input {
        schema,
        batches: Box::new(lines),
    })
}

/// Bytes that a row takes while it is decoded, about: by the first lines.
fn row_bytes(path: &Path, schema: &Schema) -> Result<u64, ImportError> {
    let mut head = Vec::with_capacity(SAMPLE);
    let read = open(path)?.take(SAMPLE as u64).read_to_end(&mut head);
    read.map_err(|e| unreadable(path, &e))?;
    let lines = head.iter().filter(|byte| **byte == b'\n').count().max(1);
    // The text, its values' places, and the arrays.
    Ok(2 * (head.len() / lines) as u64 + 8 * schema.fields().len() as u64 + fixed_bytes(schema))
}

/// The header line must name the columns of the schema, in their order.
fn check_header(path: &Path, dialect: &Dialect, schema: &SchemaRef) -> Result<(), ImportError> {
    let names = column_names(path, dialect)?;
    let same = names.len() == schema.fields().len()
        && names
            .iter()
            .zip(schema.fields())
            .all(|(name, field)| name.eq_ignore_ascii_case(field.name()));
    if same {
        return Ok(());
    }
    let expected: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    let text = format!(
        "the header line names {} instead of {}",
        names.join(", "),
        expected.join(", ")
    );
    Err(fault(path, Place::Line(1), ImportFault::SchemaMismatch(text)))
}

fn decoder(dialect: &Dialect, schema: &SchemaRef, batch_rows: usize) -> Result<ReaderBuilder, ArrowError> {
    // NULLs in NOT NULL columns are refused with their place, which the decoder does not know.
    let decoded = |field: &Arc<Field>| Field::new(field.name(), decoded_type(field.data_type()), true);
    let mut fields: Vec<Field> = schema.fields().iter().map(decoded).collect();
    let columns = fields.len();
    if dialect.trailing {
        fields.push(Field::new("", DataType::Utf8, true));
    }
    let mut builder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
        .with_header(dialect.header)
        .with_delimiter(dialect.delimiter)
        .with_quote(if dialect.quoting { b'"' } else { NO_QUOTE })
        .with_batch_size(batch_rows);
    if dialect.trailing {
        builder = builder.with_projection((0..columns).collect());
    }
    if !dialect.null.is_empty() {
        let exactly = format!("^{}$", regex::escape(&dialect.null));
        let regex = Regex::new(&exactly).map_err(|e| ArrowError::ParseError(e.to_string()))?;
        builder = builder.with_null_regex(regex);
    }
    Ok(builder)
}

/// What the decoder makes of a column: it knows no bytes.
fn decoded_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::BinaryView => DataType::Utf8View,
        other => other.clone(),
    }
}

/// A reader that learns whether the number of quotes so far is odd.
struct Quotes<R> {
    inner: R,
    odd: Arc<AtomicBool>,
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(into)?;
        let quotes = into[..read].iter().filter(|byte| **byte == b'"').count();
        if quotes % 2 == 1 {
            self.odd.fetch_xor(true, Ordering::Relaxed);
        }
        Ok(read)
    }
}

/// Batches of a text file.
struct Lines<R> {
    path: PathBuf,
    dialect: Dialect,
    schema: SchemaRef,
    reader: Option<arrow_csv::reader::BufReader<BufReader<R>>>,
    odd: Arc<AtomicBool>,
}

impl<R: Read> Lines<R> {
    /// The batch with the schema's nullability: an empty text in a NOT NULL text column is an empty text.
    fn strict(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let filled = |(array, field): (&ArrayRef, &Arc<Field>)| {
            let empty = !field.is_nullable() && array.null_count() > 0 && self.dialect.null.is_empty();
            match array.as_string_view_opt() {
                Some(texts) if empty => Arc::new(
                    texts
                        .iter()
                        .map(|t| Some(t.unwrap_or("")))
                        .collect::<StringViewArray>(),
                ) as ArrayRef,
                _ => Arc::clone(array),
            }
        };
        let columns = batch
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(filled)
            .collect();
        to_schema(&RecordBatch::try_new(batch.schema(), columns)?, &self.schema)
    }

    /// The decoder's error, with the place where the file is wrong.
    fn explain(&self, error: &ArrowError) -> ImportError {
        first_fault(&self.path, &self.schema, &self.dialect)
            .unwrap_or_else(|| fault(&self.path, Place::File, ImportFault::Other(error.to_string())))
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = Result<RecordBatch, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.as_mut()?.next();
        let result = match batch {
            Some(Ok(batch)) => self.strict(&batch).map_err(|e| self.explain(&e)),
            Some(Err(error)) => Err(self.explain(&error)),
            None => {
                self.reader = None;
                let odd = self.dialect.quoting && self.odd.load(Ordering::Relaxed);
                return odd
                    .then(|| open_quote(&self.path, self.dialect.delimiter))
                    .flatten()
                    .map(Err);
            }
        };
        if result.is_err() {
            self.reader = None;
        }
        Some(result)
    }
}
