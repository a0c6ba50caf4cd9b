//! The import: a thread decodes, this one encodes and stores.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use arrow_array::RecordBatch;
use halocline_columns::{ColumnsError, TableOptions, TableStats, TableWriter};
use halocline_pool::Txn;

use super::error::{ImportError, ImportFault, Place};
use super::files::Files;
use super::input::{fault, total_length};
use super::options::{ImportOptions, ImportProgress, ImportReport};
use super::value::sql_name;
use crate::EngineError;
use crate::database::Shared;
use crate::statement::{begin, has_table};

/// Batches between the decoder and the encoder.
const QUEUE: usize = 4;

/// Imports files into a new table.
///
/// # Errors
/// See [`crate::Database::import`].
pub(crate) fn run(
    shared: &Shared,
    table: &str,
    paths: &[PathBuf],
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress),
    cancel: &AtomicBool,
) -> Result<ImportReport, EngineError> {
    let started = Instant::now();
    if paths.is_empty() {
        return Err(EngineError::Query("there is no file to import".into()));
    }
    let txn = begin(shared, "import")?;
    if has_table(&txn, table) {
        let instead = "drop it first, or import into a table of another name";
        return Err(EngineError::Exists {
            kind: "table",
            name: table.to_string(),
            instead,
        });
    }
    let files = Files::open(table, paths, options)?;
    let guessed = files.guessed;
    let mut store = |files: Files| store(&txn, table, &files, total_length(paths), progress, cancel);
    let stats = match store(files) {
        // A value did not fit the type guessed from the sample: look at all of them.
        Err(EngineError::Import(ImportError {
            fault: ImportFault::BadValue { .. },
            ..
        })) if guessed => {
            let whole = ImportOptions {
                sample_rows: None,
                ..options.clone()
            };
            store(Files::open(table, paths, &whole)?)
        }
        result => result,
    }?;
    txn.commit()?;
    let input_bytes = total_length(paths);
    Ok(ImportReport {
        rows: stats.rows,
        stored_bytes: stats.stored_bytes,
        input_bytes,
        elapsed: started.elapsed(),
    })
}

/// Writes all rows of the files into the transaction.
fn store(
    txn: &Txn,
    table: &str,
    files: &Files,
    total_bytes: u64,
    progress: &mut dyn FnMut(&ImportProgress),
    cancel: &AtomicBool,
) -> Result<TableStats, EngineError> {
    let wrong = |error| column_fault(files, 0, error);
    let mut writer =
        TableWriter::new(txn, table, files.schema.clone(), TableOptions::default()).map_err(wrong)?;
    std::thread::scope(|scope| {
        let (sender, receiver): (SyncSender<Decoded>, Receiver<Decoded>) = sync_channel(QUEUE);
        scope.spawn(move || decode(files, &sender));
        for (file_number, batch) in receiver {
            if cancel.load(Ordering::Relaxed) {
                return Err(EngineError::Cancelled);
            }
            writer
                .write(&batch?)
                .map_err(|error| column_fault(files, file_number, error))?;
            progress(&ImportProgress {
                file: files.path(file_number).to_path_buf(),
                file_number,
                files: files.count(),
                rows: writer.rows(),
                bytes: files.bytes.get(),
                total_bytes,
            });
        }
        match cancel.load(Ordering::Relaxed) {
            true => Err(EngineError::Cancelled),
            false => Ok(writer.finish()?),
        }
    })
}

/// A batch, or why there is none, with the number of its file.
type Decoded = (usize, Result<RecordBatch, ImportError>);

/// Sends all batches of all files, up to the first error or until nobody listens.
fn decode(files: &Files, sender: &SyncSender<Decoded>) {
    for number in 0..files.count() {
        let input = match files.read(number) {
            Ok(input) => input,
            Err(error) => {
                let _ = sender.send((number, Err(error)));
                return;
            }
        };
        for batch in input.batches {
            let failed = batch.is_err();
            if sender.send((number, batch)).is_err() || failed {
                return;
            }
        }
    }
}

/// What the table writer refuses is a fault of the file where it names a column.
fn column_fault(files: &Files, number: usize, error: ColumnsError) -> EngineError {
    let (column, what) = match &error {
        ColumnsError::UnsupportedType { column, data_type } => {
            (column, ImportFault::UnsupportedType(sql_name(data_type)))
        }
        ColumnsError::ValueTooWide { column, .. } | ColumnsError::NullInNotNull { column, .. } => {
            (column, ImportFault::Other(error.to_string()))
        }
        _ => return error.into(),
    };
    let own = fault(files.path(number), Place::File, what);
    ImportError {
        column: Some(column.clone()),
        ..own
    }
    .into()
}
