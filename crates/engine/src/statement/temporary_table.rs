//! Temporary tables as statements change them.
//!
//! A statement reads the table as it is at its start, and replaces it at its end, unless another statement of
//! the session has changed it meanwhile.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_schema::Field;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{self, Query};
use futures::StreamExt;
use futures::future::BoxFuture;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_catalog::write::{BatchFitter, RowRules, WrittenTable};
use halocline_import::{ImportOptions, ImportProgress, ImportReport};
use halocline_sql::EngineError;
use halocline_sql::names::stored_schema;
use halocline_sql::parse::refuse;
use halocline_values::storable::{storable_schema, to_schema};
use roaring::RoaringTreemap;

use super::defaults::{default_of, spelled_out};
use super::drop_plan::DropPlan;
use super::insert_rows::{literal_rows, named_rows, query_fitter};
use super::modify::{ChangedTable, plan_delete, plan_update};
use super::plain_create::nullable;
use super::run::StatementRun;
use super::table_changes::{
    Alter, CopyFrom, Delete, Insert, InsertSource, NewTable, NewTableAs, OnConflict, Update,
};
use super::table_kind::{TableKind, TargetTable};
use super::truncate_plan::TruncatePlan;
use crate::session::{DatabaseSession, StatementPlanner};
use crate::temporary::TemporaryTable;

/// The kind of tables of the session.
pub(super) struct TemporaryTableKind;

impl TableKind for TemporaryTableKind {
    fn name(&self) -> &'static str {
        "temporary table"
    }

    fn find(
        &self,
        session: &DatabaseSession,
        _engine: &Arc<EngineContext>,
        name: &str,
    ) -> Result<Option<Box<dyn TargetTable>>, EngineError> {
        let found = session.temporaries().table(name);
        Ok(found.map(|table| -> Box<dyn TargetTable> { Box::new(TemporaryTarget(table)) }))
    }

    /// Returns false: tables of the session do not take names of the pool.
    fn has(&self, _: &Catalog, _: &EngineContext, _: &str) -> Result<bool, EngineError> {
        Ok(false)
    }

    fn creates(&self, _key: &[String]) -> bool {
        false
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
            let name = spec.name.as_str();
            RowRules::plan(name, &schema, &rules)?;
            let schema = storable_schema(&schema);
            let repeated = {
                let mut distinct = BTreeSet::new();
                let mut names = schema.fields().iter().map(|field| field.name().clone());
                names.find(|name| !distinct.insert(name.clone()))
            };
            if let Some(column) = repeated {
                let text = format!("CREATE TEMP TABLE {name}: column {column} is named twice");
                return Err(EngineError::Query(text));
            }
            let zone = run.session.time_zone();
            let default = |(field, default): (&Arc<Field>, &Option<ast::Expr>)| {
                let value = default.as_ref();
                value.map(|expr| default_of(name, field, expr, zone)).transpose()
            };
            let values: Vec<_> = schema
                .fields()
                .iter()
                .zip(&defaults)
                .map(default)
                .collect::<Result<_, _>>()?;
            let table = TemporaryTable::new(name, schema, values).with_rules(rules);
            run.session.set_temporary_table(name, Some(table));
            Ok(format!("table {name} for this session: 0 rows"))
        })
    }

    fn create_as<'a>(
        &'a self,
        run: &'a StatementRun<'a>,
        table: NewTableAs,
    ) -> BoxFuture<'a, Result<String, EngineError>> {
        Box::pin(async move {
            let NewTableAs { spec, query, .. } = table;
            let (_, mut rows) = start(run, query).await?;
            let schema = nullable(&storable_schema(&stored_schema(rows.schema())));
            let mut table = TemporaryTable::new(&spec.name, Arc::clone(&schema), Vec::new());
            while let Some(batch) = rows.next().await {
                table.append(&to_schema(&batch?, &schema)?, memory(run.engine))?;
            }
            let count = table.rows();
            run.session.set_temporary_table(&spec.name, Some(table));
            Ok(format!("table {} for this session: {count} rows", spec.name))
        })
    }

    fn truncate_with(&self, names: Vec<String>, plan: &mut TruncatePlan) {
        plan.truncate_in_session(names);
    }

    fn hides_external_tables(&self) -> bool {
        true
    }

    fn drop_with(&self, names: Vec<String>, plan: &mut DropPlan) {
        plan.drop_in_session(names);
    }
}

/// A table of the session that was looked up.
struct TemporaryTarget(Arc<TemporaryTable>);

impl TargetTable for TemporaryTarget {
    fn kind(&self) -> &'static dyn TableKind {
        &TemporaryTableKind
    }

    fn insert<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        insert: Insert,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(async move {
            if !matches!(insert.on_conflict, OnConflict::Fail) {
                return refuse(
                    format!("INSERT INTO {} with ON CONFLICT, OR or IGNORE", insert.table),
                    "a temporary table has no primary key; DELETE the old rows first",
                );
            }
            let (table, columns) = (&*self.0, insert.columns.as_slice());
            let (mut batches, mut count) = (Vec::new(), 0);
            match insert.source {
                InsertSource::Literals(rows) => {
                    let (batch, mut fit) = literal_rows(table, columns, &rows, run.session.time_zone())?;
                    batches.push(fit.batch(&batch)?);
                    count = rows.len() as u64;
                }
                InsertSource::Query(query) => {
                    let (planner, rows) = start(run, spelled_out(query, table, columns)?).await?;
                    let fit = query_fitter(table, columns, &rows.schema(), planner.time_zone())?;
                    count += self.fit(run, rows, fit, |_| Ok(()), &mut batches).await?;
                }
            }
            self.publish(run, |now| added(now, &batches, run.engine))?;
            Ok(count)
        })
    }

    fn update<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        update: Update,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(async move {
            let planner = planner(run, None)?;
            let (plan, from) = plan_update(&planner, self.changed()?, &update).await?;
            let rows = planner.start(&plan).await?;
            let statement = format!("UPDATE {}", update.table);
            let fit = BatchFitter::new(statement, self.0.schema(), from)
                .with_defaults(&*self.0)
                .in_zone(planner.time_zone());
            let (mut gone, mut batches) = (RoaringTreemap::new(), Vec::new());
            let count = self
                .fit(run, rows, fit, |batch| note(batch, &mut gone), &mut batches)
                .await?;
            self.publish(run, |now| {
                self.must_be(now)?;
                added(&now.without(&gone, memory(run.engine))?, &batches, run.engine)
            })?;
            Ok(count)
        })
    }

    fn delete<'a>(
        self: Box<Self>,
        run: &'a StatementRun<'a>,
        delete: Delete,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(async move {
            if delete.selection.is_none() {
                let count = self.0.rows();
                self.publish(run, |now| {
                    self.must_be(now)?;
                    Ok(now.emptied())
                })?;
                return Ok(count);
            }
            let planner = planner(run, None)?;
            let plan = plan_delete(&planner, self.changed()?, &delete).await?;
            let mut rows = planner.start(&plan).await?;
            let mut gone = RoaringTreemap::new();
            while let Some(batch) = rows.next().await {
                note(&batch?, &mut gone)?;
            }
            self.publish(run, |now| {
                self.must_be(now)?;
                now.without(&gone, memory(run.engine))
            })?;
            Ok(gone.len())
        })
    }

    fn copy_from<'a>(
        self: Box<Self>,
        _run: &'a StatementRun<'a>,
        copy: CopyFrom,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(async move {
            refuse(
                format!("COPY into the temporary table {}", copy.table),
                "write INSERT INTO … SELECT * FROM 'file'",
            )
        })
    }

    fn alter<'a>(
        self: Box<Self>,
        _run: &'a StatementRun<'a>,
        alter: Alter,
    ) -> BoxFuture<'a, Result<String, EngineError>> {
        Box::pin(async move {
            refuse(
                format!("ALTER TABLE of the temporary table {}", alter.table),
                "create it anew with CREATE OR REPLACE TEMP TABLE … AS SELECT",
            )
        })
    }

    fn import(
        &self,
        _session: &DatabaseSession,
        _engine: &Arc<EngineContext>,
        _files: &[PathBuf],
        _options: &ImportOptions,
        _progress: &mut dyn FnMut(&ImportProgress),
        _cancel: &AtomicBool,
    ) -> Result<ImportReport, EngineError> {
        refuse(
            format!("an import into the temporary table {}", self.0.name()),
            "run INSERT INTO … SELECT * FROM 'file'",
        )
    }

    fn insert_batch(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        batch: &RecordBatch,
    ) -> Result<u64, EngineError> {
        let fitted = named_rows(&*self.0, batch, session.time_zone())?;
        let rows = fitted.num_rows() as u64;
        session
            .temporaries()
            .change_table(self.0.name(), |now| added(now, &[fitted], engine))?;
        Ok(rows)
    }
}

impl TemporaryTarget {
    /// Returns the table for statements that look for rows to change.
    fn changed(&self) -> Result<ChangedTable<'_>, EngineError> {
        Ok(ChangedTable {
            columns: &*self.0,
            rows: self.0.provider_with_addresses()?,
        })
    }

    /// Adds the rows of a query to `batches`, with the types of the table, and returns their number. Their
    /// memory is counted. `note` gets each batch of the query first.
    async fn fit(
        &self,
        run: &StatementRun<'_>,
        mut rows: SendableRecordBatchStream,
        mut fit: BatchFitter,
        mut note: impl FnMut(&RecordBatch) -> Result<(), EngineError> + Send,
        batches: &mut Vec<RecordBatch>,
    ) -> Result<u64, EngineError> {
        let mut held = self.0.emptied();
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            note(&batch)?;
            held.append(&fit.batch(&batch)?, memory(run.engine))?;
        }
        let count = held.rows();
        batches.extend(held.into_batches());
        Ok(count)
    }

    /// Replaces the table.
    ///
    /// # Errors
    /// It was dropped; those of `change`.
    fn publish(
        &self,
        run: &StatementRun<'_>,
        change: impl FnOnce(&Arc<TemporaryTable>) -> Result<TemporaryTable, EngineError>,
    ) -> Result<(), EngineError> {
        run.session.temporaries().change_table(self.0.name(), change)
    }

    /// Fails if the table is another one than the statement has read.
    fn must_be(&self, now: &Arc<TemporaryTable>) -> Result<(), EngineError> {
        if Arc::ptr_eq(&self.0, now) {
            return Ok(());
        }
        Err(EngineError::Query(format!(
            "temporary table {}: another statement of the session has changed it meanwhile; run it again",
            self.0.name()
        )))
    }
}

/// Returns a table with more rows.
fn added(
    table: &TemporaryTable,
    batches: &[RecordBatch],
    engine: &EngineContext,
) -> Result<TemporaryTable, EngineError> {
    let mut table = table.clone();
    for batch in batches {
        table.append(batch, memory(engine))?;
    }
    Ok(table)
}

/// Adds the numbers of rows in the first column of a batch.
///
/// # Errors
/// A row comes twice.
fn note(batch: &RecordBatch, rows: &mut RoaringTreemap) -> Result<(), EngineError> {
    for number in batch.column(0).as_primitive::<UInt64Type>().values() {
        if !rows.insert(*number) {
            let text = "a row has several new values; let each subquery give one value, by an aggregate";
            return Err(EngineError::Query(text.into()));
        }
    }
    Ok(())
}

/// Returns the memory that tables of sessions count in.
fn memory(engine: &EngineContext) -> &Arc<dyn MemoryPool> {
    &engine.runtime.memory_pool
}

/// Returns the planner of a statement that changes a table of the session.
///
/// # Errors
/// The pool cannot be read.
fn planner(run: &StatementRun<'_>, reads: Option<&Parsed>) -> Result<StatementPlanner, EngineError> {
    let (catalog, view) = run.session.versions(run.engine, reads)?;
    Ok(run.session.planner_with(&catalog, view))
}

/// Starts a query whose rows are stored.
///
/// # Errors
/// It cannot be planned.
async fn start(
    run: &StatementRun<'_>,
    query: Box<Query>,
) -> Result<(StatementPlanner, SendableRecordBatchStream), EngineError> {
    let statement = Parsed::Statement(Box::new(ast::Statement::Query(query.clone())));
    let planner = planner(run, Some(&statement))?;
    let rows = planner.query(query).await?;
    Ok((planner, rows))
}
