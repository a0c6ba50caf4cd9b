//! The stored tables of a `DROP TABLE`, which are dropped at once.
//!
//! Invariant: all of them are dropped or none, also after a crash.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::Transaction;
use halocline_sql::EngineError;

use crate::session::DatabaseSession;

/// A function that drops tables of one kind in a transaction, and returns the names of their indexes.
type DropInPool = fn(&mut Transaction, &[String]) -> Result<Vec<String>, EngineError>;

/// The stored tables that a statement drops at once.
#[derive(Default)]
pub(crate) struct DropPlan {
    in_pool: Vec<(DropInPool, Vec<String>)>,
    in_stores: Vec<String>,
    in_session: Vec<String>,
}

impl DropPlan {
    /// Adds tables that the directory of the pool names, and the function that drops them.
    pub(super) fn drop_in_pool(&mut self, drop: DropInPool, names: Vec<String>) {
        self.in_pool.push((drop, names));
    }

    /// Adds tables in stores.
    pub(super) fn drop_in_stores(&mut self, names: Vec<String>) {
        self.in_stores.extend(names);
    }

    /// Adds tables of the session.
    pub(super) fn drop_in_session(&mut self, names: Vec<String>) {
        self.in_session.extend(names);
    }

    /// Drops the tables, and returns the names of their indexes. Blocks.
    ///
    /// # Errors
    /// A table is not there; tables in stores are dropped within a transaction; the pool cannot be written.
    pub(super) fn run(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        cancel: &AtomicBool,
    ) -> Result<Vec<String>, EngineError> {
        let indexes = if !self.in_stores.is_empty() {
            self.run_with_stores(session, engine, cancel)?
        } else if self.in_pool.is_empty() {
            Vec::new()
        } else {
            session.change(engine, "DROP TABLE", cancel, |transaction| {
                self.drop_from_pool(transaction)
            })?
        };
        for name in &self.in_session {
            session.set_temporary_table(name, None);
        }
        Ok(indexes)
    }

    fn run_with_stores(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        cancel: &AtomicBool,
    ) -> Result<Vec<String>, EngineError> {
        session
            .slot()
            .must_be_idle("DROP TABLE of a table with a primary key")?;
        let names: Vec<&str> = self.in_stores.iter().map(String::as_str).collect();
        let tables = engine.stores.tables(session.lock_wait(), cancel)?;
        if self.in_pool.is_empty() {
            tables.drop_tables(&names)?;
            return Ok(Vec::new());
        }
        let mut transaction = Transaction::begin(engine, "DROP TABLE", session.lock_wait(), cancel)?;
        let indexes = self.drop_from_pool(&mut transaction)?;
        transaction.commit_with_stores(cancel, |decide| tables.drop_tables_with(&names, decide))?;
        Ok(indexes)
    }

    fn drop_from_pool(&self, transaction: &mut Transaction) -> Result<Vec<String>, EngineError> {
        let mut indexes = Vec::new();
        for (drop_tables, names) in &self.in_pool {
            indexes.extend(drop_tables(transaction, names)?);
        }
        Ok(indexes)
    }
}
