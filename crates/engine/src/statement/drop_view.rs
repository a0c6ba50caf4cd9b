//! `DROP VIEW`.
//!
//! Invariant: all views of a statement that are stored are dropped or none. Those of the session are dropped
//! after them, which cannot fail.

use datafusion::sql::sqlparser::ast::{self, ObjectType};
use halocline_catalog::view_object;
use halocline_sql::EngineError;

use super::dropped::{DroppedObjects, read_dropped};
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_kind::KINDS;
use crate::QueryResult;

/// `DROP VIEW` in the list of statements.
pub(super) const DROP_VIEW: StatementKind = StatementKind {
    name: "DROP VIEW",
    example: "DROP VIEW v",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `DROP VIEW` as parsed.
#[derive(Debug)]
pub(super) struct DropViewStatement(DroppedObjects);

/// The views of a statement, each of them once.
#[derive(Default)]
struct DroppedViews {
    stored: Vec<String>,
    temporary: Vec<String>,
    /// All of them, in the order of the statement.
    all: Vec<String>,
}

impl RunStatement for DropViewStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(names) = *self;
        Box::pin(async move {
            let dropped = find(&run, &names)?;
            if dropped.all.is_empty() {
                return Ok(QueryResult::done("nothing to drop"));
            }
            let stored = dropped.stored;
            if !stored.is_empty() {
                run.change("DROP VIEW", move |transaction| {
                    let catalog = transaction.catalog();
                    for name in &stored {
                        if !catalog.has_view(name) {
                            return Err(catalog.no_view(name));
                        }
                        transaction.txn().remove(&view_object(name))?;
                    }
                    transaction.changed([]);
                    Ok(())
                })
                .await?;
            }
            for name in &dropped.temporary {
                run.session.set_temporary_view(name, None);
            }
            let message = format!("dropped view {}", dropped.all.join(", "));
            Ok(QueryResult::done(message))
        })
    }
}

fn parse(statement: &ast::Statement) -> ParsedStatement {
    match read_dropped(statement, ObjectType::View)? {
        Some(dropped) => boxed(DropViewStatement(dropped)),
        None => Ok(None),
    }
}

/// Looks the views of a statement up, all of them in one version of the pool. A view of the session hides one
/// in the pool.
///
/// # Errors
/// One does not exist, unless the statement says `IF EXISTS`; one is a table.
fn find(run: &StatementRun<'_>, names: &DroppedObjects) -> Result<DroppedViews, EngineError> {
    let catalog = run.session.peek(run.engine)?;
    let temporary = run.session.temporaries().now().views;
    let mut dropped = DroppedViews::default();
    for name in &names.names {
        if dropped.all.contains(name) {
            continue;
        }
        if temporary.contains_key(name) {
            dropped.temporary.push(name.clone());
        } else if catalog.has_view(name) {
            dropped.stored.push(name.clone());
        } else {
            let mut is_table =
                run.session.externals().has(name) || run.session.temporaries().table(name).is_some();
            for kind in KINDS {
                is_table |= kind.has(&catalog, run.engine, name)?;
            }
            match (is_table, names.if_exists) {
                (true, _) => return Err(EngineError::IsTable { name: name.clone() }),
                (false, true) => continue,
                (false, false) => return Err(catalog.no_view(name)),
            }
        }
        dropped.all.push(name.clone());
    }
    Ok(dropped)
}
