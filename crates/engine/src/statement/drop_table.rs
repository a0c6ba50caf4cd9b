//! `DROP TABLE` of tables of any kind.
//!
//! Invariant: all tables of a statement are dropped or none, also after a crash. External tables, which the
//! session forgets at the end, cannot fail.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use halocline_catalog::context::EngineContext;
use halocline_catalog::transaction::Transaction;
use halocline_sql::EngineError;

use super::table_kind::KINDS;
use crate::session::DatabaseSession;

/// Drops tables of one kind in a transaction, and returns the names of their indexes.
type DropInPool = fn(&mut Transaction, &[String]) -> Result<Vec<String>, EngineError>;

/// The stored tables that a statement drops at once.
#[derive(Default)]
pub(crate) struct DropPlan {
    in_pool: Vec<(DropInPool, Vec<String>)>,
    in_stores: Vec<String>,
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

    /// Drops the tables, and returns the names of their indexes.
    fn run(
        &self,
        session: &DatabaseSession,
        engine: &Arc<EngineContext>,
        cancel: &AtomicBool,
    ) -> Result<Vec<String>, EngineError> {
        if !self.in_stores.is_empty() {
            return self.run_with_stores(session, engine, cancel);
        }
        match self.in_pool.is_empty() {
            true => Ok(Vec::new()),
            false => session.change(engine, "DROP TABLE", cancel, |transaction| {
                self.drop_from_pool(transaction)
            }),
        }
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

/// The tables of a statement, each of them once.
#[derive(Default)]
struct DroppedTables {
    stored: DropPlan,
    external: Vec<String>,
    /// All of them, in the order of the statement.
    all: Vec<String>,
}

/// Drops tables with their indexes, all of them or none; removes external tables from the session. Returns a
/// message. Blocks.
///
/// # Errors
/// A table does not exist (unless `if_exists`), or the pool cannot be written.
pub(crate) fn drop_any_tables(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    names: &[String],
    if_exists: bool,
    cancel: &AtomicBool,
) -> Result<String, EngineError> {
    let dropped = find_dropped(session, engine, names, if_exists)?;
    let indexes = dropped.stored.run(session, engine, cancel)?;
    for name in &dropped.external {
        session.externals().remove(name);
    }
    let tables = dropped.all.join(", ");
    Ok(match (dropped.all.is_empty(), indexes.is_empty()) {
        (true, _) => "nothing to drop".into(),
        (false, true) => format!("dropped table {tables}"),
        (false, false) => format!("dropped table {tables} with index {}", indexes.join(", ")),
    })
}

fn find_dropped(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    names: &[String],
    if_exists: bool,
) -> Result<DroppedTables, EngineError> {
    let catalog = session.peek(engine)?;
    engine.stores.renew()?;
    let mut of_kinds = KINDS.map(|kind| (kind, Vec::new()));
    let mut dropped = DroppedTables::default();
    for name in names {
        if dropped.all.contains(name) {
            continue;
        }
        let find = |hides: bool| -> Result<Option<usize>, EngineError> {
            for (at, kind) in KINDS.iter().enumerate() {
                if kind.hides_external_tables() == hides && kind.has(session, engine, name)? {
                    return Ok(Some(at));
                }
            }
            Ok(None)
        };
        let of_kind = if let Some(kind) = find(true)? {
            &mut of_kinds[kind].1
        } else if session.externals().has(name) {
            &mut dropped.external
        } else if let Some(kind) = find(false)? {
            &mut of_kinds[kind].1
        } else if if_exists {
            continue;
        } else {
            return Err(catalog.no_table(name));
        };
        of_kind.push(name.clone());
        dropped.all.push(name.clone());
    }
    for (kind, names) in of_kinds {
        if !names.is_empty() {
            kind.drop_with(names, &mut dropped.stored);
        }
    }
    Ok(dropped)
}
