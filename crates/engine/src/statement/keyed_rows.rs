//! `INSERT`, `UPDATE` and `DELETE` of tables with a primary key.
//!
//! A statement runs in the open transaction, or in one of its own, which is run again if other transactions
//! have changed what it depends on.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryViewArray, RecordBatch};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Query;
use futures::StreamExt;
use halocline_catalog::Catalog;
use halocline_catalog::write::BatchFitter;
use halocline_keyed::{KeyedTable, KeyedTables, KeyedView, RewriteRule};
use halocline_scan::keyed::KeyedProvider;
use halocline_sql::EngineError;
use halocline_store::{StoreError, Stores};

use super::defaults::spelled_out;
use super::insert_rows::{literal_rows, query_fitter};
use super::keyed_changes::{CHOOSE_ANOTHER, CollectedChanges, KeyedChanges, SEVERAL_VALUES};
use super::keyed_load::{QueriedRows, is_empty, query_to_load};
use super::modify::{ChangedTable, plan_delete, plan_update};
use super::row_errors::RowNames;
use super::run::StatementRun;
use super::table_changes::{Delete, Insert, InsertSource, OnConflict, Update};
use super::upsert::KeyedUpsert;
use crate::session::StatementPlanner;

/// Number of times that a statement is run before its conflicts are reported.
pub(super) const ATTEMPTS: u32 = 100;

/// A table with a primary key that a statement changes, in one transaction.
pub(super) struct KeyedTarget<'a> {
    pub(super) table: &'a Arc<KeyedTable>,
    pub(super) view: KeyedView,
    pub(super) planner: StatementPlanner,
}

/// A change of rows of one table.
pub(super) enum KeyedChange {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

impl KeyedChange {
    /// Returns the statement in short.
    fn statement(&self) -> String {
        match self {
            Self::Insert(insert) => format!("INSERT INTO {}", insert.table),
            Self::Update(update) => format!("UPDATE {}", update.table),
            Self::Delete(delete) => format!("DELETE FROM {}", delete.table),
        }
    }

    /// Returns the meaning of several changes of one key.
    fn rule(&self) -> RewriteRule {
        match self {
            Self::Insert(insert) => match &insert.on_conflict {
                OnConflict::Fail => RewriteRule::Insert,
                OnConflict::Nothing(_) => RewriteRule::InsertNew,
                OnConflict::Replace => RewriteRule::Replace,
                OnConflict::Update { .. } => RewriteRule::ReplaceOnce,
            },
            Self::Update(_) => RewriteRule::Update,
            Self::Delete(_) => RewriteRule::Delete,
        }
    }
}

/// The outcome of a statement in a transaction of its own.
enum Attempt {
    /// It has changed this many rows.
    Committed(u64),
    /// It has changed this many rows, by a new table in place of the old one.
    Rewritten(u64),
    /// Others have changed what it depends on.
    Conflict,
}

impl StatementRun<'_> {
    /// Changes rows, and returns their number.
    ///
    /// # Errors
    /// The statement cannot be planned, or fails; nothing has changed then.
    pub(super) async fn change_keyed(
        &self,
        tables: &Arc<KeyedTables>,
        mut table: Arc<KeyedTable>,
        change: &KeyedChange,
    ) -> Result<u64, EngineError> {
        // The open transaction sees tables of both kinds as of one moment, which may be this one.
        let catalog = self.session.catalog(self.engine)?;
        if let Some(transaction) = self
            .session
            .slot()
            .keyed_transaction(tables.stores(), &self.engine.pool)?
        {
            let view = KeyedView::Transaction(Arc::clone(&transaction));
            if let Some(seen) = tables.table_in(table.name(), &view)? {
                table = seen;
            }
            let (changes, rows) = self.keyed_changes(&catalog, &table, &view, change, None).await?;
            let slot = Arc::clone(self.session.slot());
            slot.check_writes_keyed(&transaction)?;
            let spilled = match changes {
                CollectedChanges::InDram(changes) => {
                    let reserved = changes.apply(&table, &transaction)?;
                    slot.write_keyed(&transaction, &table, reserved)?;
                    return Ok(rows);
                }
                CollectedChanges::Spilled(spilled) => spilled,
            };
            let (tables, cancel) = (Arc::clone(tables), self.cancel_flag());
            return self
                .blocking(move |_, _| spilled.replace_in(&slot, &tables, &transaction, &cancel))
                .await;
        }
        for _ in 0..ATTEMPTS {
            match self.change_keyed_once(tables, &table, change).await? {
                Attempt::Committed(rows) => return Ok(rows),
                Attempt::Rewritten(rows) => {
                    drop(table);
                    let tables = Arc::clone(tables);
                    self.blocking(move |_, _| {
                        tables.drop_replaced();
                        Ok(())
                    })
                    .await?;
                    return Ok(rows);
                }
                Attempt::Conflict => {}
            }
            // Another one may have taken its place.
            table = tables.existing(table.name())?;
        }
        Err(EngineError::TooManyConflicts {
            statement: change.statement(),
            attempts: ATTEMPTS,
        })
    }

    /// Runs the statement in a transaction of its own.
    async fn change_keyed_once(
        &self,
        tables: &Arc<KeyedTables>,
        table: &Arc<KeyedTable>,
        change: &KeyedChange,
    ) -> Result<Attempt, EngineError> {
        let (catalog, transaction) = self.engine.moment(Stores::begin)?;
        let transaction = transaction.unwrap_or_else(|| tables.stores().begin());
        let transaction = Arc::new(Mutex::new(transaction));
        let view = KeyedView::Transaction(Arc::clone(&transaction));
        let mut few = None;
        if let KeyedChange::Insert(insert) = change
            && let Some(query) = query_to_load(insert)
            && is_empty(table)?
        {
            let planner = self.session.planner_with(&catalog, Some(view.clone()));
            let target = KeyedTarget {
                table,
                view: view.clone(),
                planner,
            };
            let query = (query, insert.columns.as_slice());
            match self.load_query(tables, target, query, &transaction).await? {
                QueriedRows::Loaded(rows) => return Ok(Attempt::Committed(rows)),
                QueriedRows::Few(batches) => few = Some(batches),
            }
        }
        let (changes, rows) = self.keyed_changes(&catalog, table, &view, change, few).await?;
        drop((view, catalog));
        let changes = match changes {
            CollectedChanges::InDram(changes) => changes,
            CollectedChanges::Spilled(spilled) => {
                let (tables, cancel) = (Arc::clone(tables), self.cancel_flag());
                let published = self
                    .blocking(move |_, _| spilled.publish(&tables, &transaction, &cancel))
                    .await?;
                return Ok(published.map_or(Attempt::Conflict, Attempt::Rewritten));
            }
        };
        let reserved = changes.apply(table, &transaction)?;
        let stores = tables.stores().clone();
        let committed = self
            .blocking(move |_, _| {
                let mut held = transaction.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(std::mem::replace(&mut *held, stores.begin()).commit())
            })
            .await?;
        drop(reserved);
        match committed {
            Err(StoreError::Conflict { .. } | StoreError::Dropped { .. }) => Ok(Attempt::Conflict),
            committed => Ok(committed.map(|()| Attempt::Committed(rows))?),
        }
    }

    /// Runs the statement up to its changes, which are returned with the number of rows, unless they are
    /// spilled. `queried` are the rows of the query of an `INSERT`, if that was run.
    async fn keyed_changes(
        &self,
        catalog: &Arc<Catalog>,
        table: &Arc<KeyedTable>,
        view: &KeyedView,
        change: &KeyedChange,
        queried: Option<Vec<RecordBatch>>,
    ) -> Result<(CollectedChanges, u64), EngineError> {
        let view = view.clone();
        let planner = self.session.planner_with(catalog, Some(view.clone()));
        let target = KeyedTarget { table, view, planner };
        let statement = change.statement();
        let mut changes = KeyedChanges::new(self.engine, table, &target.view, statement, change.rule());
        let rows = match change {
            KeyedChange::Insert(insert) => self.insert_keyed(&target, insert, queried, &mut changes).await?,
            KeyedChange::Update(update) => target.update(update, &mut changes).await?,
            KeyedChange::Delete(delete) => target.delete(delete, &mut changes).await?,
        };
        Ok((changes.collected(), rows))
    }

    async fn insert_keyed(
        &self,
        target: &KeyedTarget<'_>,
        insert: &Insert,
        queried: Option<Vec<RecordBatch>>,
        changes: &mut KeyedChanges<'_>,
    ) -> Result<u64, EngineError> {
        let upsert = KeyedUpsert::new(target, &insert.on_conflict).await?;
        let mut first = 1;
        let mut write = |batch: &RecordBatch, changes: &mut KeyedChanges<'_>| {
            upsert.write(target, batch, first, changes)?;
            first += batch.num_rows() as u64;
            Ok::<_, EngineError>(())
        };
        match (queried, &insert.source) {
            (Some(batches), _) => batches.iter().try_for_each(|batch| write(batch, changes))?,
            (None, InsertSource::Literals(rows)) => {
                let (rows, mut fit) =
                    literal_rows(&**target.table, &insert.columns, rows, target.planner.time_zone())?;
                let batch = changes.errors().fit(&mut fit, &rows, RowNames::From(1))?;
                write(&batch, changes)?;
            }
            (None, InsertSource::Query(query)) => {
                let (mut rows, mut fit) = target.query(query, &insert.columns).await?;
                while let Some(batch) = rows.next().await {
                    let names = RowNames::From(fit.rows() + 1);
                    let batch = changes.errors().fit(&mut fit, &batch?, names)?;
                    write(&batch, changes)?;
                }
            }
        }
        Ok(changes.rows())
    }
}

impl KeyedTarget<'_> {
    /// Starts the query of an INSERT; returns its rows and what fits them to the table.
    pub(super) async fn query(
        &self,
        query: &Query,
        columns: &[String],
    ) -> Result<(SendableRecordBatchStream, BatchFitter), EngineError> {
        let query = spelled_out(Box::new(query.clone()), &**self.table, columns)?;
        let rows = self.planner.query(query).await?;
        let fit = query_fitter(&**self.table, columns, &rows.schema(), self.planner.time_zone())?;
        Ok((rows, fit))
    }

    /// Returns the table with a column of encoded keys.
    fn with_addresses(&self) -> ChangedTable<'_> {
        let rows = KeyedProvider::with_addresses(Arc::clone(self.table), self.view.clone());
        ChangedTable {
            columns: &**self.table,
            rows: Arc::new(rows),
        }
    }

    async fn delete(&self, delete: &Delete, changes: &mut KeyedChanges<'_>) -> Result<u64, EngineError> {
        let plan = plan_delete(&self.planner, self.with_addresses(), delete).await?;
        let mut rows = self.planner.start(&plan).await?;
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            for key in batch.column(0).as_binary_view().iter().flatten() {
                count += u64::from(changes.delete(key)?);
            }
        }
        Ok(count)
    }

    async fn update(&self, update: &Update, changes: &mut KeyedChanges<'_>) -> Result<u64, EngineError> {
        let (plan, from) = plan_update(&self.planner, self.with_addresses(), update).await?;
        let mut rows = self.planner.start(&plan).await?;
        let statement = format!("UPDATE {}", self.table.name());
        let mut fit = BatchFitter::new(statement, self.table.schema(), from)
            .with_defaults(&**self.table)
            .in_zone(self.planner.time_zone());
        let mut updated: Vec<(BinaryViewArray, RecordBatch)> = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            for key in batch.column(0).as_binary_view().iter().flatten() {
                if !changes.delete(key)? {
                    return Err(EngineError::Query(SEVERAL_VALUES.to_owned()));
                }
            }
            let keys = batch.column(0).as_binary_view().clone();
            let batch = changes.errors().fit(&mut fit, &batch, RowNames::OldKeys(&keys))?;
            changes.reserve(keys.get_array_memory_size() + batch.get_array_memory_size())?;
            updated.push((keys, batch));
            if changes.are_spilled() {
                add_updated(std::mem::take(&mut updated), changes)?;
            }
        }
        // New keys may be those of other rows that are updated, so all old ones are noted first.
        add_updated(updated, changes)?;
        Ok(changes.rows())
    }
}

/// Adds rows with new values.
fn add_updated(
    updated: Vec<(BinaryViewArray, RecordBatch)>,
    changes: &mut KeyedChanges<'_>,
) -> Result<(), EngineError> {
    let mut updated = updated.into_iter();
    updated.try_for_each(|(keys, batch)| changes.add(&batch, RowNames::OldKeys(&keys), CHOOSE_ANOTHER))
}
