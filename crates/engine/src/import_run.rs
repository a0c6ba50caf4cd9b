//! The import: a thread decodes, this one encodes and stores.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use arrow_array::RecordBatch;
use halocline_catalog::context::EngineContext;
use halocline_catalog::spill_files::SpillFiles;
use halocline_catalog::transaction::Transaction;
use halocline_catalog::write::BatchFitter;
use halocline_columns::{ColumnsError, Table, TableEncoding, TableStats, TableWriter};
use halocline_import::{
    Files, ImportError, ImportFault, ImportOptions, ImportProgress, ImportReport, SourceLocation, fault,
    total_length,
};
use halocline_sql::EngineError;
use halocline_sql::table_spec::TableSpec;
use halocline_values::sql_name;

use crate::statement::{is_needed, make};

/// Batches between the decoder and the encoder.
const QUEUE: usize = 4;

/// Batches in DRAM: those in the queue, one at each end of it, and as much again for what the decoder needs
/// for itself.
const IN_FLIGHT: usize = 2 * (QUEUE + 2);

/// Imports files into a new table, or into one there is.
///
/// # Errors
/// See [`crate::Database::import`].
pub(crate) fn run(
    transaction: &mut Transaction,
    table: &str,
    paths: &[PathBuf],
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress),
    cancel: &AtomicBool,
) -> Result<ImportReport, EngineError> {
    let started = Instant::now();
    let table_spec = TableSpec {
        name: table.to_string(),
        if_not_exists: options.append,
        or_replace: false,
        cluster: Some(options.cluster.clone()).filter(|columns| !columns.is_empty()),
        encoding: options.encoding,
    };
    let is_new = is_needed(&table_spec, transaction)
        .map_err(|error| if_taken(error, "drop it first, or import into a table of another name"))?;
    let mut options = options.clone();
    if !is_new {
        let open = transaction.catalog().table(table)?.table.clone();
        stays_as_it_is(&open, &options)?;
        options.schema.get_or_insert(open.schema().clone());
    }
    let engine = Arc::clone(transaction.engine());
    let files = open(&engine, table, paths, &options)?;
    let guessed = files.guessed;
    let (mut dialects, mut columns) = (Vec::new(), Vec::new());
    let mut store = |files: Files| {
        (dialects, columns) = (files.dialects(), files.columns.clone());
        if is_new {
            make(&table_spec, transaction, &files.schema).map_err(|error| own_fault(&files, error))?;
        }
        store(transaction, table, &files, progress, cancel)
    };
    let stats = match store(files) {
        // A value did not fit the type guessed from the sample: look at all of them.
        Err(EngineError::Import(ImportError {
            fault: ImportFault::BadValue { .. },
            ..
        })) if guessed => {
            let whole = options.clone().with_sample_rows(None);
            store(open(&engine, table, paths, &whole)?)
        }
        result => result,
    }?;
    let uid = transaction.catalog().objects().table(table)?.table.uid();
    transaction.changed([uid]);
    let input_bytes = total_length(paths);
    Ok(ImportReport {
        rows: stats.rows,
        stored_bytes: stats.stored_bytes,
        input_bytes,
        elapsed: started.elapsed(),
        dialects,
        columns,
    })
}

/// Opens files whose batches take a part of the memory.
///
/// # Errors
/// As [`Files::open`]; there is none.
pub(crate) fn open(
    engine: &EngineContext,
    table: &str,
    paths: &[PathBuf],
    options: &ImportOptions,
) -> Result<Files, EngineError> {
    if paths.is_empty() {
        return Err(EngineError::Query("there is no file to import".into()));
    }
    let mut options = options.clone();
    let batch_bytes = engine.budget().decoding() / IN_FLIGHT;
    options.batch_bytes.get_or_insert(batch_bytes);
    Ok(Files::open(table, paths, &options)?.spilling_to(Arc::<SpillFiles>::clone(&engine.spill_files)))
}

/// Hands the rows of files to `write`, which returns the number of rows so far.
///
/// # Errors
/// A malformed file names itself and the place; those of `write`; `cancel` was set.
pub(crate) fn read_rows(
    files: &Files,
    progress: &mut dyn FnMut(&ImportProgress),
    cancel: &AtomicBool,
    mut write: impl FnMut(RecordBatch) -> Result<u64, EngineError>,
) -> Result<ImportReport, EngineError> {
    let started = Instant::now();
    let input_bytes = files.length();
    let mut rows = 0;
    each_batch(files, input_bytes, progress, cancel, |_, batch| {
        rows = write(batch)?;
        Ok(rows)
    })?;
    Ok(ImportReport {
        rows,
        stored_bytes: 0,
        input_bytes,
        elapsed: started.elapsed(),
        dialects: files.dialects(),
        columns: files.columns.clone(),
    })
}

/// Checks that the requested properties are those of an existing table.
fn stays_as_it_is(open: &Table, options: &ImportOptions) -> Result<(), EngineError> {
    let (name, cluster) = (open.name(), open.cluster().unwrap_or_default());
    if !options.cluster.is_empty() && options.cluster != cluster {
        let order = match cluster {
            [] => "as they came".to_string(),
            columns => format!("sorted by {}", columns.join(", ")),
        };
        return Err(EngineError::Query(format!(
            "the rows of table '{name}' are kept {order}: import without an order, or change it with ALTER TABLE {name} \
             CLUSTER BY ({}) first",
            options.cluster.join(", ")
        )));
    }
    if options.encoding != TableEncoding::default() && options.encoding != open.encoding() {
        return Err(EngineError::Query(format!(
            "table '{name}' has the encoding {}, which stays: import into a new table",
            open.encoding()
        )));
    }
    Ok(())
}

fn if_taken(error: EngineError, instead: &'static str) -> EngineError {
    match error {
        EngineError::Exists { kind, name, .. } => EngineError::Exists { kind, name, instead },
        other => other,
    }
}

/// Returns the error if the columns of the files cannot be imported.
fn own_fault(files: &Files, error: EngineError) -> EngineError {
    match error {
        EngineError::Columns(error) => column_fault(files, 0, error),
        other => other,
    }
}

/// Writes all rows of the files into the transaction.
fn store(
    transaction: &Transaction,
    table: &str,
    files: &Files,
    progress: &mut dyn FnMut(&ImportProgress),
    cancel: &AtomicBool,
) -> Result<TableStats, EngineError> {
    let wrong = |error| column_fault(files, 0, error);
    let open = Table::open_in(transaction.txn(), table).map_err(wrong)?;
    let columns = open.schema().fields().len();
    let mut rules = (!open.rules().is_empty()).then(|| {
        let all = (0..columns).map(Some).collect();
        BatchFitter::new(format!("import into {table}"), open.schema(), all).with_defaults(&open)
    });
    let options = transaction.engine().table_options();
    let mut writer = TableWriter::append(transaction.txn(), table, options).map_err(wrong)?;
    each_batch(files, files.length(), progress, cancel, |file_number, batch| {
        let batch = match &mut rules {
            Some(rules) if batch.num_columns() == columns => rules.batch(&batch)?,
            // The writer refuses one with other columns.
            _ => batch,
        };
        let written = writer.write(&batch);
        written.map_err(|error| column_fault(files, file_number, error))?;
        Ok(writer.rows())
    })?;
    Ok(writer.finish()?)
}

/// Hands all batches of the files to `write`, which returns the number of rows so far.
fn each_batch(
    files: &Files,
    total_bytes: u64,
    progress: &mut dyn FnMut(&ImportProgress),
    cancel: &AtomicBool,
    mut write: impl FnMut(usize, RecordBatch) -> Result<u64, EngineError>,
) -> Result<(), EngineError> {
    std::thread::scope(|scope| {
        let (sender, receiver): (SyncSender<Decoded>, Receiver<Decoded>) = sync_channel(QUEUE);
        scope.spawn(move || decode(files, &sender));
        for (file_number, batch) in receiver {
            if cancel.load(Ordering::Relaxed) {
                return Err(EngineError::Cancelled);
            }
            let rows = write(file_number, batch?)?;
            progress(&ImportProgress {
                file: files.path(file_number).to_path_buf(),
                file_number,
                files: files.count(),
                rows,
                bytes: files.bytes.get(),
                total_bytes,
            });
        }
        if cancel.load(Ordering::Relaxed) {
            Err(EngineError::Cancelled)
        } else {
            Ok(())
        }
    })
}

/// A batch, or why there is none, with the number of its file.
type Decoded = (usize, Result<RecordBatch, ImportError>);

/// Sends all batches of all files, up to the first error or until the receiver is dropped.
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

/// Converts an error of the table writer to one of the file where it names a column.
fn column_fault(files: &Files, number: usize, error: ColumnsError) -> EngineError {
    let (column, what) = match &error {
        ColumnsError::UnsupportedType { column, data_type } => {
            (column, ImportFault::UnsupportedType(sql_name(data_type)))
        }
        ColumnsError::NullInNotNull { column, .. } => (column, ImportFault::Other(error.to_string())),
        _ => return error.into(),
    };
    let own = fault(files.path(number), SourceLocation::File, what);
    ImportError {
        column: Some(column.clone()),
        ..own
    }
    .into()
}
