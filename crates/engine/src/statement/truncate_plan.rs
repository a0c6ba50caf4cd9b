//! The stored tables of a `TRUNCATE`, which are emptied at once.
//!
//! Invariant: all of them are emptied or none, also after a crash.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::Transaction;
use halocline_sql::EngineError;

use crate::session::DatabaseSession;

/// A function that deletes all rows of tables of one kind in a transaction, and returns the names of the
/// tables. It skips missing ones if its last argument is true.
type TruncateInPool = fn(&mut Transaction, &[String], bool) -> Result<Vec<String>, EngineError>;

/// The stored tables that a statement empties at once.
#[derive(Default)]
pub(crate) struct TruncatePlan {
    in_pool: Vec<(TruncateInPool, Vec<String>)>,
    in_stores: Vec<String>,
    in_session: Vec<String>,
}

impl TruncatePlan {
    /// Adds tables that the directory of the pool names, and the function that empties them.
    pub(super) fn truncate_in_pool(&mut self, truncate: TruncateInPool, names: Vec<String>) {
        self.in_pool.push((truncate, names));
    }

    /// Adds tables in stores.
    pub(super) fn truncate_in_stores(&mut self, names: Vec<String>) {
        self.in_stores.extend(names);
    }

    /// Adds tables of the session.
    pub(super) fn truncate_in_session(&mut self, names: Vec<String>) {
        self.in_session.extend(names);
    }

    /// Deletes all rows of the tables, and returns the names of those that are there. Blocks.
    ///
    /// # Errors
    /// A table is not there (unless `if_exists`); tables in stores are emptied within a transaction; the pool
    /// cannot be written.
    pub(super) fn run(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        if_exists: bool,
        cancel: &AtomicBool,
    ) -> Result<Vec<String>, EngineError> {
        let mut emptied = if !self.in_stores.is_empty() {
            self.run_with_stores(session, engine, if_exists, cancel)?
        } else if !self.in_pool.is_empty() {
            session.change(engine, "TRUNCATE", cancel, |transaction| {
                self.truncate_from_pool(transaction, if_exists)
            })?
        } else {
            Vec::new()
        };
        // Of these nothing can fail but that a table was dropped meanwhile.
        for name in &self.in_session {
            session
                .temporaries()
                .change_table(name, |table| Ok(table.emptied()))?;
            emptied.push(name.clone());
        }
        Ok(emptied)
    }

    fn run_with_stores(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        if_exists: bool,
        cancel: &AtomicBool,
    ) -> Result<Vec<String>, EngineError> {
        session
            .slot()
            .must_be_idle("TRUNCATE of a table with a primary key")?;
        let names: Vec<&str> = self.in_stores.iter().map(String::as_str).collect();
        let tables = engine.stores.tables(session.lock_wait(), cancel)?;
        if self.in_pool.is_empty() {
            tables.truncate(&names)?;
            return Ok(self.in_stores.clone());
        }
        // Stores cannot grow while the transaction of the pool holds the writer's lock.
        let (rows, replacements) = tables.replace_by_empty(&names)?;
        let mut transaction = Transaction::begin(engine, "TRUNCATE", session.lock_wait(), cancel)?;
        let mut emptied = self.truncate_from_pool(&mut transaction, if_exists)?;
        if emptied.is_empty() {
            drop(transaction);
            tables.commit_replacing(rows, replacements)?;
        } else {
            transaction.commit_with_stores(cancel, |decide| {
                tables.commit_replacing_with(rows, replacements, decide)
            })?;
        }
        tables.drop_replaced();
        emptied.extend_from_slice(&self.in_stores);
        Ok(emptied)
    }

    fn truncate_from_pool(
        &self,
        transaction: &mut Transaction,
        if_exists: bool,
    ) -> Result<Vec<String>, EngineError> {
        let mut emptied = Vec::new();
        for (truncate_tables, names) in &self.in_pool {
            emptied.extend(truncate_tables(transaction, names, if_exists)?);
        }
        Ok(emptied)
    }
}
