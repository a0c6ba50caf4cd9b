//! Several files as one stream of batches with one schema.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use halocline_values::convert;
use halocline_values::sql_name;
use halocline_values::storable::{storable_schema, storable_type, to_schema};

use super::error::{ImportError, ImportFault, SourceLocation};
use super::input::{BytesRead, Input, detect, fault, length};
use super::options::{ImportFormat, ImportOptions};
use super::report::{DialectReport, InferredColumn};
use super::temporary_files::TemporaryFiles;
use super::text::{Dialect, InferredColumns, TextColumns, TypeCandidate, infer, sniff};
use super::tpch::tpch_schema;
use super::{ipc, parquet, text};

/// A file to read, with its format.
#[derive(Debug)]
struct InputSource {
    path: PathBuf,
    format: ImportFormat,
    dialect: Option<Dialect>,
}

/// Files that make one table.
#[derive(Debug)]
pub struct Files {
    sources: Vec<InputSource>,
    /// The columns of the table.
    pub schema: SchemaRef,
    /// True if types were inferred from a part of the values only.
    pub guessed: bool,
    /// For each column of text files whose type was inferred, the form of its values.
    forms: Arc<[Option<TypeCandidate>]>,
    /// Columns of text files, and what decided their types.
    pub columns: Vec<InferredColumn>,
    batch: BatchSize,
    /// The time zone of timestamps that have none, in columns with time zone; UTC if none.
    zone: Option<Tz>,
    /// For batches that are too large for DRAM.
    spill_files: Option<Arc<dyn TemporaryFiles>>,
    /// Bytes read so far.
    pub bytes: BytesRead,
}

/// Limits on the size of batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSize {
    rows: usize,
    bytes: usize,
}

/// Rows of a batch, however long they are.
const MIN_ROWS: usize = 1;
/// Bytes of a page or an Arrow batch that are decompressed, however little memory there is.
const MIN_PART: u64 = 16 << 20;
/// Bytes of such a part, however much memory there is.
const MAX_PART: u64 = 1 << 30;
/// Batches' worth of bytes that a page or an Arrow batch may have.
const PART_BATCHES: usize = 6;

impl BatchSize {
    fn from_options(options: &ImportOptions) -> Self {
        Self {
            rows: options.batch_rows.max(1),
            bytes: options.batch_bytes.unwrap_or(usize::MAX),
        }
    }

    /// Returns the most bytes of a decompressed page or batch of a file.
    pub(crate) fn part_bytes(self) -> u64 {
        (self.bytes.saturating_mul(PART_BATCHES) as u64).clamp(MIN_PART, MAX_PART)
    }

    /// Returns true if a batch of `rows` rows and `bytes` bytes may take another row.
    pub(crate) fn has_room(self, rows: usize, bytes: usize) -> bool {
        rows < self.rows && bytes < self.bytes
    }

    /// Returns the number of rows of a batch if a row takes `bytes` bytes.
    pub(crate) fn rows(self, row_bytes: u64) -> usize {
        let row_bytes = usize::try_from(row_bytes).unwrap_or(usize::MAX).max(1);
        (self.bytes / row_bytes).max(MIN_ROWS).min(self.rows)
    }
}

/// Returns the bytes of a row in Arrow arrays, without those of strings.
pub(crate) fn fixed_bytes(schema: &Schema) -> u64 {
    let width = |field: &Arc<Field>| field.data_type().primitive_width().unwrap_or(16) as u64;
    schema.fields().iter().map(width).sum()
}

impl Files {
    /// Looks at all files: their formats, and the columns that they agree on.
    ///
    /// # Errors
    /// A file cannot be read, its format is not clear, or its columns are not those of the first one.
    pub fn open(table: &str, files: &[PathBuf], options: &ImportOptions) -> Result<Self, ImportError> {
        let mut sources = Vec::new();
        for path in files {
            let format = match options.format {
                ImportFormat::Auto => detect(path)?,
                format => format,
            };
            let dialect = match format {
                ImportFormat::Tbl => Some(Dialect::of_tbl(
                    path,
                    options.delimiter.unwrap_or(b'|'),
                    options.nulls(),
                )?),
                ImportFormat::Csv => Some(sniff(path, options, options.schema.as_deref())?),
                _ => None,
            };
            sources.push(InputSource {
                path: path.clone(),
                format,
                dialect,
            });
        }
        let mut text = InferredText::default();
        let schema = match &options.schema {
            Some(schema) => storable_schema(schema),
            None => common_schema(table, &sources, options, &mut text)?,
        };
        let batch = BatchSize::from_options(options);
        Ok(Self {
            sources,
            schema,
            guessed: text.guessed,
            forms: text.forms.into(),
            columns: text.columns,
            batch,
            zone: options.time_zone,
            spill_files: None,
            bytes: BytesRead::default(),
        })
    }

    /// Copies batches that are too large for DRAM to temporary files.
    pub fn spilling_to(self, files: Arc<dyn TemporaryFiles>) -> Self {
        Self {
            spill_files: Some(files),
            ..self
        }
    }

    /// Returns the bytes of all files.
    pub fn length(&self) -> u64 {
        self.sources.iter().map(|source| length(&source.path)).sum()
    }

    /// Returns the number of files.
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    /// Returns the path of file `number`.
    pub fn path(&self, number: usize) -> &Path {
        &self.sources[number].path
    }

    /// Returns the dialects of the CSV files.
    pub fn dialects(&self) -> Vec<DialectReport> {
        let csv = self
            .sources
            .iter()
            .filter(|source| source.format == ImportFormat::Csv);
        csv.filter_map(|source| {
            let dialect = source.dialect.as_ref()?;
            Some(DialectReport {
                file: source.path.clone(),
                delimiter: dialect.separators.delimiter,
                quote: dialect.separators.quote,
                header: dialect.header,
                header_reason: dialect.header_reason.clone(),
            })
        })
        .collect()
    }

    /// Opens file `number`; its batches have the table's schema.
    pub fn read(&self, number: usize) -> Result<Input, ImportError> {
        let source = &self.sources[number];
        let bytes = self.bytes.clone();
        let input = match (&source.dialect, source.format) {
            (Some(dialect), _) => {
                return text::read(
                    &source.path,
                    dialect.clone(),
                    TextColumns {
                        schema: self.schema.clone(),
                        forms: Arc::clone(&self.forms),
                        zone: self.zone,
                    },
                    self.batch,
                    bytes,
                );
            }
            (None, ImportFormat::Arrow) => {
                ipc::read(&source.path, self.batch, bytes, self.spill_files.as_ref())?
            }
            (None, _) => parquet::read(&source.path, self.batch, bytes)?,
        };
        check_names(&source.path, &input.schema, &self.schema)?;
        let (path, schema, zone) = (source.path.clone(), self.schema.clone(), self.zone);
        let batches = input.batches.map(move |batch| {
            let batch = batch?;
            let batch = instants(batch, &schema, zone).and_then(|batch| to_schema(&batch, &schema));
            batch.map_err(|e| {
                fault(
                    &path,
                    SourceLocation::File,
                    ImportFault::SchemaMismatch(e.to_string()),
                )
            })
        });
        Ok(Input {
            schema: self.schema.clone(),
            batches: Box::new(batches),
        })
    }
}

/// Returns a batch whose texts and timestamps without time zone, where `schema` has timestamps with one, are
/// instants of `zone`. In UTC they are left to the cast to the schema.
fn instants(batch: RecordBatch, schema: &SchemaRef, zone: Option<Tz>) -> Result<RecordBatch, ArrowError> {
    let becomes_instant = |(from, to): (&Arc<Field>, &Arc<Field>)| {
        let is_instant = |of: &DataType| matches!(of, DataType::Timestamp(_, Some(_)));
        is_instant(to.data_type()) && !is_instant(from.data_type())
    };
    let own = batch.schema();
    if zone.is_none() || !own.fields().iter().zip(schema.fields()).any(becomes_instant) {
        return Ok(batch);
    }
    let mut fields = own.fields().to_vec();
    let mut columns = batch.columns().to_vec();
    for (i, to) in schema.fields().iter().enumerate() {
        if becomes_instant((&fields[i], to)) {
            columns[i] = convert(&columns[i], to.data_type(), false, zone)?;
            fields[i] = Arc::new(fields[i].as_ref().clone().with_data_type(to.data_type().clone()));
        }
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)
}

/// Columns and dialects inferred from text files.
#[derive(Default)]
struct InferredText {
    guessed: bool,
    columns: Vec<InferredColumn>,
    forms: Vec<Option<TypeCandidate>>,
}

impl InferredText {
    /// Takes the columns of text files, with the types that were given instead.
    fn keep(&mut self, inferred: &InferredColumns, options: &ImportOptions) -> SchemaRef {
        self.guessed = options.sample_rows.is_some();
        let schema = inferred.schema();
        let typed = schema.fields().iter().enumerate().map(|(i, field)| {
            let given = options
                .types
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(field.name()));
            let data_type = given.map_or(field.data_type(), |(_, data_type)| data_type);
            InferredColumn {
                name: field.name().clone(),
                data_type: storable_type(data_type),
                given: given.is_some(),
                decided_by: inferred.decided(i).filter(|_| given.is_none()).cloned(),
            }
        });
        self.columns = typed.collect();
        let given = self.columns.iter().enumerate();
        self.forms = given
            .map(|(i, column)| inferred.form(i).filter(|_| !column.given))
            .collect();
        let fields = self.columns.iter();
        let fields = fields.map(|column| Field::new(&column.name, column.data_type.clone(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Returns the columns that all files agree on.
fn common_schema(
    table: &str,
    sources: &[InputSource],
    options: &ImportOptions,
    text: &mut InferredText,
) -> Result<SchemaRef, ImportError> {
    if sources.iter().any(|source| source.format == ImportFormat::Tbl) {
        return tpch_schema(table).map(|schema| storable_schema(&schema)).ok_or_else(|| {
            let reason = format!(
                "a .tbl file does not name its columns and '{table}' is not a table of TPC-H; give a schema \
                 (--schema 'a int, b decimal(15,2), …')"
            );
            fault(&sources[0].path, SourceLocation::File, ImportFault::Other(reason))
        });
    }
    let texts: Vec<(&Path, &Dialect)> = sources
        .iter()
        .filter_map(|s| Some((s.path.as_path(), s.dialect.as_ref()?)))
        .collect();
    let batch = BatchSize::from_options(options);
    let mut common: Option<SchemaRef> = None;
    if let Some((path, _)) = texts.first() {
        let schema = text.keep(&infer(&texts, options.sample_rows)?, options);
        let unknown = |name: &str| {
            !schema
                .fields()
                .iter()
                .any(|field| field.name().eq_ignore_ascii_case(name))
        };
        if let Some((name, _)) = options.types.iter().find(|(name, _)| unknown(name)) {
            let names: Vec<&str> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            let text = format!(
                "no column '{name}', whose type is given; there are {}",
                names.join(", ")
            );
            return Err(fault(
                path,
                SourceLocation::File,
                ImportFault::SchemaMismatch(text),
            ));
        }
        common = Some(schema);
    }
    for source in sources {
        let own = match (&source.dialect, source.format) {
            (Some(_), _) => continue,
            (None, ImportFormat::Arrow) => ipc::read(&source.path, batch, BytesRead::default(), None)?.schema,
            (None, _) => parquet::read(&source.path, batch, BytesRead::default())?.schema,
        };
        common = Some(match common {
            None => own,
            Some(first) => merge(&source.path, &first, &own)?,
        });
    }
    Ok(common.unwrap_or_else(|| Arc::new(Schema::empty())))
}

/// Returns the schema of both, which differ at most in what may be NULL.
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
            return Err(fault(
                path,
                SourceLocation::File,
                ImportFault::SchemaMismatch(text),
            ));
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
    Err(fault(
        path,
        SourceLocation::File,
        ImportFault::SchemaMismatch(text),
    ))
}
