//! Execution of statements: the version that each one sees, the transaction that it writes in, and its
//! message.
//!
//! Invariant: a writing statement reads the version that its changes are published over: it takes the
//! writer's lock first, and the version that it sees after that.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::BoxFuture;
use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::{Transaction, TransactionGuard};
use halocline_pool::VerifyMode;
use halocline_sql::EngineError;
use halocline_sql::cancel::CancelOnDrop;
use halocline_sql::parse::{CopyFrom, Delete, Insert, KeyedColumns, Statement, Update};
use halocline_sql::placement_spec::PlacementSpec;
use halocline_sql::stack::StackSize;

use super::advise::advise;
use super::compact::vacuum;
use super::create_index::build_index;
use super::create_table::{NewTable, NewTableAs};
use super::drop::drop_indexes;
use super::drop_table::drop_any_tables;
use super::place_index::{place_now, set_placement};
use super::show_indexes::show_indexes;
use super::table_kind::{KINDS, kind_of_key};
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
            let columns = KeyedColumns {
                schema: None,
                defaults: Vec::new(),
                key: Vec::new(),
            };
            run.create_table_as(NewTableAs { spec, columns, query }).await
        }
        Statement::CreateKeyedAs { spec, columns, query } => {
            run.create_table_as(NewTableAs { spec, columns, query }).await
        }
        Statement::NewTable {
            spec,
            schema,
            defaults,
            key,
        } => {
            let kind = kind_of_key(&key);
            let table = NewTable {
                spec,
                schema,
                defaults,
                key,
            };
            kind.create(&run, table).await
        }
        Statement::DropTables { names, if_exists } => {
            let cancel = run.cancel.flag();
            run.blocking(move |session, engine| drop_any_tables(session, engine, &names, if_exists, &cancel))
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
        Statement::Truncate { names, if_exists } => run.truncate(names, if_exists).await,
        Statement::Alter(alter) => run.table(&alter.table).await?.alter(&run, alter).await,
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
pub(crate) struct StatementRun<'a> {
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
    pub(super) async fn change<T: Send + 'static>(
        &self,
        what: &'static str,
        change: impl FnOnce(&mut Transaction) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let cancel = self.cancel.flag();
        self.blocking(move |session, engine| session.change(engine, what, &cancel, change))
            .await
    }

    /// Runs a change as [`change`](Self::change) does that writes much more than it retains.
    pub(super) async fn change_large<T: Send + 'static>(
        &self,
        what: &'static str,
        change: impl FnOnce(&mut Transaction) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let cancel = self.cancel.flag();
        self.blocking(move |session, engine| session.change_large(engine, what, &cancel, change))
            .await
    }

    /// Takes the transaction to write in: the open one, or one of its own.
    pub(super) async fn take(&self, what: &'static str) -> Result<TransactionGuard, EngineError> {
        let cancel = self.cancel.flag();
        self.blocking(move |session, engine| {
            TransactionGuard::take(session.slot(), engine, what, session.lock_wait(), &cancel)
        })
        .await
    }

    /// Ends the part of the statement in a transaction: keeps its changes, or takes them back after an error.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        held: TransactionGuard,
        result: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let cancel = self.cancel.flag();
        self.blocking(move |_, _| held.finish(result, &cancel)).await
    }

    async fn create_table_as(&self, table: NewTableAs) -> Result<String, EngineError> {
        kind_of_key(&table.columns.key).create_as(self, table).await
    }

    async fn insert(&self, insert: Insert) -> Result<String, EngineError> {
        let table = self.table(&insert.table).await?;
        Ok(format!("inserted {}", counted(table.insert(self, insert).await?)))
    }

    async fn delete(&self, delete: Delete) -> Result<String, EngineError> {
        let table = self.table(&delete.table).await?;
        Ok(format!("deleted {}", counted(table.delete(self, delete).await?)))
    }

    async fn update(&self, update: Update) -> Result<String, EngineError> {
        let table = self.table(&update.table).await?;
        Ok(format!("updated {}", counted(table.update(self, update).await?)))
    }

    /// Deletes all rows of tables, kind by kind; the message is that of the last kind.
    async fn truncate(&self, names: Vec<String>, if_exists: bool) -> Result<String, EngineError> {
        let mut of_kinds = KINDS.map(|kind| (kind, Vec::new()));
        for name in names {
            let kind = self.table(&name).await?.kind();
            for (other, names) in &mut of_kinds {
                if other.name() == kind.name() {
                    names.push(name.clone());
                }
            }
        }
        let mut message = String::new();
        for (kind, names) in of_kinds {
            if !names.is_empty() {
                message = kind.truncate(self, names, if_exists).await?;
            }
        }
        Ok(message)
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

    async fn copy_from(&self, mut copy: CopyFrom) -> Result<String, EngineError> {
        let options = copy.options.with_time_zone(self.session.time_zone());
        copy.options = options.with_append(true);
        let table = self.table(&copy.table).await?;
        Ok(format!("copied {}", counted(table.copy_from(self, copy).await?)))
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
