//! Tables of columns, without a primary key, as statements change them.
//!
//! A change is part of the open transaction, or of one of its own, which holds the writer's lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatch;
use datafusion::sql::sqlparser::ast::Query;
use futures::future::BoxFuture;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::Transaction;
use halocline_columns::TableRule;
use halocline_import::{ImportOptions, ImportProgress, ImportReport};
use halocline_sql::EngineError;
use halocline_sql::cancel::NEVER;
use halocline_sql::table_spec::TableSpec;

use super::constraints::unique_without_key;
use super::defaults::spelled_out;
use super::drop_plan::DropPlan;
use super::insert_rows::{insert_batch, insert_literals, insert_rows};
use super::kept_indexes::KeptIndexes;
use super::modify::{ChangedTable, delete_all, delete_rows, plan_delete, plan_update, update_rows};
use super::plain_alter::rename;
use super::plain_create;
use super::plain_drop::{drop_tables, truncate_tables};
use super::run::StatementRun;
use super::table_changes::{
    Alter, Alterations, CopyFrom, Delete, Insert, InsertSource, NewTable, NewTableAs, OnConflict, Update,
    taken,
};
use super::table_kind::{TableKind, TargetTable, is_taken, taken_by_another};
use super::truncate_plan::TruncatePlan;
use crate::import_run;
use crate::session::DatabaseSession;

/// The kind of tables without a primary key.
pub(super) struct PlainTableKind;

impl TableKind for PlainTableKind {
    fn name(&self) -> &'static str {
        "table of columns"
    }

    fn find(
        &self,
        _session: &DatabaseSession,
        _engine: &Arc<EngineContext>,
        name: &str,
    ) -> Result<Option<Box<dyn TargetTable>>, EngineError> {
        // The statement looks the name up again under the lock, where it reports that there is no such table.
        Ok(Some(Box::new(PlainTable(name.to_owned()))))
    }

    fn has(&self, catalog: &Catalog, _engine: &EngineContext, name: &str) -> Result<bool, EngineError> {
        Ok(catalog.has_table(name))
    }

    fn creates(&self, key: &[String]) -> bool {
        key.is_empty()
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
                rules,
                ..
            } = table;
            if rules.iter().any(|rule| matches!(rule, TableRule::Unique { .. })) {
                return Err(unique_without_key(&spec.name));
            }
            if is_taken(run, &spec.name, self)? {
                return taken_by_another(&spec);
            }
            let (zone, cancel) = (run.session.time_zone(), run.cancel_flag());
            run.change("CREATE TABLE", move |transaction| {
                if !plain_create::is_needed(&spec, transaction)? {
                    return Ok(spec.is_there());
                }
                let kept = plain_create::make(&spec, transaction, &schema)?;
                plain_create::set_defaults(&spec, transaction, &schema, &defaults, zone)?;
                plain_create::set_row_rules(&spec, transaction, &rules)?;
                let indexes = kept.rebuild(transaction, &cancel)?;
                Ok(format!("table {}: 0 rows{indexes}", spec.name))
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
            let NewTableAs { spec, query, .. } = table;
            if is_taken(run, &spec.name, self)? {
                return taken_by_another(&spec);
            }
            let mut held = run.take("CREATE TABLE").await?;
            let filled = fill(run, &mut held.transaction, &spec, query).await;
            let cancel = run.cancel_flag();
            run.blocking(move |_, _| {
                let transaction = &mut held.transaction;
                let said = filled.and_then(|filled| match filled {
                    Some((rows, kept)) => {
                        let indexes = kept.rebuild(transaction, &cancel)?;
                        Ok(format!("table {}: {rows} rows{indexes}", spec.name))
                    }
                    None => Ok(spec.is_there()),
                });
                held.finish(said, &cancel)
            })
            .await
        })
    }

    fn truncate_with(&self, names: Vec<String>, plan: &mut TruncatePlan) {
        plan.truncate_in_pool(truncate_tables, names);
    }

    fn hides_external_tables(&self) -> bool {
        true
    }

    fn drop_with(&self, names: Vec<String>, plan: &mut DropPlan) {
        plan.drop_in_pool(drop_tables, names);
    }
}

/// The name of a table without a primary key, or of no table.
struct PlainTable(String);

impl TargetTable for PlainTable {
    fn kind(&self) -> &'static dyn TableKind {
        &PlainTableKind
    }

    fn insert<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        insert: Insert,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(async move {
            let Insert {
                table,
                columns,
                source,
                on_conflict,
            } = insert;
            if !matches!(on_conflict, OnConflict::Fail) {
                return Err(EngineError::Unsupported {
                    what: format!("INSERT INTO {table} with ON CONFLICT, OR or IGNORE"),
                    instead:
                        "the table has no primary key; create it with PRIMARY KEY, or DELETE the old rows first, \
                              within BEGIN and COMMIT"
                            .into(),
                });
            }
            match source {
                InsertSource::Literals(rows) => {
                    let zone = run.session.time_zone();
                    run.change("INSERT", move |transaction| {
                        insert_literals(transaction, &table, &columns, &rows, zone)
                    })
                    .await
                }
                InsertSource::Query(query) => {
                    let mut held = run.take("INSERT").await?;
                    let result = insert_query(run, &mut held.transaction, &table, &columns, query).await;
                    run.finish(held, result).await
                }
            }
        })
    }

    fn update<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        update: Update,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(async move {
            let mut held = run.take("UPDATE").await?;
            let result = update_in(run, &mut held.transaction, &update).await;
            run.finish(held, result).await
        })
    }

    fn delete<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        delete: Delete,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(async move {
            let mut held = run.take("DELETE").await?;
            let result = delete_in(run, &mut held.transaction, &delete).await;
            run.finish(held, result).await
        })
    }

    fn copy_from<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        copy: CopyFrom,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        let cancel = run.cancel_flag();
        Box::pin(run.change_large("COPY FROM", move |transaction| {
            let CopyFrom { table, file, options } = copy;
            let schema = transaction.catalog().table(&table)?.table.schema().clone();
            let options = options.with_schema(Some(schema));
            let report = import_run::run(transaction, &table, &[file], &options, &mut |_| (), &cancel)?;
            Ok(report.rows)
        }))
    }

    fn alter<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        alter: Alter,
    ) -> BoxFuture<'a, Result<String, EngineError>> {
        Box::pin(async move {
            let Alter {
                table,
                if_exists,
                what,
            } = alter;
            match what {
                Alterations::Rename(to) => {
                    if is_taken(run, &to, &PlainTableKind)? {
                        return Err(taken("table", &to));
                    }
                    run.change("ALTER TABLE", move |transaction| {
                        rename(transaction, (&table, if_exists), &to)
                    })
                    .await
                }
                Alterations::Definition(alterations) => {
                    run.alter_plain((table, if_exists), alterations).await
                }
            }
        })
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
        session.change_large(engine, "import", cancel, |transaction| {
            import_run::run(transaction, &self.0, files, options, progress, cancel)
        })
    }

    fn insert_batch(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        batch: &RecordBatch,
    ) -> Result<u64, EngineError> {
        let zone = session.time_zone();
        session.change(engine, "insert", &NEVER, |transaction| {
            insert_batch(transaction, &self.0, batch, zone)
        })
    }
}

/// Creates and fills a table; `None` if an existing one suffices.
async fn fill(
    run: &StatementRun<'_>,
    transaction: &mut Transaction,
    spec: &TableSpec,
    query: Box<Query>,
) -> Result<Option<(u64, KeptIndexes)>, EngineError> {
    if !plain_create::is_needed(spec, transaction)? {
        return Ok(None);
    }
    // The copy gets checksums of its own: what was intact once need not be so any more.
    run.engine.pool.forget_verified();
    let rows = run.session.query(&transaction.catalog(), query).await?;
    plain_create::fill(spec, transaction, rows).await.map(Some)
}

/// Inserts the rows of a query into columns of a table (all, if none is named), and returns their number.
async fn insert_query(
    run: &StatementRun<'_>,
    transaction: &mut Transaction,
    table: &str,
    columns: &[String],
    query: Box<Query>,
) -> Result<u64, EngineError> {
    let catalog = transaction.catalog();
    let query = spelled_out(query, &catalog.objects().table(table)?.table, columns)?;
    let rows = run.session.query(&catalog, query).await?;
    insert_rows(transaction, table, columns, rows, run.session.time_zone()).await
}

/// Deletes the rows that a statement selects, and returns their number.
async fn delete_in(
    run: &StatementRun<'_>,
    transaction: &mut Transaction,
    delete: &Delete,
) -> Result<u64, EngineError> {
    let catalog = transaction.catalog();
    let open = catalog.table(&delete.table)?;
    if delete.selection.is_none() {
        return delete_all(transaction, &open);
    }
    let planner = run.session.planner(&catalog);
    let plan = plan_delete(&planner, ChangedTable::of_pool(&open), delete).await?;
    let rows = planner.start(&plan).await?;
    delete_rows(transaction, &open, rows).await
}

/// Changes the rows that a statement selects, and returns their number.
async fn update_in(
    run: &StatementRun<'_>,
    transaction: &mut Transaction,
    update: &Update,
) -> Result<u64, EngineError> {
    let catalog = transaction.catalog();
    let open = catalog.table(&update.table)?;
    let planner = run.session.planner(&catalog);
    let (plan, from) = plan_update(&planner, ChangedTable::of_pool(&open), update).await?;
    let rows = planner.start(&plan).await?;
    update_rows(transaction, &open, from, rows, planner.time_zone()).await
}
