//! CSV and tbl files.

mod canonical;
mod chunk_rows;
mod chunks;
mod decode;
mod dialect;
mod header;
mod infer;
mod names;
mod records;
mod sample;
mod sniff;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::timezone::Tz;
use arrow_schema::{DataType, SchemaRef};
use halocline_values::sql_name;

use self::decode::{ColumnDecoder, decoder};
use self::dialect::{FileRecords, TrailingDelimiter};
use self::records::TextRecord;
use super::error::{ImportError, ImportFault, SourceLocation};
use super::files::BatchSize;
use super::input::{BytesRead, CountingReader, Input, fault, open};

pub(crate) use canonical::SlashedDate;
pub(crate) use chunk_rows::{ChunkColumns, ChunkError, ChunkFault, decode_chunk};
pub(crate) use chunks::{ChunkReader, TextChunk};
pub(crate) use dialect::Dialect;
pub(crate) use infer::{Inference, InferredColumns, TypeCandidate, column_names, infer};
pub(crate) use records::FieldText;
pub(crate) use sample::{see_all, see_sample};
pub(crate) use sniff::sniff;

/// Characters of a wrong value that an error shows.
const MAX_SHOWN_CHARS: usize = 60;

/// Columns of a table that a text file is read into.
#[derive(Debug, Clone)]
pub(crate) struct TextColumns {
    /// Names and types.
    pub schema: SchemaRef,
    /// For each column whose type was inferred, the form of its values; beyond the end none.
    pub forms: Arc<[Option<TypeCandidate>]>,
    /// The time zone of timestamps that name none, in columns with time zone; UTC if none.
    pub zone: Option<Tz>,
}

/// Opens a text file with the given columns.
pub(crate) fn read(
    path: &Path,
    dialect: Dialect,
    columns: TextColumns,
    batch: BatchSize,
    bytes: BytesRead,
) -> Result<Input, ImportError> {
    let TextColumns { schema, forms, zone } = columns;
    if dialect.header {
        check_header(path, &dialect, &schema)?;
    }
    let decoders = schema.fields().iter().enumerate().map(|(i, field)| {
        decoder(field, forms.get(i).copied().flatten(), zone).ok_or_else(|| ImportError {
            column: Some(field.name().clone()),
            ..fault(
                path,
                SourceLocation::File,
                ImportFault::UnsupportedType(sql_name(field.data_type())),
            )
        })
    });
    let decoders = decoders.collect::<Result<Vec<_>, _>>()?;
    let rows = dialect.rows(
        path,
        CountingReader::new(open(path)?, bytes),
        schema.fields().len(),
    )?;
    let lines = TextBatches {
        path: path.to_path_buf(),
        dialect,
        schema: schema.clone(),
        rows,
        decoders,
        batch,
        ended: false,
    };
    Ok(Input {
        schema,
        batches: Box::new(lines),
    })
}

/// Returns the header line must name the columns of the schema, in their order.
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
    Err(fault(
        path,
        SourceLocation::Line(1),
        ImportFault::SchemaMismatch(text),
    ))
}

/// Batches of a text file.
struct TextBatches<R> {
    path: PathBuf,
    dialect: Dialect,
    schema: SchemaRef,
    rows: FileRecords<R>,
    decoders: Vec<Box<dyn ColumnDecoder>>,
    batch: BatchSize,
    ended: bool,
}

impl<R: std::io::Read> TextBatches<R> {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ImportError> {
        let mut record = TextRecord::default();
        let (mut rows, mut bytes) = (0, 0);
        // A batch has at least one row, however long it is.
        while !self.ended && (rows == 0 || self.batch.has_room(rows, bytes)) {
            if !self.rows.read(&mut record)? {
                self.ended = true;
                break;
            }
            self.decode(&record)?;
            rows += 1;
            bytes += record.byte_len() + 16 * self.decoders.len();
        }
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.decoders.iter_mut().map(|column| column.finish()).collect();
        RecordBatch::try_new(self.schema.clone(), columns)
            .map(Some)
            .map_err(|e| {
                fault(
                    &self.path,
                    SourceLocation::Line(record.line()),
                    ImportFault::Other(e.to_string()),
                )
            })
    }

    fn decode(&mut self, record: &TextRecord) -> Result<(), ImportError> {
        let place = SourceLocation::Line(record.line());
        let (found, expected) = (self.dialect.columns(record), self.decoders.len());
        if found != expected {
            return Err(fault(
                &self.path,
                place,
                ImportFault::ColumnCount { found, expected },
            ));
        }
        for (i, decoder) in self.decoders.iter_mut().enumerate() {
            let (value, field) = (record.field(i), self.schema.field(i));
            let wrong = |fault| ImportError {
                file: self.path.clone(),
                place,
                column: Some(field.name().clone()),
                fault,
            };
            let is_text = matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
            // A quoted empty value is an empty text, and NULL in a column of another type.
            let null = self.dialect.is_null(value) || (!is_text && value.quoted && value.bytes.is_empty());
            if null {
                match field.is_nullable() {
                    true => decoder.append_null(),
                    false if is_text && value.bytes.is_empty() => _ = decoder.append(""),
                    false => return Err(wrong(ImportFault::UnexpectedNull)),
                }
                continue;
            }
            let text = std::str::from_utf8(value.bytes).map_err(|_| wrong(ImportFault::InvalidUtf8))?;
            if !decoder.append(text) {
                return Err(wrong(ImportFault::BadValue {
                    value: shortened(text),
                    expected: sql_name(field.data_type()),
                }));
            }
        }
        if self.dialect.trailing == TrailingDelimiter::Always && found == record.len() {
            let reason = "the line does not end in a delimiter".into();
            Err(fault(&self.path, place, ImportFault::Truncated(reason)))
        } else {
            Ok(())
        }
    }
}

impl<R: std::io::Read> Iterator for TextBatches<R> {
    type Item = Result<RecordBatch, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let batch = self.next_batch();
        self.ended |= batch.is_err();
        batch.transpose()
    }
}

/// Returns the beginning of a value, for an error.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}
