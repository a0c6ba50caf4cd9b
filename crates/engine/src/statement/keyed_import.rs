//! Rows of files and batches into tables with a primary key.
//!
//! Invariant: all rows become part of the open transaction, or of one of their own, or none does. One of
//! their own is run again, with the files read again, if other transactions have changed what it depends on.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use halocline_catalog::context::EngineContext;
use halocline_catalog::write::{BatchFitter, arrange};
use halocline_columns::TableEncoding;
use halocline_import::{Files, total_length};
use halocline_keyed::{KeyedTable, KeyedView, RewriteRule};
use halocline_sql::cancel::NEVER;
use halocline_store::StoreError;

use super::keyed_changes::{CollectedChanges, KeyedChanges};
use super::keyed_load::{TableLoad, is_empty};
use super::keyed_rows::ATTEMPTS;
use super::keyed_table::FoundTable;
use super::row_errors::RowNames;
use crate::import_run::{self, read_rows};
use crate::session::DatabaseSession;
use crate::{EngineError, ImportOptions, ImportProgress, ImportReport};

/// Bytes of files from which on their rows are loaded, into a table without rows.
const LOADED_BYTES: u64 = 1 << 20;

/// A hint for rows with a key that is there.
const LOAD_AND_MERGE: &str = "import into a table without a primary key, and INSERT from it with ON CONFLICT";
/// A hint for rows with a key that is there.
const USE_SQL: &str = "UPDATE that row, or use INSERT with ON CONFLICT";

/// Adds the rows of files to a table.
///
/// # Errors
/// As [`crate::Database::import`]; a row has the key of another one; the rows exceed the limit of a
/// statement.
pub(super) fn import_keyed(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    found: &FoundTable,
    files: &[PathBuf],
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress),
    cancel: &AtomicBool,
) -> Result<ImportReport, EngineError> {
    let table = &found.1;
    if !options.append {
        return Err(EngineError::Exists {
            kind: "table",
            name: table.name().to_owned(),
            instead: "drop it first, or import into a table of another name",
        });
    }
    if !options.cluster.is_empty() || options.encoding != TableEncoding::default() {
        return Err(EngineError::Query(format!(
            "table '{}' is kept in the order of its primary key, without an encoding; import without these options",
            table.name()
        )));
    }
    // The open transaction sees tables of both kinds as of one moment, which may be this one.
    session.catalog(engine)?;
    let open = session.slot().keyed_transaction(found.0.stores(), &engine.pool)?;
    if open.is_none() && total_length(files) >= LOADED_BYTES && is_empty(table)? {
        return load_files(engine, found, files, options, progress, cancel);
    }
    change(session, engine, found, "import", cancel, |changes| {
        let mut fitter = None;
        let files = open_files(engine, table, files, options)?;
        read_rows(&files, progress, cancel, |batch| {
            let fitter = match &mut fitter {
                Some(fitter) => fitter,
                none => none.insert(fitter_for(found, "import", &batch)?),
            };
            let names = RowNames::From(fitter.rows() + 1);
            let batch = changes.errors().fit(fitter, &batch, names)?;
            changes.add(&batch, names, LOAD_AND_MERGE)?;
            // All are new, or the import fails.
            Ok(fitter.rows())
        })
    })
}

/// Opens files with the columns of a table, unless the options name others.
fn open_files(
    engine: &EngineContext,
    table: &KeyedTable,
    paths: &[PathBuf],
    options: &ImportOptions,
) -> Result<Files, EngineError> {
    let mut options = options.clone();
    options.schema.get_or_insert_with(|| Arc::clone(table.schema()));
    import_run::open(engine, table.name(), paths, &options)
}

/// Loads the rows of files into a table without rows.
///
/// # Errors
/// As [`import_keyed`]; the table is changed meanwhile.
fn load_files(
    engine: &Arc<EngineContext>,
    found: &FoundTable,
    files: &[PathBuf],
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress),
    cancel: &AtomicBool,
) -> Result<ImportReport, EngineError> {
    let (tables, table) = found;
    let (transaction, mut share) = (tables.stores().begin(), Some(engine.writer_share()));
    let mut load = None;
    let files = open_files(engine, table, files, options)?;
    let report = read_rows(&files, progress, cancel, |batch| {
        if let Some(share) = share.take() {
            let fitting = (
                format!("import into {}", table.name()),
                fitter_for(found, "import", &batch)?,
            );
            let definition = table.definition().clone();
            load = Some(TableLoad::begin(engine, tables, definition, fitting, share)?);
        }
        let Some(load) = &mut load else {
            return Ok(0);
        };
        load.add(&batch)?;
        Ok(load.rows())
    })?;
    if let Some(load) = load {
        let (loaded, _) = load.finish(cancel)?;
        tables.publish_in_place_of(loaded, table, transaction)?;
    }
    Ok(report)
}

/// Inserts a batch by column names; columns of the table that it lacks take their default. Returns the number
/// of rows.
///
/// # Errors
/// No such column; a value does not fit; a row has the key of another one.
pub(super) fn insert_keyed_batch(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    found: &FoundTable,
    batch: &RecordBatch,
) -> Result<u64, EngineError> {
    change(session, engine, found, "insert", &NEVER, |changes| {
        let fitter = fitter_for(found, "insert", batch)?;
        let (mut fitter, names) = (fitter.in_zone(session.time_zone()), RowNames::From(1));
        let fitted = changes.errors().fit(&mut fitter, batch, names)?;
        changes.add(&fitted, names, USE_SQL)?;
        // All are new, or the insert fails.
        Ok(fitter.rows())
    })
}

/// Returns what brings batches into the columns of the table, by name.
fn fitter_for(found: &FoundTable, what: &str, batch: &RecordBatch) -> Result<BatchFitter, EngineError> {
    let table = &*found.1;
    let schema = batch.schema();
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let from = arrange(table.name(), table.schema(), &names)?;
    let statement = format!("{what} into {}", table.name());
    Ok(BatchFitter::new(statement, table.schema(), from).with_defaults(table))
}

/// Collects changes of one table and commits them, or leaves that to the open transaction.
fn change<T>(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    found: &FoundTable,
    what: &'static str,
    cancel: &AtomicBool,
    mut fill: impl FnMut(&mut KeyedChanges<'_>) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let (tables, table) = found;
    let statement = format!("{what} into {}", table.name());
    // The open transaction sees tables of both kinds as of one moment, which may be this one.
    session.catalog(engine)?;
    if let Some(open) = session.slot().keyed_transaction(tables.stores(), &engine.pool)? {
        let view = KeyedView::Transaction(Arc::clone(&open));
        let table = tables.table_in(table.name(), &view)?;
        let table = table.as_ref().unwrap_or(&found.1);
        let mut changes = KeyedChanges::new(engine, table, &view, statement, RewriteRule::Insert);
        let value = fill(&mut changes)?;
        let slot = session.slot();
        slot.check_writes_keyed(&open)?;
        match changes.collected() {
            CollectedChanges::InDram(changes) => {
                let reserved = changes.apply(table, &open)?;
                slot.write_keyed(&open, table, reserved)?;
            }
            CollectedChanges::Spilled(spilled) => {
                spilled.replace_in(slot, tables, &open, cancel)?;
            }
        }
        return Ok(value);
    }
    let mut table = Arc::clone(table);
    for _ in 0..ATTEMPTS {
        let transaction = Arc::new(Mutex::new(tables.stores().begin()));
        let view = KeyedView::Transaction(Arc::clone(&transaction));
        let rule = RewriteRule::Insert;
        let mut changes = KeyedChanges::new(engine, &table, &view, statement.as_str(), rule);
        let value = fill(&mut changes)?;
        let changes = changes.collected();
        drop(view);
        match changes {
            CollectedChanges::Spilled(spilled) => {
                if spilled.publish(tables, &transaction, cancel)?.is_some() {
                    drop((transaction, table));
                    tables.drop_replaced();
                    return Ok(value);
                }
            }
            CollectedChanges::InDram(changes) => {
                let _reserved = changes.apply(&table, &transaction)?;
                let mut held = transaction.lock().unwrap_or_else(PoisonError::into_inner);
                match std::mem::replace(&mut *held, tables.stores().begin()).commit() {
                    Err(StoreError::Conflict { .. } | StoreError::Dropped { .. }) => {}
                    committed => return Ok(committed.map(|()| value)?),
                }
            }
        }
        // Another one may have taken its place.
        table = tables.existing(table.name())?;
    }
    Err(EngineError::TooManyConflicts {
        statement,
        attempts: ATTEMPTS,
    })
}
