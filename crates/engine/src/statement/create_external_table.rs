//! `CREATE EXTERNAL TABLE`: a table of files, which belongs to the session.

use datafusion::sql::parser::Statement as Parsed;
use halocline_sql::EngineError;

use super::run::StatementRun;
use super::statement_kind::{BoxedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax};
use crate::QueryResult;

/// `CREATE EXTERNAL TABLE` in the list of statements.
pub(super) const CREATE_EXTERNAL_TABLE: StatementKind = StatementKind {
    name: "CREATE EXTERNAL TABLE",
    example: "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION 'e.parquet'",
    syntax: &[StatementSyntax::Whole {
        is: |tree| matches!(tree, Parsed::CreateExternalTable(_)),
        parse,
    }],
};

/// A `CREATE EXTERNAL TABLE` as parsed.
#[derive(Debug)]
pub(super) struct CreateExternalTableStatement(Parsed);

impl RunStatement for CreateExternalTableStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(tree) = *self;
        Box::pin(async move {
            run.session.remember(run.engine, tree).await?;
            Ok(QueryResult::done("external table created for this session"))
        })
    }
}

fn parse(tree: Parsed) -> Result<BoxedStatement, EngineError> {
    Ok(Box::new(CreateExternalTableStatement(tree)))
}
