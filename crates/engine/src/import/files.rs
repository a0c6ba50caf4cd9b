//! Several files as one stream of batches with one schema.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::dialect::Dialect;
use super::error::{ImportError, ImportFault, Place};
use super::infer::infer;
use super::input::{Bytes, Input, detect, fault};
use super::options::{Format, ImportOptions};
use super::sql_types::tpch_schema;
use super::value::sql_name;
use super::{ipc, parquet, text};
use crate::storable::{storable_schema, to_schema};

/// How one file is to be read.
struct Source {
    path: PathBuf,
    format: Format,
    dialect: Option<Dialect>,
}

/// Files that make one table.
pub(crate) struct Files {
    sources: Vec<Source>,
    /// The columns of the table.
    pub(crate) schema: SchemaRef,
    /// Were types inferred from a part of the values only.
    pub(crate) guessed: bool,
    batch: BatchSize,
    /// Bytes read so far.
    pub(crate) bytes: Bytes,
}

/// How large batches may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSize {
    rows: usize,
    bytes: usize,
}

/// Rows of a batch, however long they are.
const LEAST_ROWS: usize = 64;

impl BatchSize {
    /// Batches of so many rows.
    pub(crate) const fn of_rows(rows: usize) -> Self {
        Self {
            rows,
            bytes: usize::MAX,
        }
    }

    /// Rows of a batch if a row takes so many bytes.
    pub(crate) fn rows(self, row_bytes: u64) -> usize {
        let row_bytes = usize::try_from(row_bytes).unwrap_or(usize::MAX).max(1);
        (self.bytes / row_bytes).max(LEAST_ROWS).min(self.rows)
    }
}

/// Bytes of a row in Arrow's arrays, without the strings' own.
pub(crate) fn fixed_bytes(schema: &Schema) -> u64 {
    let width = |field: &Arc<Field>| field.data_type().primitive_width().unwrap_or(16) as u64;
    schema.fields().iter().map(width).sum()
}

impl Files {
    /// Looks at all files: their formats, and the columns that they agree on.
    ///
    /// # Errors
    /// A file cannot be read, its format is not clear, or its columns are not those of the first one.
    pub(crate) fn open(table: &str, files: &[PathBuf], options: &ImportOptions) -> Result<Self, ImportError> {
        let mut sources = Vec::new();
        for path in files {
            let format = match options.format {
                Format::Auto => detect(path)?,
                format => format,
            };
            let dialect = match format {
                Format::Csv | Format::Tbl => Some(Dialect::of(path, format, options)?),
                _ => None,
            };
            sources.push(Source {
                path: path.clone(),
                format,
                dialect,
            });
        }
        let mut guessed = false;
        let schema = match &options.schema {
            Some(schema) => storable_schema(schema),
            None => common_schema(table, &sources, options, &mut guessed)?,
        };
        let batch = BatchSize {
            rows: options.batch_rows.max(1),
            bytes: options.batch_bytes.unwrap_or(usize::MAX),
        };
        Ok(Self {
            sources,
            schema,
            guessed,
            batch,
            bytes: Bytes::default(),
        })
    }

    /// Number of files.
    pub(crate) fn count(&self) -> usize {
        self.sources.len()
    }

    /// The path of file `number`.
    pub(crate) fn path(&self, number: usize) -> &Path {
        &self.sources[number].path
    }

    /// Opens file `number`; its batches have the table's schema.
    pub(crate) fn read(&self, number: usize) -> Result<Input, ImportError> {
        let source = &self.sources[number];
        let bytes = self.bytes.clone();
        let input = match (&source.dialect, source.format) {
            (Some(dialect), _) => {
                return text::read(
                    &source.path,
                    dialect.clone(),
                    self.schema.clone(),
                    self.batch,
                    bytes,
                );
            }
            (None, Format::Arrow) => ipc::read(&source.path, bytes)?,
            (None, _) => parquet::read(&source.path, self.batch, bytes)?,
        };
        check_names(&source.path, &input.schema, &self.schema)?;
        let (path, schema) = (source.path.clone(), self.schema.clone());
        let batches = input.batches.map(move |batch| {
            to_schema(&batch?, &schema)
                .map_err(|e| fault(&path, Place::File, ImportFault::SchemaMismatch(e.to_string())))
        });
        Ok(Input {
            schema: self.schema.clone(),
            batches: Box::new(batches),
        })
    }
}

/// The columns that all files agree on.
fn common_schema(
    table: &str,
    sources: &[Source],
    options: &ImportOptions,
    guessed: &mut bool,
) -> Result<SchemaRef, ImportError> {
    if sources.iter().any(|source| source.format == Format::Tbl) {
        return tpch_schema(table).map(|schema| storable_schema(&schema)).ok_or_else(|| {
            let reason = format!(
                "a .tbl file does not name its columns and '{table}' is not a table of TPC-H; give a schema \
                 (--schema 'a int, b decimal(15,2), …')"
            );
            fault(&sources[0].path, Place::File, ImportFault::Other(reason))
        });
    }
    let texts: Vec<(&Path, Dialect)> = sources
        .iter()
        .filter_map(|s| Some((s.path.as_path(), s.dialect.clone()?)))
        .collect();
    if texts.len() == sources.len() {
        *guessed = options.sample_rows.is_some();
        return infer(&texts, options.sample_rows);
    }
    let mut common: Option<SchemaRef> = None;
    for source in sources {
        let own = match (&source.dialect, source.format) {
            (Some(dialect), _) => infer(&[(&source.path, dialect.clone())], options.sample_rows)?,
            (None, Format::Arrow) => ipc::read(&source.path, Bytes::default())?.schema,
            (None, _) => parquet::read(&source.path, BatchSize::of_rows(1), Bytes::default())?.schema,
        };
        common = Some(match common {
            None => own,
            Some(first) => merge(&source.path, &first, &own)?,
        });
    }
    Ok(common.unwrap_or_else(|| Arc::new(Schema::empty())))
}

/// The schema of both, which differ at most in what may be NULL.
fn merge(path: &Path, first: &SchemaRef, own: &SchemaRef) -> Result<SchemaRef, ImportError> {
    check_names(path, own, first)?;
    let mut fields = Vec::new();
    for (a, b) in first.fields().iter().zip(own.fields()) {
        if a.data_type() != b.data_type() {
            let (found, expected) = (sql_name(b.data_type()), sql_name(a.data_type()));
            let text = format!(
                "column {} is {found} here and {expected} in the first file",
                a.name()
            );
            return Err(fault(path, Place::File, ImportFault::SchemaMismatch(text)));
        }
        fields.push(Field::new(
            a.name(),
            DataType::clone(a.data_type()),
            a.is_nullable() || b.is_nullable(),
        ));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn check_names(path: &Path, own: &SchemaRef, expected: &SchemaRef) -> Result<(), ImportError> {
    let names = |schema: &SchemaRef| {
        schema
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect::<Vec<_>>()
    };
    let (own, expected) = (names(own), names(expected));
    if own == expected {
        return Ok(());
    }
    let text = format!("{} instead of {}", own.join(", "), expected.join(", "));
    Err(fault(path, Place::File, ImportFault::SchemaMismatch(text)))
}
