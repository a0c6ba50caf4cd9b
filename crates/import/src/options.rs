//! Options for imports.

use arrow_array::timezone::Tz;
use arrow_schema::{DataType, SchemaRef};
use halocline_columns::TableEncoding;

/// Format of an input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImportFormat {
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

/// The quote of the fields of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuoteOption {
    /// `"`, unless the file's first part shows that quotes are part of the text, or that it is `'`. A quoted
    /// field that looks as if a stray quote had swallowed lines is refused.
    #[default]
    Detect,
    /// Nothing: quotes are part of the text.
    None,
    /// This character. Fields may have any number of lines.
    Char(u8),
}

/// Options for reading files.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Their format.
    pub format: ImportFormat,
    /// The columns, where they are not to be taken from the file. `parse_schema` reads SQL
    /// types.
    pub schema: Option<SchemaRef>,
    /// CSV: types of columns by name, instead of inferred ones. They take any text of such a value (`007` as
    /// 7), where inferred types take only what prints the same again.
    pub types: Vec<(String, DataType)>,
    /// CSV: does the first line name the columns; detected if not given.
    pub header: Option<bool>,
    /// CSV: what separates fields; detected if not given.
    pub delimiter: Option<u8>,
    /// CSV: what quotes fields.
    pub quote: QuoteOption,
    /// CSV and tbl: the unquoted texts that stand for NULL, beside the empty one. In a NOT NULL column of texts
    /// an empty field is an empty text.
    pub nulls: Vec<String>,
    /// The time zone of timestamps that name none, in columns with time zone; UTC if none.
    pub time_zone: Option<Tz>,
    /// CSV: rows that type inference looks at first in each file; all if none. A later value that does not
    /// fit makes it look at all of them.
    pub sample_rows: Option<usize>,
    /// Rows per batch between decoder and encoder at most; fewer if the rows are long.
    pub batch_rows: usize,
    /// Bytes of a batch, about; by default a part of the memory the database may use.
    pub batch_bytes: Option<usize>,
    /// Append to an existing table, whose columns the files must then have.
    pub append: bool,
    /// Columns by which the rows of the table are sorted, those of this import and of all later ones, each
    /// by itself; none: they stay as they come. Of a table that is there it must be its own, or none.
    /// Rows that exceed the memory are sorted in scratch space of the pool.
    pub cluster: Vec<String>,
    /// Encoding of the values of a new table.
    pub encoding: TableEncoding,
}

impl ImportOptions {
    /// Sets [`format`](Self::format).
    #[must_use]
    pub fn with_format(self, format: ImportFormat) -> Self {
        Self { format, ..self }
    }

    /// Sets [`schema`](Self::schema).
    #[must_use]
    pub fn with_schema(self, schema: Option<SchemaRef>) -> Self {
        Self { schema, ..self }
    }

    /// Sets [`types`](Self::types).
    #[must_use]
    pub fn with_types(self, types: Vec<(String, DataType)>) -> Self {
        Self { types, ..self }
    }

    /// Sets [`header`](Self::header).
    #[must_use]
    pub fn with_header(self, header: Option<bool>) -> Self {
        Self { header, ..self }
    }

    /// Sets [`delimiter`](Self::delimiter).
    #[must_use]
    pub fn with_delimiter(self, delimiter: Option<u8>) -> Self {
        Self { delimiter, ..self }
    }

    /// Sets [`quote`](Self::quote).
    #[must_use]
    pub fn with_quote(self, quote: QuoteOption) -> Self {
        Self { quote, ..self }
    }

    /// Sets [`nulls`](field@Self::nulls).
    #[must_use]
    pub fn with_nulls(self, nulls: Vec<String>) -> Self {
        Self { nulls, ..self }
    }

    /// Sets [`time_zone`](Self::time_zone).
    #[must_use]
    pub fn with_time_zone(self, time_zone: Option<Tz>) -> Self {
        Self { time_zone, ..self }
    }

    /// Sets [`sample_rows`](Self::sample_rows).
    #[must_use]
    pub fn with_sample_rows(self, sample_rows: Option<usize>) -> Self {
        Self { sample_rows, ..self }
    }

    /// Sets [`batch_rows`](Self::batch_rows).
    #[must_use]
    pub fn with_batch_rows(self, batch_rows: usize) -> Self {
        Self { batch_rows, ..self }
    }

    /// Sets [`batch_bytes`](Self::batch_bytes).
    #[must_use]
    pub fn with_batch_bytes(self, batch_bytes: Option<usize>) -> Self {
        Self { batch_bytes, ..self }
    }

    /// Sets [`append`](Self::append).
    #[must_use]
    pub fn with_append(self, append: bool) -> Self {
        Self { append, ..self }
    }

    /// Sets [`cluster`](Self::cluster).
    #[must_use]
    pub fn with_cluster(self, cluster: Vec<String>) -> Self {
        Self { cluster, ..self }
    }

    /// Sets [`encoding`](Self::encoding).
    #[must_use]
    pub fn with_encoding(self, encoding: TableEncoding) -> Self {
        Self { encoding, ..self }
    }
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            format: ImportFormat::Auto,
            schema: None,
            types: Vec::new(),
            header: None,
            delimiter: None,
            quote: QuoteOption::Detect,
            nulls: Vec::new(),
            time_zone: None,
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
    /// Returns the texts for NULL.
    #[doc(hidden)]
    pub fn nulls(&self) -> Vec<String> {
        let mut nulls = vec![String::new()];
        nulls.extend(self.nulls.iter().filter(|null| !null.is_empty()).cloned());
        nulls
    }
}
