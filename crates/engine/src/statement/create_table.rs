//! `CREATE TABLE` with a list of columns.

use datafusion::sql::sqlparser::ast;
use halocline_sql::EngineError;

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_changes::NewTable;
use super::table_definition::read_definition;
use super::table_kind::kind_of_key;
use crate::QueryResult;

/// `CREATE TABLE` in the list of statements.
pub(super) const CREATE_TABLE: StatementKind = StatementKind {
    name: "CREATE TABLE",
    example: "CREATE TABLE t (a int)",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `CREATE TABLE` as parsed.
#[derive(Debug)]
pub(super) struct CreateTableStatement(pub(super) NewTable);

impl RunStatement for CreateTableStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(table) = *self;
        Box::pin(async move {
            let kind = kind_of_key(&table.key);
            let message = kind.create(&run, table).await?;
            Ok(QueryResult::done(message))
        })
    }
}

/// Parses `CREATE TABLE` without a query; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    match statement {
        ast::Statement::CreateTable(create) if create.query.is_none() && !create.temporary => {
            boxed(CreateTableStatement(new_table(create)?))
        }
        _ => Ok(None),
    }
}

/// Reads the table of a statement without a query.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn new_table(create: &ast::CreateTable) -> Result<NewTable, EngineError> {
    let (spec, listed) = read_definition(create)?;
    let schema = listed.schema(&spec.name)?;
    Ok(NewTable {
        spec,
        schema,
        defaults: listed.defaults,
        key: listed.key,
        rules: listed.rules,
    })
}
