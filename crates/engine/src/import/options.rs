//! What an import is told, and what it tells.

use std::path::PathBuf;
use std::time::Duration;

use arrow_schema::SchemaRef;
use halocline_columns::TableEncoding;

use crate::EngineError;

/// Format of an input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// By the file's first bytes, then by its name.
    #[default]
    Auto,
    /// Apache Parquet.
    Parquet,
    /// Text with a delimiter, quotes and (usually) a header.
    Csv,
    /// `|`-separated lines that end in `|`, as TPC's generators write them.
    Tbl,
    /// Arrow IPC, file or stream.
    Arrow,
}

/// How files are read.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Their format.
    pub format: Format,
    /// The columns, where they are not to be taken from the file. [`ImportOptions::parse_schema`] reads SQL types.
    pub schema: Option<SchemaRef>,
    /// CSV: does the first line name the columns.
    pub has_header: bool,
    /// CSV: what separates values; a comma if not given.
    pub delimiter: Option<u8>,
    /// CSV and tbl: the text that stands for NULL; by default the empty one (in tbl: none for text columns).
    pub null: Option<String>,
    /// CSV: rows that type inference looks at first in each file; all if none. A later value that does not fit makes it
    /// look at all of them.
    pub sample_rows: Option<usize>,
    /// Rows per batch between decoder and encoder at most; fewer if the rows are long.
    pub batch_rows: usize,
    /// Bytes of a batch, about; by default a part of the memory the database may use. Those of an Arrow file are as they
    /// are.
    pub batch_bytes: Option<usize>,
    /// Add to the table if it is there; its columns are then those expected of the files.
    pub append: bool,
    /// Columns by which the rows of the table are sorted, those of this import and of all later ones, each by itself; none:
    /// they stay as they come. Of a table that is there it must be its own, or none. What exceeds the memory is sorted in
    /// scratch space of the pool.
    pub cluster: Vec<String>,
    /// How the values of a new table are stored.
    pub encoding: TableEncoding,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            format: Format::Auto,
            schema: None,
            has_header: true,
            delimiter: None,
            null: None,
            sample_rows: Some(100_000),
            batch_rows: 65_536,
            batch_bytes: None,
            append: false,
            cluster: Vec::new(),
            encoding: TableEncoding::default(),
        }
    }
}

impl ImportOptions {
    /// Reads a column list in SQL: `a int, b decimal(15,2) not null, c varchar`.
    ///
    /// # Errors
    /// The text is not a column list, or names a type that cannot be stored.
    pub fn parse_schema(text: &str) -> Result<SchemaRef, EngineError> {
        super::sql_types::read_schema(text)
    }
}

/// How far an import is.
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

/// What an import did.
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
}
