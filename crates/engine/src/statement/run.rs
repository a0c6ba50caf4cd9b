//! Execution of statements: the version that each one sees, the transaction that it writes in, and its
//! message.
//!
//! Invariant: a writing statement reads the version that its changes are published over: it takes the
//! writer's lock first, and the version that it sees after that.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::{Transaction, TransactionGuard};
use halocline_pool::VerifyMode;
use halocline_sql::EngineError;
use halocline_sql::cancel::CancelOnDrop;
use halocline_sql::stack::StackSize;

use super::statement_kind::{BoxedStatement, StatementFuture};
use crate::prepared::PlanLookup;
use crate::session::{DatabaseSession, StatementTimes};

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

/// Runs a statement.
///
/// # Errors
/// It cannot be planned or fails; nothing has changed then.
pub(crate) fn run<'a>(
    session: &'a Arc<DatabaseSession>,
    engine: &'a Arc<EngineContext>,
    statement: BoxedStatement,
    text: TextRun,
) -> StatementFuture<'a> {
    if engine.pool.verify_mode() == VerifyMode::Always {
        engine.pool.forget_verified();
    }
    statement.run(StatementRun {
        session,
        engine,
        stack: text.stack,
        lookup: text.lookup,
        times: text.times,
        cancel: CancelOnDrop::default(),
    })
}

/// The execution of a statement.
pub(crate) struct StatementRun<'a> {
    pub(super) session: &'a Arc<DatabaseSession>,
    pub(super) engine: &'a Arc<EngineContext>,
    /// The stack size that the trees of the statement need.
    pub(super) stack: StackSize,
    /// The outcome of looking its text up in the plan cache.
    pub(super) lookup: PlanLookup,
    /// Its times so far.
    pub(super) times: StatementTimes,
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
}

/// Returns a number of rows as messages have it.
pub(super) fn counted(rows: u64) -> String {
    match rows {
        1 => "1 row".to_string(),
        rows => format!("{rows} rows"),
    }
}
