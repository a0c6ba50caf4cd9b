//! `DROP TABLE` of tables of any kind.
//!
//! Invariant: all tables of a statement are dropped or none, also after a crash. External tables, which the
//! session forgets at the end, cannot fail.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::Transaction;
use halocline_sql::EngineError;

use super::DatabaseSession;
use crate::statement::drop_tables;

/// The tables of a statement, each of them once.
#[derive(Default)]
struct Dropped {
    stored: Vec<String>,
    with_key: Vec<String>,
    external: Vec<String>,
    /// All of them, in the order of the statement.
    all: Vec<String>,
}

impl DatabaseSession {
    /// Drops tables with their indexes, all of them or none; removes external tables from the session.
    /// Blocks.
    ///
    /// # Errors
    /// A table does not exist (unless `if_exists`), or the pool cannot be written.
    pub(crate) fn drop_tables(
        &self,
        engine: &Arc<EngineContext>,
        names: &[String],
        if_exists: bool,
        cancel: &AtomicBool,
    ) -> Result<String, EngineError> {
        let dropped = self.find_dropped(engine, names, if_exists)?;
        let indexes = match dropped.with_key.is_empty() {
            true if dropped.stored.is_empty() => Vec::new(),
            true => self.change(engine, "DROP TABLE", cancel, |transaction| {
                drop_tables(transaction, &dropped.stored)
            })?,
            false => self.drop_with_key(engine, &dropped, cancel)?,
        };
        for name in &dropped.external {
            self.externals.remove(name);
        }
        let tables = dropped.all.join(", ");
        Ok(match (dropped.all.is_empty(), indexes.is_empty()) {
            (true, _) => "nothing to drop".into(),
            (false, true) => format!("dropped table {tables}"),
            (false, false) => format!("dropped table {tables} with index {}", indexes.join(", ")),
        })
    }

    fn find_dropped(
        &self,
        engine: &Arc<EngineContext>,
        names: &[String],
        if_exists: bool,
    ) -> Result<Dropped, EngineError> {
        let catalog = self.peek(engine)?;
        self.stores.renew()?;
        let mut dropped = Dropped::default();
        for name in names {
            if dropped.all.contains(name) {
                continue;
            }
            let of_kind = if catalog.has_table(name) {
                &mut dropped.stored
            } else if self.externals.has(name) {
                &mut dropped.external
            } else if let Some(tables) = self.stores.existing_tables()?
                && tables.table(name).is_some()
            {
                &mut dropped.with_key
            } else if if_exists {
                continue;
            } else {
                return Err(catalog.no_table(name));
            };
            of_kind.push(name.clone());
            dropped.all.push(name.clone());
        }
        Ok(dropped)
    }

    /// Drops tables of which some have a primary key; returns the names of the indexes of the others.
    fn drop_with_key(
        &self,
        engine: &Arc<EngineContext>,
        dropped: &Dropped,
        cancel: &AtomicBool,
    ) -> Result<Vec<String>, EngineError> {
        self.slot
            .must_be_idle("DROP TABLE of a table with a primary key")?;
        let names: Vec<&str> = dropped.with_key.iter().map(String::as_str).collect();
        let tables = self.stores.tables(self.lock_wait(), cancel)?;
        if dropped.stored.is_empty() {
            tables.drop_tables(&names)?;
            return Ok(Vec::new());
        }
        let mut transaction = Transaction::begin(engine, "DROP TABLE", self.lock_wait(), cancel)?;
        let indexes = drop_tables(&mut transaction, &dropped.stored)?;
        transaction.commit_with_stores(cancel, |decide| tables.drop_tables_with(&names, decide))?;
        Ok(indexes)
    }
}
