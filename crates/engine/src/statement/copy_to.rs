//! `COPY … TO`, which DataFusion plans and runs.

use datafusion::sql::parser::Statement as Parsed;
use halocline_sql::EngineError;

use super::run::StatementRun;
use super::statement_kind::{BoxedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax};
use crate::QueryResult;

/// `COPY … TO` in the list of statements.
pub(super) const COPY_TO: StatementKind = StatementKind {
    name: "COPY TO",
    example: "COPY t TO 't.parquet'",
    syntax: &[StatementSyntax::Whole {
        is: |tree| matches!(tree, Parsed::CopyTo(_)),
        parse,
    }],
};

/// A `COPY … TO` as parsed.
#[derive(Debug)]
pub(super) struct CopyToStatement(Parsed);

impl RunStatement for CopyToStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(tree) = *self;
        Box::pin(async move {
            let rows = run.session.copy_to(run.engine, tree).await?;
            Ok(QueryResult::rows(rows))
        })
    }
}

fn parse(tree: Parsed) -> Result<BoxedStatement, EngineError> {
    Ok(Box::new(CopyToStatement(tree)))
}
