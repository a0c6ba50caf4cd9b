//! Errors in input files.

use std::fmt;
use std::path::PathBuf;

/// A location in an input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceLocation {
    /// The file as a whole (its header, footer or schema).
    File,
    /// A line of a text file, from 1.
    Line(u64),
    /// A row group of a Parquet file, from 0.
    RowGroup(usize),
    /// A record batch of an Arrow file or stream, from 0.
    Batch(usize),
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(line) => write!(f, ", line {line}"),
            Self::RowGroup(group) => write!(f, ", row group {group}"),
            Self::Batch(batch) => write!(f, ", batch {batch}"),
        }
    }
}

/// The kind of an error in an input file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportFault {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The file is not of this format.
    #[error("is not {format}: {reason}")]
    Foreign {
        /// `a Parquet file`, …
        format: &'static str,
        /// The reader's words.
        reason: String,
    },
    /// The file ends too early.
    #[error("ends too early: {0}")]
    Truncated(String),
    /// A line has more or fewer columns than the table.
    #[error("has {found} columns instead of {expected}")]
    ColumnCount {
        /// Columns of this line.
        found: usize,
        /// Columns of the table.
        expected: usize,
    },
    /// A value that is not of the column's type.
    #[error("'{value}' is not a value of type {expected}")]
    BadValue {
        /// The text, cut after 60 characters.
        value: String,
        /// The SQL type.
        expected: String,
    },
    /// A value of a file in place that is not of the type that a sample of the file suggested.
    #[error(
        "'{value}' is not a value of type {expected}, which the values at the beginning, middle and end of the file \
         suggest; run the statement again in this session, which now expects such values, or import the file"
    )]
    UnlikeSample {
        /// The text, cut after 60 characters.
        value: Box<str>,
        /// The SQL type.
        expected: Box<str>,
    },
    /// An empty or NULL value in a NOT NULL column.
    #[error("is NULL in a NOT NULL column")]
    UnexpectedNull,
    /// Bytes that are not UTF-8.
    #[error("is not valid UTF-8 (import text files in UTF-8)")]
    InvalidUtf8,
    /// A quote that never closes.
    #[error("has a quote that does not close (--quote none reads quotes as text)")]
    OpenQuote,
    /// Text after the quote that closes a field.
    #[error("has text after the quote that closes a field (--quote none reads quotes as text)")]
    StrayQuote,
    /// A quoted field of too many lines, or one whose lines look like records.
    #[error(
        "has a quoted field of {lines} line breaks, as if a stray quote had swallowed lines (--quote none reads quotes as \
         text, --quote '\"' takes the field as it is)"
    )]
    LongQuote {
        /// Line breaks in the field.
        lines: usize,
    },
    /// A line of more fields than a table may have columns.
    #[error("has more than {most} columns, the most that can be imported")]
    TooManyColumns {
        /// The limit.
        most: usize,
    },
    /// A record that is too long.
    #[error("has a record of more than {} MiB, the longest that can be imported", most >> 20)]
    TooLong {
        /// The limit in bytes.
        most: usize,
    },
    /// The columns of this file are not those of the first one (or of `--schema`).
    #[error("has other columns than expected: {0}")]
    SchemaMismatch(String),
    /// A column type that cannot be stored.
    #[error("has type {0}, which cannot be stored; leave it out or cast it")]
    UnsupportedType(String),
    /// The reader gave up for another reason.
    #[error("{0}")]
    Other(String),
}

/// A malformed input file. Nothing of the import has been stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// The file.
    pub file: PathBuf,
    /// The location in the file.
    pub place: SourceLocation,
    /// The column, where one is to blame.
    pub column: Option<String>,
    /// The kind of the error.
    pub fault: ImportFault,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.file.display(), self.place)?;
        if let Some(column) = &self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for ImportError {}
