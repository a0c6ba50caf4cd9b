//! `DELETE`.

use datafusion::sql::sqlparser::ast::{self, FromTable};
use halocline_sql::parse::refuse;

use super::assignments::target;
use super::run::{StatementRun, counted};
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_changes::Delete;
use crate::QueryResult;

/// `DELETE` in the list of statements.
pub(super) const DELETE: StatementKind = StatementKind {
    name: "DELETE",
    example: "DELETE FROM t WHERE a = 1",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `DELETE` as parsed.
#[derive(Debug)]
pub(super) struct DeleteStatement(Delete);

impl RunStatement for DeleteStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(delete) = *self;
        Box::pin(async move {
            let table = run.table(&delete.table).await?;
            let rows = table.delete(&run, delete).await?;
            Ok(QueryResult::done(format!("deleted {}", counted(rows))))
        })
    }
}

/// Parses `DELETE`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Delete(delete) = statement else {
        return Ok(None);
    };
    if delete.returning.is_some() || delete.output.is_some() {
        return refuse("DELETE … RETURNING", "ask for the rows with a SELECT first");
    }
    if delete.using.is_some() || !delete.tables.is_empty() {
        return refuse(
            "DELETE … USING",
            "select the rows with a subquery: WHERE k IN (SELECT …)",
        );
    }
    if !delete.order_by.is_empty() || delete.limit.is_some() {
        return refuse("ORDER BY or LIMIT in DELETE", "select the rows in WHERE");
    }
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let [table] = tables.as_slice() else {
        return refuse(
            "DELETE from several tables",
            "send one statement for each, within BEGIN and COMMIT",
        );
    };
    let (table, alias) = target(table)?;
    boxed(DeleteStatement(Delete {
        table,
        alias,
        selection: delete.selection.clone(),
    }))
}
