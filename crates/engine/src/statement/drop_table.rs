//! `DROP TABLE` of tables of any kind.
//!
//! Invariant: all tables of a statement are dropped or none, also after a crash. External tables, which the
//! session forgets at the end, cannot fail, and neither can temporary ones.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::sql::sqlparser::ast::{self, ObjectType};
use halocline_catalog::context::EngineContext;
use halocline_sql::EngineError;

use super::drop_plan::DropPlan;
use super::dropped::{DroppedObjects, read_dropped};
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_kind::{KINDS, TableKind};
use super::temporary_table::TemporaryTableKind;
use crate::QueryResult;
use crate::session::DatabaseSession;

/// `DROP TABLE` in the list of statements.
pub(super) const DROP_TABLE: StatementKind = StatementKind {
    name: "DROP TABLE",
    example: "DROP TABLE t",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `DROP TABLE` as parsed.
#[derive(Debug)]
pub(super) struct DropTableStatement(pub(super) DroppedObjects);

impl RunStatement for DropTableStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(DroppedObjects { names, if_exists }) = *self;
        Box::pin(async move {
            let cancel = run.cancel_flag();
            let message = run
                .blocking(move |session, engine| drop_any_tables(session, engine, &names, if_exists, &cancel))
                .await?;
            Ok(QueryResult::done(message))
        })
    }
}

fn parse(statement: &ast::Statement) -> ParsedStatement {
    match read_dropped(statement, ObjectType::Table)? {
        Some(dropped) => boxed(DropTableStatement(dropped)),
        None => Ok(None),
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

/// Looks the tables of a statement up, all of them in one version of the pool.
///
/// # Errors
/// One does not exist (unless `if_exists`); the pool or the stores cannot be read.
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
    let mut temporary = Vec::new();
    for name in names {
        if dropped.all.contains(name) {
            continue;
        }
        let find = |hides: bool| -> Result<Option<usize>, EngineError> {
            for (at, kind) in KINDS.iter().enumerate() {
                if kind.hides_external_tables() == hides && kind.has(&catalog, engine, name)? {
                    return Ok(Some(at));
                }
            }
            Ok(None)
        };
        let of_kind = if session.temporaries().table(name).is_some() {
            &mut temporary
        } else if let Some(kind) = find(true)? {
            &mut of_kinds[kind].1
        } else if session.externals().has(name) {
            &mut dropped.external
        } else if let Some(kind) = find(false)? {
            &mut of_kinds[kind].1
        } else if if_exists && !catalog.has_view(name) {
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
    if !temporary.is_empty() {
        TemporaryTableKind.drop_with(temporary, &mut dropped.stored);
    }
    Ok(dropped)
}
