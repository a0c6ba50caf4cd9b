//! CSV files that are read for a query instead of an import.
//!
//! Types come from a sample of a large file. A value of another kind widens the type for all later
//! statements, and [`CsvColumns`] are what one statement reads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use halocline_values::sql_name;

use super::error::{ImportError, ImportFault, SourceLocation};
use super::input::{fault, open, unreadable};
use super::options::ImportOptions;
use super::text::{
    ChunkColumns, ChunkError, ChunkFault, ChunkReader, Dialect, FieldText, Inference, TextChunk,
    TypeCandidate, column_names, decode_chunk, see_all, see_sample, shortened, sniff,
};

/// Values that contradict their types, after which all values are looked at.
const CONTRADICTIONS: usize = 3;

/// The columns of CSV files, as known so far.
#[derive(Debug)]
pub struct CsvColumns {
    /// The columns of the table.
    pub schema: SchemaRef,
    /// For each column the form of its values; `None` for text.
    forms: Vec<Option<TypeCandidate>>,
    /// True for a column without a value in the sample.
    unknown: Vec<bool>,
    /// The types are those of all values.
    complete: bool,
}

impl CsvColumns {
    fn from_inference(names: &[String], columns: &[Inference], complete: bool) -> Arc<Self> {
        let fields = names.iter().zip(columns);
        let fields = fields.map(|(name, column)| Field::new(name, column.data_type(), true));
        Arc::new(Self {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            forms: columns.iter().map(Inference::chosen).collect(),
            unknown: columns
                .iter()
                .map(|column| !complete && !column.has_value())
                .collect(),
            complete,
        })
    }
}

/// CSV files with the same columns.
#[derive(Debug)]
pub struct CsvSource {
    files: Vec<(PathBuf, Dialect)>,
    names: Vec<String>,
    seen: Mutex<SeenValues>,
}

/// What is known of the columns.
#[derive(Debug)]
struct SeenValues {
    columns: Vec<Inference>,
    contradictions: usize,
    current: Arc<CsvColumns>,
}

/// How the values of a statement are read.
#[derive(Debug, Clone)]
pub struct CsvRead {
    chunk: ChunkColumns,
    complete: bool,
}

impl CsvSource {
    /// Infers the columns of some files, read with these options.
    ///
    /// # Errors
    /// A file cannot be read, is malformed, or has other columns than the first one.
    pub fn open(paths: &[PathBuf], options: &ImportOptions) -> Result<Self, ImportError> {
        let (mut files, mut names) = (Vec::new(), Vec::new());
        for path in paths {
            let dialect = sniff(path, options, None)?;
            let own = column_names(path, &dialect)?;
            if !files.is_empty() && own != names {
                let text = format!("{} instead of {}", own.join(", "), names.join(", "));
                let mismatch = ImportFault::SchemaMismatch(text);
                return Err(fault(path, SourceLocation::File, mismatch));
            }
            names = own;
            files.push((path.clone(), dialect));
        }
        let mut columns = vec![Inference::default(); names.len()];
        let mut complete = true;
        for (path, dialect) in &files {
            complete &= see_sample(path, dialect, &mut columns)?;
        }
        let current = CsvColumns::from_inference(&names, &columns, complete);
        Ok(Self {
            files,
            names,
            seen: Mutex::new(SeenValues {
                columns,
                contradictions: 0,
                current,
            }),
        })
    }

    /// Returns the columns as they are known now.
    pub fn columns(&self) -> Arc<CsvColumns> {
        Arc::clone(&self.seen().current)
    }

    /// Returns the number of files.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Returns the path of a file.
    pub fn path(&self, file: usize) -> &Path {
        &self.files[file].0
    }

    /// Returns how to read some of these columns.
    pub fn read_of(columns: &CsvColumns, projection: &[usize], schema: SchemaRef) -> CsvRead {
        let chunk = ChunkColumns {
            of_file: columns.forms.len(),
            projection: projection.to_vec(),
            schema,
            forms: projection.iter().map(|i| columns.forms[*i]).collect(),
            unknown: projection.iter().map(|i| columns.unknown[*i]).collect(),
        };
        CsvRead {
            chunk,
            complete: columns.complete,
        }
    }

    /// Opens a file for reading in parts.
    ///
    /// # Errors
    /// The file cannot be opened any more.
    pub fn chunks(&self, file: usize) -> Result<ChunkReader, ImportError> {
        let (path, dialect) = &self.files[file];
        Ok(ChunkReader::new(open(path)?, dialect, self.names.len()))
    }

    /// Reads the next part of a file.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub fn next_chunk(
        &self,
        file: usize,
        chunks: &mut ChunkReader,
    ) -> Result<Option<TextChunk>, ImportError> {
        chunks.read().map_err(|error| unreadable(self.path(file), &error))
    }

    /// Decodes a part of a file. `certain` is true if rows of the statement have been returned: columns of
    /// unknown type are text then. The flag of the result is true if another value than expected has widened
    /// a type, so that the statement is to be planned again.
    pub fn decode(
        &self,
        file: usize,
        chunk: &TextChunk,
        read: &CsvRead,
        certain: bool,
    ) -> Result<RecordBatch, Box<(ImportError, bool)>> {
        let dialect = &self.files[file].1;
        let decoded = if certain && read.chunk.unknown.contains(&true) {
            let known = ChunkColumns {
                unknown: vec![false; read.chunk.unknown.len()],
                ..read.chunk.clone()
            };
            decode_chunk(&chunk.bytes, dialect, &known)
        } else {
            decode_chunk(&chunk.bytes, dialect, &read.chunk)
        };
        decoded.map_err(|error| Box::new(self.named(file, chunk, read, error)))
    }

    /// Returns the error in a part of a file with its line, and whether a type was widened.
    fn named(
        &self,
        file: usize,
        chunk: &TextChunk,
        read: &CsvRead,
        error: ChunkError,
    ) -> (ImportError, bool) {
        let (path, dialect) = &self.files[file];
        let ending = dialect.separators.ending.byte();
        let before = match lines_before(path, chunk.offset, ending) {
            Ok(before) => before,
            Err(error) => return (unreadable(path, &error), false),
        };
        let place = SourceLocation::Line(before + error.line);
        let field = error.column.map(|column| read.chunk.schema.field(column));
        let (why, widened) = match error.fault {
            ChunkFault::Malformed(fault) => (fault, false),
            ChunkFault::OtherType { value, quoted } => {
                let column = error.column.map(|column| read.chunk.projection[column]);
                let text = FieldText {
                    bytes: &value,
                    quoted,
                };
                let widened =
                    !read.complete && column.is_some_and(|column| self.widen(column, text, dialect));
                let value = shortened(&String::from_utf8_lossy(&value));
                let expected = field.map_or_else(String::new, |field| sql_name(field.data_type()));
                let (value, expected) = (value.into(), expected.into());
                (ImportFault::UnlikeSample { value, expected }, widened)
            }
        };
        let error = ImportError {
            column: field.map(|field| field.name().clone()),
            ..fault(path, place, why)
        };
        (error, widened)
    }

    /// Takes a value that is not of its column's type, and returns true if the type is another one then.
    fn widen(&self, column: usize, value: FieldText<'_>, dialect: &Dialect) -> bool {
        let mut seen = self.seen();
        let seen = &mut *seen;
        seen.contradictions += 1;
        seen.columns[column].see(value, dialect, (Path::new(""), 1));
        let mut complete = false;
        if seen.contradictions > CONTRADICTIONS {
            for (path, dialect) in &self.files {
                if see_all(path, dialect, &mut seen.columns).is_err() {
                    return false;
                }
            }
            complete = true;
        }
        seen.current = CsvColumns::from_inference(&self.names, &seen.columns, complete);
        true
    }

    fn seen(&self) -> MutexGuard<'_, SeenValues> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of lines that end in the first `bytes` bytes of a file.
fn lines_before(path: &Path, bytes: u64, ending: u8) -> std::io::Result<u64> {
    use std::io::Read;
    let mut file = std::fs::File::open(path)?.take(bytes);
    let (mut buffer, mut lines) = (vec![0; 1 << 20], 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(lines);
        }
        lines += memchr::memchr_iter(ending, &buffer[..read]).count() as u64;
    }
}
