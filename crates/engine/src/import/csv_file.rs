//! CSV files that are read for a query instead of an import.

use std::path::PathBuf;

use arrow_schema::SchemaRef;

use super::error::ImportError;
use super::files::Files;
use super::input::Batches;
use super::options::{ImportFormat, ImportOptions};

/// Rows of a batch, as queries have them.
const BATCH_ROWS: usize = 8192;
/// Bytes of a batch, about.
const BATCH_BYTES: usize = 16 << 20;

/// CSV files with the same columns, inferred from all of their values.
#[derive(Debug)]
pub(crate) struct CsvSource {
    files: Files,
    count: usize,
}

impl CsvSource {
    /// Infers the columns of some files, read with these options.
    ///
    /// # Errors
    /// A file cannot be read, is malformed, or has other columns than the first one.
    pub(crate) fn open(paths: &[PathBuf], options: ImportOptions) -> Result<Self, ImportError> {
        let options = ImportOptions {
            format: ImportFormat::Csv,
            sample_rows: None,
            batch_rows: BATCH_ROWS,
            batch_bytes: Some(BATCH_BYTES),
            ..options
        };
        let files = Files::open("", paths, &options)?;
        let count = paths.len();
        Ok(Self { files, count })
    }

    /// Returns the columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.files.schema
    }

    /// Returns the number of files.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Reads the rows of one file.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub(crate) fn read(&self, file: usize) -> Result<Batches, ImportError> {
        Ok(self.files.read(file)?.batches)
    }
}
