//! Kinds of tables: the one list of them, and the operations that statements call without knowing the kind.
//!
//! A statement finds the table that it names by [`find_table`] and calls the [`TargetTable`] that it gets.
//! Adding a kind takes one file that implements [`TableKind`] and [`TargetTable`], and one line in [`KINDS`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_import::{ImportOptions, ImportProgress, ImportReport};
use halocline_sql::EngineError;
use halocline_sql::table_spec::TableSpec;

use super::drop_plan::DropPlan;
use super::keyed_table::KeyedTableKind;
use super::plain_table::PlainTableKind;
use super::run::StatementRun;
use super::table_changes::{Alter, CopyFrom, Delete, Insert, NewTable, NewTableAs, Update};
use super::temporary_table::TemporaryTableKind;
use super::truncate_plan::TruncatePlan;
use crate::session::DatabaseSession;

/// All kinds of tables, in the order in which names are looked up and a statement over tables of several
/// kinds changes them. The last one also takes names of no table: its statements report that there is none.
pub(super) const KINDS: [&dyn TableKind; 3] = [&TemporaryTableKind, &KeyedTableKind, &PlainTableKind];

/// A callback that decides whether a statement goes on after an error with the table of this name.
pub(super) type OnTableError<'a> = dyn FnMut(&str, EngineError) -> Result<(), EngineError> + 'a;

/// A kind of tables: the operations that need no existing table, or all tables of the kind at once.
pub(crate) trait TableKind: Sync {
    /// Returns the name of the kind, which no other kind has.
    fn name(&self) -> &'static str;

    /// Returns the table of this name, for a statement that changes it; `None` if it is one of another kind.
    ///
    /// # Errors
    /// The pool or the stores cannot be read.
    fn find(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        name: &str,
    ) -> Result<Option<Box<dyn TargetTable>>, EngineError>;

    /// Returns true if there is a table of this kind with this name. `catalog` is the version of the pool in
    /// which the statement looks all names up.
    ///
    /// # Errors
    /// The stores cannot be read.
    fn has(&self, catalog: &Catalog, engine: &EngineContext, name: &str) -> Result<bool, EngineError>;

    /// Waits for another process that has the tables of the kind open for writing, as long as statements of
    /// the session wait for another writer or until `cancel` is set. Blocks.
    ///
    /// # Errors
    /// The other process keeps them open; the caller wants the end.
    fn open_for_writing(
        &self,
        _session: &DatabaseSession,
        _engine: &Arc<EngineContext>,
        _cancel: &AtomicBool,
    ) -> Result<(), EngineError> {
        Ok(())
    }

    /// Returns true if a new table with this primary key, which is empty if there is none, is of this kind.
    fn creates(&self, key: &[String]) -> bool;

    /// Creates a table without rows, and returns a message.
    fn create<'a>(
        &'a self,
        run: &'a StatementRun<'a>,
        table: NewTable,
    ) -> BoxFuture<'a, Result<String, EngineError>>;

    /// Creates a table with the rows of a query, and returns a message.
    fn create_as<'a>(
        &'a self,
        run: &'a StatementRun<'a>,
        table: NewTableAs,
    ) -> BoxFuture<'a, Result<String, EngineError>>;

    /// Adds tables of this kind, at least one and each of them once, to those that a statement empties.
    fn truncate_with(&self, names: Vec<String>, plan: &mut TruncatePlan);

    /// Returns true if a name stands for a table of this kind before it stands for an external table.
    fn hides_external_tables(&self) -> bool;

    /// Adds tables of this kind, at least one, to those that a statement drops.
    fn drop_with(&self, names: Vec<String>, plan: &mut DropPlan);

    /// Gives unused space of a table back if that takes no merge of segments. Returns false if no table of
    /// this kind has the name, or its segments are to be merged. `failed` receives errors of the table,
    /// others are returned. Waits up to a time for another writer.
    ///
    /// # Errors
    /// The pool cannot be read; another writer keeps the lock; the caller wants the end.
    fn reclaim(
        &self,
        _engine: &Arc<EngineContext>,
        _name: &str,
        _wait: (Duration, &AtomicBool),
        _failed: &mut OnTableError<'_>,
    ) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// Fails if there is a table of this kind with this name, and the kind has no indexes.
    ///
    /// # Errors
    /// There is; the error says what to do instead.
    fn check_index(&self, _engine: &EngineContext, _table: &str) -> Result<(), EngineError> {
        Ok(())
    }
}

/// A table that a statement names and changes.
pub(crate) trait TargetTable: Send + Sync {
    /// Returns the kind of the table.
    fn kind(&self) -> &'static dyn TableKind;

    /// Returns true unless [`open_for_writing`](TableKind::open_for_writing) must be called before the table
    /// is looked up again and changed.
    fn is_writable(&self) -> bool {
        true
    }

    /// Inserts rows, and returns their number.
    fn insert<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        insert: Insert,
    ) -> BoxFuture<'a, Result<u64, EngineError>>;

    /// Changes rows, and returns their number.
    fn update<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        update: Update,
    ) -> BoxFuture<'a, Result<u64, EngineError>>;

    /// Deletes rows, and returns their number.
    fn delete<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        delete: Delete,
    ) -> BoxFuture<'a, Result<u64, EngineError>>;

    /// Adds the rows of a file, and returns their number.
    fn copy_from<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        copy: CopyFrom,
    ) -> BoxFuture<'a, Result<u64, EngineError>>;

    /// Changes the definition of the table, and returns a message.
    fn alter<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        alter: Alter,
    ) -> BoxFuture<'a, Result<String, EngineError>>;

    /// Imports files, as [`Database::import`](crate::Database::import) does. Blocks.
    ///
    /// # Errors
    /// Those of [`Database::import`](crate::Database::import).
    fn import(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        files: &[PathBuf],
        options: &ImportOptions,
        progress: &mut dyn FnMut(&ImportProgress),
        cancel: &AtomicBool,
    ) -> Result<ImportReport, EngineError>;

    /// Inserts a batch by column names, as [`Database::insert`](crate::Database::insert) does. Blocks.
    ///
    /// # Errors
    /// Those of [`Database::insert`](crate::Database::insert).
    fn insert_batch(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        batch: &RecordBatch,
    ) -> Result<u64, EngineError>;
}

/// Returns the table of this name, for a statement that changes it. Waits for another process that has it
/// open, as long as statements of the session wait for another writer or until `cancel` is set. Blocks.
///
/// # Errors
/// The pool cannot be read; the table cannot be opened for writing.
pub(crate) fn find_table(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    name: &str,
    cancel: &AtomicBool,
) -> Result<Box<dyn TargetTable>, EngineError> {
    let found = look_up(session, engine, name)?;
    if found.is_writable() {
        return Ok(found);
    }
    let kind = found.kind();
    drop(found);
    kind.open_for_writing(session, engine, cancel)?;
    look_up(session, engine, name)
}

/// Returns the table of this name, which may be open for reading only. Does not wait.
fn look_up(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    name: &str,
) -> Result<Box<dyn TargetTable>, EngineError> {
    for kind in KINDS {
        if let Some(found) = kind.find(session, engine, name)? {
            return Ok(found);
        }
    }
    Err(session.peek(engine)?.no_table(name))
}

/// Returns the kind of a new table with this primary key, which is empty if there is none.
pub(super) fn kind_of_key(key: &[String]) -> &'static dyn TableKind {
    let kind = KINDS.into_iter().find(|kind| kind.creates(key));
    kind.unwrap_or(&PlainTableKind)
}

/// Returns true if a table of a kind other than `own` has this name.
///
/// # Errors
/// A view has it; the pool or the stores cannot be read.
pub(super) fn is_taken(run: &StatementRun<'_>, name: &str, own: &dyn TableKind) -> Result<bool, EngineError> {
    let catalog = run.session.peek(run.engine)?;
    if catalog.has_view(name) && !catalog.has_table(name) {
        return Err(taken_by_view(name));
    }
    for kind in KINDS {
        if kind.name() != own.name() && kind.has(&catalog, run.engine, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the error for a new table, or a new name of one, that a view has.
pub(super) fn taken_by_view(name: &str) -> EngineError {
    EngineError::Exists {
        kind: "view",
        name: name.to_owned(),
        instead: "drop it with DROP VIEW, or choose another name",
    }
}

/// Returns the message, or the error, for a new table whose name one of another kind has, which is not
/// replaced.
pub(super) fn taken_by_another(spec: &TableSpec) -> Result<String, EngineError> {
    match (spec.if_not_exists, spec.or_replace) {
        (true, _) => Ok(spec.is_there()),
        (false, true) => Err(EngineError::Exists {
            kind: "table",
            name: spec.name.clone(),
            instead: "it differs in having a primary key: drop it first",
        }),
        (false, false) => Err(spec.exists()),
    }
}

impl StatementRun<'_> {
    /// Returns the table of this name, for the statement to change; see [`find_table`].
    ///
    /// # Errors
    /// Those of [`find_table`].
    pub(super) async fn table(&self, name: &str) -> Result<Box<dyn TargetTable>, EngineError> {
        let found = look_up(self.session, self.engine, name)?;
        if found.is_writable() {
            return Ok(found);
        }
        drop(found);
        let (name, cancel) = (name.to_owned(), self.cancel_flag());
        self.blocking(move |session, engine| find_table(session, engine, &name, &cancel))
            .await
    }
}
