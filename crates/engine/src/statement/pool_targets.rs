//! Statements that name the table to change by the schema `main`, in which there is nothing of the session.
//!
//! A statement looks its table up by the name alone, and would find a temporary table of that name first.
//! It is refused then, so that it never changes another table than it says.

use datafusion::sql::sqlparser::ast::{
    self, FromTable, ObjectName, TableFactor, TableObject, TableWithJoins,
};
use halocline_sql::parse::{identifier, refuse};
use halocline_sql::{EngineError, POOL_SCHEMA};

use super::run::StatementRun;
use super::statement_kind::{BoxedStatement, RunStatement, StatementFuture, StatementQuery};

/// A statement that changes tables of the pool.
#[derive(Debug)]
struct PoolTargetsStatement {
    statement: BoxedStatement,
    /// The names of the tables.
    names: Vec<String>,
}

impl RunStatement for PoolTargetsStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        for name in &self.names {
            if let Err(error) = check_hidden(&run, name) {
                return Box::pin(async move { Err(error) });
            }
        }
        self.statement.run(run)
    }

    fn into_query(self: Box<Self>) -> Option<StatementQuery> {
        self.statement.into_query()
    }
}

/// Fails if a temporary table has this name.
fn check_hidden(run: &StatementRun<'_>, name: &str) -> Result<(), EngineError> {
    if run.session.temporaries().table(name).is_none() {
        return Ok(());
    }
    refuse(
        format!("changing {POOL_SCHEMA}.{name} while the session has a temporary table {name}"),
        "drop the temporary table first, or use another session",
    )
}

/// Returns a statement that is checked when it is run, if the syntax tree names a table to change by the
/// schema `main`.
pub(super) fn checked(tree: &ast::Statement, statement: BoxedStatement) -> BoxedStatement {
    let names: Vec<String> = changed_tables(tree)
        .into_iter()
        .filter_map(name_in_pool)
        .collect();
    if names.is_empty() {
        statement
    } else {
        Box::new(PoolTargetsStatement { statement, names })
    }
}

/// Returns the name of a table if the schema before it is `main`.
fn name_in_pool(name: &ObjectName) -> Option<String> {
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(identifier)
        .collect();
    match parts.as_slice() {
        [.., schema, name] if schema == POOL_SCHEMA => Some(name.clone()),
        _ => None,
    }
}

/// Returns the names of the tables that a statement changes.
fn changed_tables(statement: &ast::Statement) -> Vec<&ObjectName> {
    match statement {
        ast::Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => vec![name],
            _ => Vec::new(),
        },
        ast::Statement::Update(update) => name_of(&update.table).into_iter().collect(),
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
            tables.iter().filter_map(name_of).collect()
        }
        ast::Statement::Truncate(truncate) => truncate.table_names.iter().map(|table| &table.name).collect(),
        ast::Statement::AlterTable(alter) => vec![&alter.name],
        ast::Statement::Drop { names, .. } => names.iter().collect(),
        ast::Statement::CreateIndex(create) => vec![&create.table_name],
        _ => Vec::new(),
    }
}

fn name_of(table: &TableWithJoins) -> Option<&ObjectName> {
    match &table.relation {
        TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}
