//! Shape of a text file: what separates and quotes its fields, and whether its first line names the columns.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::records::{FieldText, LineEnding, RecordError, RecordReader, Separators, TextRecord};
use crate::error::{ImportError, SourceLocation};
use crate::input::{fault, open, unreadable};

/// A delimiter at the ends of lines, after which there is no field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrailingDelimiter {
    /// What follows the last delimiter is a field.
    Never,
    /// Lines of more than this number of fields end in one, as where only the header or only the other lines
    /// do.
    After(usize),
    /// All lines end in one, as the generators of the TPC write them.
    Always,
}

/// The shape of a text file.
#[derive(Debug, Clone)]
pub struct Dialect {
    /// The separator and the quote of its fields.
    pub separators: Separators,
    /// True if the first line names the columns.
    pub header: bool,
    /// The reason for this decision about the header.
    pub header_reason: String,
    /// Whether lines end in a delimiter.
    pub trailing: TrailingDelimiter,
    /// The texts for NULL.
    pub nulls: Vec<String>,
}

impl Dialect {
    /// Returns the dialect of a tbl file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_tbl(path: &Path, delimiter: u8, nulls: Vec<String>) -> Result<Self, ImportError> {
        Ok(Self {
            separators: Separators {
                delimiter,
                quote: None,
                ending: LineEnding::Lf,
                trust_quote: true,
            },
            header: false,
            header_reason: "tbl files have none".into(),
            trailing: if first_line_ends_in(path, delimiter)? {
                TrailingDelimiter::Always
            } else {
                TrailingDelimiter::Never
            },
            nulls,
        })
    }

    /// Returns true if the field stands for NULL. A quoted field never does.
    pub fn is_null(&self, field: FieldText<'_>) -> bool {
        !field.quoted && self.nulls.iter().any(|null| null.as_bytes() == field.bytes)
    }

    /// Reads the rows of the file, without its header line, for a table of `columns` columns.
    ///
    /// # Errors
    /// The header line cannot be read.
    pub fn rows<R: Read>(
        &self,
        path: &Path,
        input: R,
        columns: usize,
    ) -> Result<FileRecords<R>, ImportError> {
        let mut rows = FileRecords {
            path: path.to_path_buf(),
            records: RecordReader::new(input, self.separators),
        };
        if self.header {
            rows.read(&mut TextRecord::default())?;
        }
        rows.records
            .expect_columns(columns + usize::from(self.trailing == TrailingDelimiter::Always));
        Ok(rows)
    }

    /// Returns the number of fields of a record that belong to the table; a trailing delimiter is followed by
    /// none.
    pub fn columns(&self, record: &TextRecord) -> usize {
        let found = record.len();
        let ends_in_delimiter = match self.trailing {
            TrailingDelimiter::Never => false,
            TrailingDelimiter::After(columns) => found == columns + 1,
            TrailingDelimiter::Always => found > 0,
        };
        if ends_in_delimiter && record.field(found - 1).bytes.is_empty() {
            found - 1
        } else {
            found
        }
    }

    /// Returns the first record; `None` in an empty file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn first_record(&self, path: &Path) -> Result<Option<TextRecord>, ImportError> {
        let mut rows = FileRecords {
            path: path.to_path_buf(),
            records: RecordReader::new(open(path)?, self.separators),
        };
        let mut record = TextRecord::default();
        Ok(rows.read(&mut record)?.then_some(record))
    }
}

/// Records of a file; errors name it.
pub struct FileRecords<R> {
    path: PathBuf,
    records: RecordReader<R>,
}

impl<R: Read> FileRecords<R> {
    /// Reads the next record; false at the end of the file.
    ///
    /// # Errors
    /// See [`RecordReader::read`].
    pub fn read(&mut self, record: &mut TextRecord) -> Result<bool, ImportError> {
        self.records.read(record).map_err(|error| match error {
            RecordError::Io(error) => unreadable(&self.path, &error),
            RecordError::Malformed { line, fault: why, .. } => {
                fault(&self.path, SourceLocation::Line(line), why)
            }
        })
    }
}

fn first_line_ends_in(path: &Path, delimiter: u8) -> Result<bool, ImportError> {
    let mut file: File = open(path)?;
    let mut line = Vec::new();
    let mut chunk = [0u8; 4096];
    loop {
        let read = file.read(&mut chunk).map_err(|e| unreadable(path, &e))?;
        line.extend_from_slice(&chunk[..read]);
        if read == 0 || line.contains(&b'\n') || line.len() > MAX_FIRST_LINE {
            break;
        }
    }
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
    // An empty file has no line without a delimiter at its end.
    Ok(line.last().is_none_or(|last| *last == delimiter))
}

/// Bytes of a first line that are looked at.
const MAX_FIRST_LINE: usize = 16 << 20;
