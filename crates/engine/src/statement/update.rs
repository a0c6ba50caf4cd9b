//! `UPDATE`.

use datafusion::sql::sqlparser::ast;
use halocline_sql::parse::refuse;

use super::assignments::{assignments, target};
use super::run::{StatementRun, counted};
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_changes::Update;
use crate::QueryResult;

/// `UPDATE` in the list of statements.
pub(super) const UPDATE: StatementKind = StatementKind {
    name: "UPDATE",
    example: "UPDATE t SET a = 2 WHERE a = 1",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// An `UPDATE` as parsed.
#[derive(Debug)]
pub(super) struct UpdateStatement(pub(super) Update);

impl RunStatement for UpdateStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(update) = *self;
        Box::pin(async move {
            let table = run.table(&update.table).await?;
            let rows = table.update(&run, update).await?;
            Ok(QueryResult::done(format!("updated {}", counted(rows))))
        })
    }
}

/// Parses `UPDATE`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Update(update) = statement else {
        return Ok(None);
    };
    if update.returning.is_some() || update.output.is_some() {
        return refuse("UPDATE … RETURNING", "ask for the rows with a SELECT");
    }
    if update.from.is_some() {
        return refuse(
            "UPDATE … FROM",
            "take the value from a subquery: SET a = (SELECT … WHERE u.k = t.k) WHERE EXISTS (…)",
        );
    }
    if update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some() {
        return refuse("OR, ORDER BY or LIMIT in UPDATE", "select the rows in WHERE");
    }
    let (table, alias) = target(&update.table)?;
    boxed(UpdateStatement(Update {
        assignments: assignments(&update.assignments, &format!("UPDATE {table}"))?,
        table,
        alias,
        selection: update.selection.clone(),
    }))
}
