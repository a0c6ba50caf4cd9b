//! `SET` and `RESET`.

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;
use halocline_sql::EngineError;

use super::run::StatementRun;
use super::statement_kind::{
    BoxedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, sql_statement,
};
use crate::QueryResult;

/// `SET` in the list of statements.
pub(super) const SET: StatementKind = StatementKind {
    name: "SET",
    example: "SET halocline.index = auto",
    syntax: &[StatementSyntax::Whole {
        is: |tree| matches!(sql_statement(tree), Some(ast::Statement::Set(_))),
        parse,
    }],
};

/// `RESET` in the list of statements.
pub(super) const RESET: StatementKind = StatementKind {
    name: "RESET",
    example: "RESET halocline.index",
    syntax: &[StatementSyntax::Whole {
        is: |tree| matches!(tree, Parsed::Reset(_)),
        parse,
    }],
};

/// A change of a setting.
#[derive(Debug)]
pub(super) struct SetStatement(Parsed);

impl RunStatement for SetStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(tree) = *self;
        Box::pin(async move {
            run.session.set(run.engine, tree).await?;
            Ok(QueryResult::done("set"))
        })
    }
}

fn parse(tree: Parsed) -> Result<BoxedStatement, EngineError> {
    Ok(Box::new(SetStatement(tree)))
}
