//! Reports of an import: its progress, and the way it read the files.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use arrow_schema::DataType;
use halocline_values::sql_name;

/// Progress of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportProgress {
    /// The file being read.
    pub file: PathBuf,
    /// Its number, from 0.
    pub file_number: usize,
    /// Files in all.
    pub files: usize,
    /// Rows stored so far.
    pub rows: u64,
    /// Bytes of all files read so far.
    pub bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
}

/// Result of an import.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportReport {
    /// Rows stored.
    pub rows: u64,
    /// Bytes of the table in the pool.
    pub stored_bytes: u64,
    /// Bytes of the input files.
    pub input_bytes: u64,
    /// From the first byte read to the published table.
    pub elapsed: Duration,
    /// The dialect of each CSV file.
    pub dialects: Vec<DialectReport>,
    /// Columns whose types were inferred from values, in order; empty if all types were given or are those
    /// of the files.
    pub columns: Vec<InferredColumn>,
}

/// The dialect in which a CSV file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialectReport {
    /// The file.
    pub file: PathBuf,
    /// The separator of fields.
    pub delimiter: u8,
    /// The quote of fields.
    pub quote: Option<u8>,
    /// The first line names the columns.
    pub header: bool,
    /// The reason for the decision.
    pub header_reason: String,
}

impl fmt::Display for DialectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = self.quote.map_or_else(|| "none".into(), shown);
        let header = if self.header { "yes" } else { "no" };
        write!(
            f,
            "{}: delimiter {}, quote {quote}, header {header} ({})",
            self.file.display(),
            shown(self.delimiter),
            self.header_reason
        )
    }
}

fn shown(byte: u8) -> String {
    match byte {
        b'\t' => "tab".into(),
        byte if byte.is_ascii_graphic() => char::from(byte).to_string(),
        byte => format!("0x{byte:02x}"),
    }
}

/// A column of a CSV file with its type and the value that decided it.
#[derive(Debug, Clone, PartialEq)]
pub struct InferredColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// Given by [`super::ImportOptions::types`].
    pub given: bool,
    /// The first value after which the type was this one; `None` if the column has no value or its type was
    /// given.
    pub decided_by: Option<DecidingValue>,
}

impl fmt::Display for InferredColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, sql_name(&self.data_type))?;
        match &self.decided_by {
            _ if self.given => f.write_str(": as given"),
            Some(value) => write!(f, ": {value}"),
            None => f.write_str(": no value"),
        }
    }
}

/// A value that decided the type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidingValue {
    /// Its file.
    pub file: PathBuf,
    /// The line on which its record begins, from 1.
    pub line: u64,
    /// The text, cut after 60 characters.
    pub value: String,
}

impl fmt::Display for DecidingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {:?}", self.line, self.value)
    }
}
