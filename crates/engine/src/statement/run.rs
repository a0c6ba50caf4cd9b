//! Execution of statements: the version that each one sees, the transaction that it writes in, and its
//! message.
//!
//! Invariant: a writing statement reads the version that its changes are published over: it takes the
//! writer's lock first, and the version that it sees after that.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::sql::sqlparser::ast::Query;
use futures::future::BoxFuture;
use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::{Transaction, TransactionGuard};
use halocline_pool::VerifyMode;
use halocline_sql::EngineError;
use halocline_sql::cancel::CancelOnDrop;
use halocline_sql::parse::{
    Alteration, CopyFrom, Delete, Insert, InsertSource, OnConflict, Statement, Update,
};
use halocline_sql::placement_spec::PlacementSpec;
use halocline_sql::stack::StackSize;
use halocline_sql::table_spec::TableSpec;

use super::advise::advise;
use super::alter::{alter_table, taken};
use super::compact::vacuum;
use super::create_index::build_index;
use super::create_table;
use super::defaults::spelled_out;
use super::drop::{drop_indexes, truncate_tables};
use super::insert::{insert_literals, insert_rows};
use super::kept_indexes::KeptIndexes;
use super::keyed_import::import_keyed;
use super::keyed_rows::KeyedChange;
use super::keyed_tables;
use super::modify::{ChangedTable, delete_all, delete_rows, plan_delete, plan_update, update_rows};
use super::place_index::{place_now, set_placement};
use super::show_indexes::show_indexes;
use crate::prepared::PlanLookup;
use crate::session::{DatabaseSession, StatementTimes};
use crate::{Placement, QueryResult};

/// A run of a statement: the stack it needs, the plan cache for its text, its times.
pub(crate) struct TextRun {
    /// The stack size that its trees need.
    stack: StackSize,
    /// The outcome of looking it up in the plan cache.
    lookup: PlanLookup,
    /// Its times so far.
    times: StatementTimes,
}

impl TextRun {
    /// Returns a run of a statement that has no text of its own.
    pub(crate) fn new(stack: StackSize) -> Self {
        Self::of_text(stack, PlanLookup::Uncacheable, StatementTimes::start())
    }

    /// Returns the run of a text that has been parsed.
    pub(crate) fn of_text(stack: StackSize, lookup: PlanLookup, times: StatementTimes) -> Self {
        Self { stack, lookup, times }
    }
}

/// Runs a statement as [`run`] does, for statements that run another one.
pub(crate) fn run_boxed<'a>(
    session: &'a Arc<DatabaseSession>,
    engine: &'a Arc<EngineContext>,
    statement: Statement,
    text: TextRun,
) -> BoxFuture<'a, Result<QueryResult, EngineError>> {
    Box::pin(run(session, engine, statement, text))
}

/// Runs a statement.
///
/// # Errors
/// It cannot be planned or fails; nothing has changed then.
pub(crate) async fn run(
    session: &Arc<DatabaseSession>,
    engine: &Arc<EngineContext>,
    statement: Statement,
    text: TextRun,
) -> Result<QueryResult, EngineError> {
    let run = StatementRun {
        session,
        engine,
        stack: text.stack,
        cancel: CancelOnDrop::default(),
    };
    if engine.pool.verify_mode() == VerifyMode::Always {
        engine.pool.forget_verified();
    }
    let message = match statement {
        Statement::Plan(parsed) => {
            let rows = session.select(engine, parsed, text.lookup, text.times).await?;
            return Ok(QueryResult::rows(rows));
        }
        Statement::CopyTo(parsed) => {
            return Ok(QueryResult::rows(session.copy_to(engine, parsed).await?));
        }
        Statement::ShowIndexes => {
            let catalog = session.catalog(engine)?;
            return show_indexes(&catalog);
        }
        Statement::Advise(statement) => return advise(session, engine, statement).await,
        Statement::Setting(parsed) => session.set(engine, parsed).await.map(|()| "set".to_string()),
        Statement::External(parsed) => {
            let said = "external table created for this session";
            session.remember(engine, parsed).await.map(|()| said.to_string())
        }
        Statement::CreateTable { spec, query } => {
            if run.is_keyed(&spec.name)? {
                return run.name_is_taken(&spec).map(QueryResult::done);
            }
            run.create_table_as(spec, query).await
        }
        Statement::CreateKeyedAs { spec, columns, query } => run.create_keyed_as(spec, columns, query).await,
        Statement::NewTable {
            spec,
            schema,
            defaults,
            key,
        } => {
            let zone = session.time_zone();
            if !key.is_empty() {
                let definition = keyed_tables::define(&spec, &schema, (&defaults, zone), &key)?;
                return run.create_keyed(spec, definition).await.map(QueryResult::done);
            }
            if run.is_keyed(&spec.name)? {
                return run.name_is_taken(&spec).map(QueryResult::done);
            }
            let cancel = run.cancel.flag();
            run.change("CREATE TABLE", move |transaction| {
                if !create_table::is_needed(&spec, transaction)? {
                    return Ok(spec.is_there());
                }
                let kept = create_table::make(&spec, transaction, &schema)?;
                create_table::set_defaults(&spec, transaction, &schema, &defaults, zone)?;
                let indexes = kept.rebuild(transaction, &cancel)?;
                Ok(format!("table {}: 0 rows{indexes}", spec.name))
            })
            .await
        }
        Statement::DropTables { names, if_exists } => {
            let cancel = run.cancel.flag();
            run.blocking(move |session, engine| session.drop_tables(engine, &names, if_exists, &cancel))
                .await
        }
        Statement::DropIndexes { names, if_exists } => {
            run.change("DROP INDEX", move |transaction| {
                drop_indexes(transaction, &names, if_exists)
            })
            .await
        }
        Statement::CreateIndex {
            spec,
            if_not_exists,
            placed,
        } => {
            let cancel = run.cancel.flag();
            run.change_large("CREATE INDEX", move |transaction| {
                let volatile = placed.placement == Some(Placement::Volatile);
                if !build_index(transaction, &spec, if_not_exists, volatile, &cancel)? {
                    return Ok(format!("index {} is there already", spec.name));
                }
                if !placed.is_nothing() {
                    set_placement(transaction, &spec.name, false, placed, &cancel)?;
                }
                Ok(format!("index {} on {}", spec.name, spec.table))
            })
            .await
        }
        Statement::PlaceIndex {
            name,
            if_exists,
            placed,
        } => run.place_index(name, if_exists, placed).await,
        Statement::Insert(insert) => run.insert(insert).await,
        Statement::Update(update) => run.update(update).await,
        Statement::Delete(delete) => run.delete(delete).await,
        Statement::Truncate { names, if_exists } => {
            let (keyed, names) = run.split_keyed(names).await?;
            let emptied = run.truncate_keyed(keyed).await?;
            if names.is_empty() && !emptied.is_empty() {
                return Ok(QueryResult::done(format!(
                    "truncated table {}",
                    emptied.join(", ")
                )));
            }
            run.change("TRUNCATE", move |transaction| {
                truncate_tables(transaction, &names, if_exists)
            })
            .await
        }
        Statement::Alter(alter) => {
            if let Some((tables, _)) = run.keyed_table(&alter.table).await? {
                return run.alter_keyed(tables, alter).await.map(QueryResult::done);
            }
            if let Alteration::Rename(to) = &alter.what
                && run.is_keyed(to)?
            {
                return Err(taken("table", to));
            }
            let zone = session.time_zone();
            run.change("ALTER TABLE", move |transaction| {
                alter_table(transaction, &alter, zone)
            })
            .await
        }
        Statement::CopyFrom(copy) => run.copy_from(copy).await,
        Statement::Begin => session.slot().open().map(|()| "begun".into()),
        Statement::Commit => {
            let cancel = run.cancel.flag();
            run.blocking(move |session, _| session.slot().commit(&cancel).map(|()| "committed".into()))
                .await
        }
        Statement::Rollback => {
            run.blocking(|session, _| session.slot().roll_back().map(|()| "rolled back".into()))
                .await
        }
        Statement::Vacuum { table, full } => run.vacuum(table, full).await,
        Statement::Prepare {
            name,
            types,
            statement,
        } => run.prepare(name, types, statement).await,
        Statement::Execute { name, arguments } => return run.execute(&name, arguments).await,
        Statement::Deallocate { name } => run.deallocate(name),
    };
    message.map(QueryResult::done)
}

/// The execution of a statement.
pub(super) struct StatementRun<'a> {
    pub(super) session: &'a Arc<DatabaseSession>,
    pub(super) engine: &'a Arc<EngineContext>,
    /// The stack size that the trees of the statement need.
    pub(super) stack: StackSize,
    /// Cancels work on other threads when the future of the statement is dropped.
    cancel: CancelOnDrop,
}

impl StatementRun<'_> {
    /// Returns the flag that ends work on other threads.
    pub(super) fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancel.flag()
    }

    /// Runs `work` on a thread that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DatabaseSession, &Arc<EngineContext>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (session, engine) = (Arc::clone(self.session), Arc::clone(self.engine));
        let stack = self.stack;
        let work = move || stack.call(|| work(&session, &engine));
        match tokio::task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) => Err(EngineError::Query(format!("the statement failed: {error}"))),
        }
    }

    /// Runs a change that plans no query.
    async fn change(
        &self,
        what: &'static str,
        change: impl FnOnce(&mut Transaction) -> Result<String, EngineError> + Send + 'static,
    ) -> Result<String, EngineError> {
        let cancel = self.cancel.flag();
        self.blocking(move |session, engine| session.change(engine, what, &cancel, change))
            .await
    }

    /// Runs a change as [`change`](Self::change) does that writes much more than it retains.
    async fn change_large(
        &self,
        what: &'static str,
        change: impl FnOnce(&mut Transaction) -> Result<String, EngineError> + Send + 'static,
    ) -> Result<String, EngineError> {
        let cancel = self.cancel.flag();
        self.blocking(move |session, engine| session.change_large(engine, what, &cancel, change))
            .await
    }

    async fn take(&self, what: &'static str) -> Result<TransactionGuard, EngineError> {
        let cancel = self.cancel.flag();
        self.blocking(move |session, engine| {
            TransactionGuard::take(session.slot(), engine, what, session.lock_wait(), &cancel)
        })
        .await
    }

    async fn finish<T: Send + 'static>(
        &self,
        held: TransactionGuard,
        result: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let cancel = self.cancel.flag();
        self.blocking(move |_, _| held.finish(result, &cancel)).await
    }

    async fn create_table_as(&self, spec: TableSpec, query: Box<Query>) -> Result<String, EngineError> {
        let mut held = self.take("CREATE TABLE").await?;
        let filled = self.fill(&mut held.transaction, &spec, query).await;
        let cancel = self.cancel.flag();
        self.blocking(move |_, _| {
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
    }

    /// Creates and fills a table; `None` if an existing one suffices.
    async fn fill(
        &self,
        transaction: &mut Transaction,
        spec: &TableSpec,
        query: Box<Query>,
    ) -> Result<Option<(u64, KeptIndexes)>, EngineError> {
        if !create_table::is_needed(spec, transaction)? {
            return Ok(None);
        }
        // The copy gets checksums of its own: what was intact once need not be so any more.
        self.engine.pool.forget_verified();
        let rows = self.session.query(&transaction.catalog(), query).await?;
        create_table::fill(spec, transaction, rows).await.map(Some)
    }

    async fn insert(&self, insert: Insert) -> Result<String, EngineError> {
        if let Some((tables, table)) = self.keyed_table(&insert.table).await? {
            let change = KeyedChange::Insert(insert);
            let rows = self.change_keyed(&tables, table, &change).await?;
            return Ok(format!("inserted {}", counted(rows)));
        }
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
                let zone = self.session.time_zone();
                self.change("INSERT", move |transaction| {
                    insert_literals(transaction, &table, &columns, &rows, zone)
                        .map(|rows| format!("inserted {}", counted(rows)))
                })
                .await
            }
            InsertSource::Query(query) => {
                let mut held = self.take("INSERT").await?;
                let result = self
                    .insert_query(&mut held.transaction, &table, &columns, query)
                    .await;
                let rows = self.finish(held, result).await?;
                Ok(format!("inserted {}", counted(rows)))
            }
        }
    }

    async fn insert_query(
        &self,
        transaction: &mut Transaction,
        table: &str,
        columns: &[String],
        query: Box<Query>,
    ) -> Result<u64, EngineError> {
        let catalog = transaction.catalog();
        let query = spelled_out(query, &catalog.objects().table(table)?.table, columns)?;
        let rows = self.session.query(&catalog, query).await?;
        insert_rows(transaction, table, columns, rows, self.session.time_zone()).await
    }

    async fn delete(&self, delete: Delete) -> Result<String, EngineError> {
        if let Some((tables, table)) = self.keyed_table(&delete.table).await? {
            let change = KeyedChange::Delete(delete);
            let rows = self.change_keyed(&tables, table, &change).await?;
            return Ok(format!("deleted {}", counted(rows)));
        }
        let mut held = self.take("DELETE").await?;
        let result = self.delete_in(&mut held.transaction, &delete).await;
        let rows = self.finish(held, result).await?;
        Ok(format!("deleted {}", counted(rows)))
    }

    async fn delete_in(&self, transaction: &mut Transaction, delete: &Delete) -> Result<u64, EngineError> {
        let catalog = transaction.catalog();
        let open = catalog.table(&delete.table)?;
        if delete.selection.is_none() {
            return delete_all(transaction, &open);
        }
        let planner = self.session.planner(&catalog);
        let plan = plan_delete(&planner, ChangedTable::of_pool(&open), delete).await?;
        let rows = planner.start(&plan).await?;
        delete_rows(transaction, &open, rows).await
    }

    async fn update(&self, update: Update) -> Result<String, EngineError> {
        if let Some((tables, table)) = self.keyed_table(&update.table).await? {
            let change = KeyedChange::Update(update);
            let rows = self.change_keyed(&tables, table, &change).await?;
            return Ok(format!("updated {}", counted(rows)));
        }
        let mut held = self.take("UPDATE").await?;
        let result = self.update_in(&mut held.transaction, &update).await;
        let rows = self.finish(held, result).await?;
        Ok(format!("updated {}", counted(rows)))
    }

    async fn update_in(&self, transaction: &mut Transaction, update: &Update) -> Result<u64, EngineError> {
        let catalog = transaction.catalog();
        let open = catalog.table(&update.table)?;
        let planner = self.session.planner(&catalog);
        let (plan, from) = plan_update(&planner, ChangedTable::of_pool(&open), update).await?;
        let rows = planner.start(&plan).await?;
        update_rows(transaction, &open, from, rows, planner.time_zone()).await
    }

    /// Stores the placement of an index, and makes its copies in DRAM unless a transaction is open.
    async fn place_index(
        &self,
        name: String,
        if_exists: bool,
        placed: PlacementSpec,
    ) -> Result<String, EngineError> {
        let (index, cancel) = (name.clone(), self.cancel.flag());
        let stored = self
            .blocking(move |session, engine| {
                session.change(engine, "ALTER INDEX", &cancel, |transaction| {
                    set_placement(transaction, &index, if_exists, placed, &cancel)
                })
            })
            .await?;
        if !stored {
            return Ok(format!("there is no index {name}"));
        }
        if self.session.slot().must_be_idle("").is_err() {
            return Ok(format!("index {name}: in effect when the transaction commits"));
        }
        let cancel = self.cancel.flag();
        let info = self
            .blocking(move |_, engine| place_now(engine, &name, &cancel))
            .await?;
        Ok(format!("index {}: {}", info.name, info.placement_text()))
    }

    async fn copy_from(&self, copy: CopyFrom) -> Result<String, EngineError> {
        let cancel = self.cancel.flag();
        let options = copy.options.with_time_zone(self.session.time_zone());
        let options = options.with_append(true);
        if let Some(found) = self.keyed_table(&copy.table).await? {
            let files = [copy.file];
            let copied = self.blocking(move |session, engine| {
                import_keyed(session, engine, &found, &files, &options, &mut |_| (), &cancel)
            });
            return Ok(format!("copied {}", counted(copied.await?.rows)));
        }
        self.change_large("COPY FROM", move |transaction| {
            let schema = transaction.catalog().table(&copy.table)?.table.schema().clone();
            let options = options.with_schema(Some(schema));
            let report = crate::import_run::run(
                transaction,
                &copy.table,
                &[copy.file],
                &options,
                &mut |_| (),
                &cancel,
            )?;
            Ok(format!("copied {}", counted(report.rows)))
        })
        .await
    }

    async fn vacuum(&self, table: Option<String>, full: bool) -> Result<String, EngineError> {
        self.session.slot().must_be_idle("VACUUM")?;
        let (cancel, wait) = (self.cancel.flag(), self.session.lock_wait());
        self.blocking(move |_, engine| vacuum(engine, table.as_deref(), full, wait, &cancel))
            .await
    }
}

fn counted(rows: u64) -> String {
    match rows {
        1 => "1 row".to_string(),
        rows => format!("{rows} rows"),
    }
}
