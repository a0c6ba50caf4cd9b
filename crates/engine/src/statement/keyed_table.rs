//! Tables with a primary key as statements change them.
//!
//! Changes of rows and of definitions are part of the open transaction, or of one of their own. `CREATE`,
//! `TRUNCATE` and other names of tables take effect at once, and are no part of a transaction.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_import::{ImportOptions, ImportProgress, ImportReport};
use halocline_keyed::{KeyedTable, KeyedTables};
use halocline_scan::keyed::is_keyed;
use halocline_sql::EngineError;

use super::drop_plan::DropPlan;
use super::keyed_definition::{create_keyed, define};
use super::keyed_import::{import_keyed, insert_keyed_batch};
use super::keyed_rows::KeyedChange;
use super::run::StatementRun;
use super::table_changes::{Alter, CopyFrom, Delete, Insert, NewTable, NewTableAs, Update};
use super::table_kind::{OnTableError, TableKind, TargetTable, is_taken, taken_by_another};
use super::truncate_plan::TruncatePlan;
use crate::session::DatabaseSession;

/// All tables with a primary key, and one of them.
pub(super) type FoundTable = (Arc<KeyedTables>, Arc<KeyedTable>);

/// Returns the tables with a primary key and the one of this name; `None` if it is no such table. `catalog`
/// has the tables of the other kind.
///
/// # Errors
/// The stores cannot be opened and there is no other table of this name.
fn look_up_keyed(
    catalog: &Catalog,
    engine: &EngineContext,
    name: &str,
) -> Result<Option<FoundTable>, EngineError> {
    if catalog.has_table(name) {
        return Ok(None);
    }
    let look_up = || -> Result<_, EngineError> {
        let tables = engine.stores.existing_tables()?;
        Ok(tables.and_then(|tables| {
            let table = tables.table(name)?;
            Some((tables, table))
        }))
    };
    match look_up()? {
        // Another process may have created it since.
        None if engine.stores.renew()? => look_up(),
        found => Ok(found),
    }
}

/// The kind of tables with a primary key.
pub(super) struct KeyedTableKind;

impl TableKind for KeyedTableKind {
    fn name(&self) -> &'static str {
        "table with a primary key"
    }

    fn find(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        name: &str,
    ) -> Result<Option<Box<dyn TargetTable>>, EngineError> {
        let catalog = session.peek(engine)?;
        let found = look_up_keyed(&catalog, engine, name)?;
        Ok(found.map(|found| -> Box<dyn TargetTable> { Box::new(OpenKeyedTable(found)) }))
    }

    fn has(&self, catalog: &Catalog, engine: &EngineContext, name: &str) -> Result<bool, EngineError> {
        Ok(look_up_keyed(catalog, engine, name)?.is_some())
    }

    fn open_for_writing(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        cancel: &AtomicBool,
    ) -> Result<(), EngineError> {
        engine.stores.stores(session.lock_wait(), cancel).map(drop)
    }

    fn creates(&self, key: &[String]) -> bool {
        !key.is_empty()
    }

    fn create<'a>(
        &'a self,
        run: &'a StatementRun<'a>,
        table: NewTable,
    ) -> BoxFuture<'a, Result<String, EngineError>> {
        Box::pin(async move {
            let NewTable {
                spec,
                schema,
                defaults,
                key,
                rules,
            } = table;
            let zone = run.session.time_zone();
            let definition = define(&spec, &schema, (&defaults, zone), &key, &rules)?;
            run.session.slot().must_be_idle("CREATE TABLE … PRIMARY KEY")?;
            if is_taken(run, &spec.name, self)? {
                return taken_by_another(&spec);
            }
            let cancel = run.cancel_flag();
            run.blocking(move |session, engine| {
                let tables = engine.stores.tables(session.lock_wait(), &cancel)?;
                create_keyed(&tables, &spec, definition)
            })
            .await
        })
    }

    fn create_as<'a>(
        &'a self,
        run: &'a StatementRun<'a>,
        table: NewTableAs,
    ) -> BoxFuture<'a, Result<String, EngineError>> {
        Box::pin(async move {
            run.session.slot().must_be_idle("CREATE TABLE … PRIMARY KEY")?;
            if is_taken(run, &table.spec.name, self)? {
                return taken_by_another(&table.spec);
            }
            run.create_keyed_as(table).await
        })
    }

    fn truncate_with(&self, names: Vec<String>, plan: &mut TruncatePlan) {
        plan.truncate_in_stores(names);
    }

    fn hides_external_tables(&self) -> bool {
        false
    }

    fn drop_with(&self, names: Vec<String>, plan: &mut DropPlan) {
        plan.drop_in_stores(names);
    }

    fn reclaim(
        &self,
        engine: &Arc<EngineContext>,
        name: &str,
        (wait, cancel): (Duration, &AtomicBool),
        failed: &mut OnTableError<'_>,
    ) -> Result<bool, EngineError> {
        if engine.catalog()?.has_table(name) || !is_keyed(engine, name) {
            return Ok(false);
        }
        // Its rows are in the log of the stores, which empties segments with much garbage.
        if let Err(error) = engine.stores.stores(wait, cancel)?.reclaim() {
            failed(name, error.into())?;
        }
        Ok(true)
    }

    fn check_index(&self, engine: &EngineContext, table: &str) -> Result<(), EngineError> {
        if is_keyed(engine, table) {
            Err(EngineError::Unsupported {
                what: format!("an index on {table}, which has a primary key,"),
                instead:
                    "its rows are found by the columns of the key, from the first on; keep a copy without a \
                          primary key (CREATE TABLE … AS) for conditions on others"
                        .into(),
            })
        } else {
            Ok(())
        }
    }
}

/// A table with a primary key that was looked up.
struct OpenKeyedTable(FoundTable);

impl TargetTable for OpenKeyedTable {
    fn kind(&self) -> &'static dyn TableKind {
        &KeyedTableKind
    }

    fn is_writable(&self) -> bool {
        !self.0.0.stores().is_reader()
    }

    fn insert<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        insert: Insert,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        self.change(run, KeyedChange::Insert(insert))
    }

    fn update<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        update: Update,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        self.change(run, KeyedChange::Update(update))
    }

    fn delete<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        delete: Delete,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        self.change(run, KeyedChange::Delete(delete))
    }

    fn copy_from<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        copy: CopyFrom,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        let cancel = run.cancel_flag();
        Box::pin(run.blocking(move |session, engine| {
            let CopyFrom { file, options, .. } = copy;
            let report = import_keyed(session, engine, &self.0, &[file], &options, &mut |_| (), &cancel)?;
            Ok(report.rows)
        }))
    }

    fn alter<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        alter: Alter,
    ) -> BoxFuture<'a, Result<String, EngineError>> {
        let Self(found) = *self;
        Box::pin(run.alter_keyed(found, alter))
    }

    fn import(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        files: &[PathBuf],
        options: &ImportOptions,
        progress: &mut dyn FnMut(&ImportProgress),
        cancel: &AtomicBool,
    ) -> Result<ImportReport, EngineError> {
        import_keyed(session, engine, &self.0, files, options, progress, cancel)
    }

    fn insert_batch(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        batch: &RecordBatch,
    ) -> Result<u64, EngineError> {
        insert_keyed_batch(session, engine, &self.0, batch)
    }
}

impl OpenKeyedTable {
    /// Changes rows of the table, and returns their number.
    fn change<'a>(
        self,
        run: &'a StatementRun<'a>,
        change: KeyedChange,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        let Self((tables, table)) = self;
        Box::pin(async move { run.change_keyed(&tables, table, &change).await })
    }
}
