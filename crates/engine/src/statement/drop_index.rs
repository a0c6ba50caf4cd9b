//! `DROP INDEX`.

use datafusion::sql::sqlparser::ast::{self, ObjectType};
use halocline_catalog::index_object;
use halocline_catalog::transaction::Transaction;
use halocline_sql::EngineError;

use super::dropped::{DroppedObjects, read_dropped};
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;

/// `DROP INDEX` in the list of statements.
pub(super) const DROP_INDEX: StatementKind = StatementKind {
    name: "DROP INDEX",
    example: "DROP INDEX i",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `DROP INDEX` as parsed.
#[derive(Debug)]
pub(super) struct DropIndexStatement(pub(super) DroppedObjects);

impl RunStatement for DropIndexStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(DroppedObjects { names, if_exists }) = *self;
        Box::pin(async move {
            let dropped = run.change("DROP INDEX", move |transaction| {
                drop_indexes(transaction, &names, if_exists)
            });
            Ok(QueryResult::done(dropped.await?))
        })
    }
}

fn parse(statement: &ast::Statement) -> ParsedStatement {
    match read_dropped(statement, ObjectType::Index)? {
        Some(dropped) => boxed(DropIndexStatement(dropped)),
        None => Ok(None),
    }
}

/// Drops indexes.
///
/// # Errors
/// One is not there (unless `if_exists`).
pub(crate) fn drop_indexes(
    transaction: &mut Transaction,
    names: &[String],
    if_exists: bool,
) -> Result<String, EngineError> {
    let mut dropped = Vec::new();
    for name in names {
        let catalog = transaction.catalog();
        if catalog.has_index(name) {
            transaction.txn().remove(&index_object(name))?;
            transaction.changed([]);
            dropped.push(name.as_str());
        } else if !if_exists {
            return Err(catalog.no_index(name));
        }
    }
    Ok(if dropped.is_empty() {
        "nothing to drop".into()
    } else {
        format!("dropped index {}", dropped.join(", "))
    })
}
