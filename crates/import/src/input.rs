//! One open input file: its columns and its batches.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::error::{ImportError, ImportFault, SourceLocation};
use super::options::ImportFormat;

/// The batches of a file, decoded on demand; the first error ends them.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ImportError>> + Send>;

/// A file that is being read.
pub struct Input {
    /// Its columns, as the table will keep them.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: Batches,
}

/// A shared counter of the bytes read so far.
#[derive(Debug, Clone, Default)]
pub struct BytesRead(Arc<AtomicU64>);

impl BytesRead {
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A reader that counts the bytes it reads.
pub(crate) struct CountingReader<R> {
    inner: R,
    bytes: BytesRead,
}

impl<R: Read> CountingReader<R> {
    pub(crate) fn new(inner: R, bytes: BytesRead) -> Self {
        Self { inner, bytes }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(into)?;
        self.bytes.add(read as u64);
        Ok(read)
    }
}

/// Returns an error about a file.
pub fn fault(file: &Path, place: SourceLocation, fault: ImportFault) -> ImportError {
    ImportError {
        file: file.to_path_buf(),
        place,
        column: None,
        fault,
    }
}

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> Result<File, ImportError> {
    let file = File::open(path).map_err(|e| unreadable(path, &e))?;
    if file.metadata().map_err(|e| unreadable(path, &e))?.is_dir() {
        return Err(fault(
            path,
            SourceLocation::File,
            ImportFault::Unreadable("it is a directory; name its files".into()),
        ));
    }
    Ok(file)
}

pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> ImportError {
    fault(
        path,
        SourceLocation::File,
        ImportFault::Unreadable(error.to_string()),
    )
}

/// Returns the format of a file: by its first bytes, then by its name.
///
/// # Errors
/// The file cannot be read, or its format cannot be detected.
pub(crate) fn detect(path: &Path) -> Result<ImportFormat, ImportError> {
    let mut head = [0u8; 8];
    let mut read = 0;
    let mut file = open(path)?;
    while read < head.len() {
        match file.read(&mut head[read..]).map_err(|e| unreadable(path, &e))? {
            0 => break,
            n => read += n,
        }
    }
    if head.starts_with(b"PAR1") {
        return Ok(ImportFormat::Parquet);
    }
    if head.starts_with(b"ARROW1") || head.starts_with(&[0xff; 4]) {
        return Ok(ImportFormat::Arrow);
    }
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("parquet" | "parq" | "pq") => Ok(ImportFormat::Parquet),
        Some("csv" | "tsv" | "txt") => Ok(ImportFormat::Csv),
        Some("tbl") => Ok(ImportFormat::Tbl),
        Some("arrow" | "arrows" | "feather" | "ipc") => Ok(ImportFormat::Arrow),
        _ => {
            let reason =
                "its name and first bytes do not tell the format; say --format parquet, csv, tbl or arrow";
            Err(fault(
                path,
                SourceLocation::File,
                ImportFault::Other(reason.into()),
            ))
        }
    }
}

/// Returns the length of a file in bytes; 0 if it is unknown.
pub(crate) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Returns total length of files.
pub fn total_length(files: &[PathBuf]) -> u64 {
    files.iter().map(|file| length(file)).sum()
}
