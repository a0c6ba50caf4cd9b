//! `VACUUM`.

use datafusion::sql::sqlparser::ast::{self, VacuumStatement as ParsedVacuum};
use halocline_sql::parse::{object_name, refuse};

use super::compact::vacuum;
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;

/// `VACUUM` in the list of statements.
pub(super) const VACUUM: StatementKind = StatementKind {
    name: "VACUUM",
    example: "VACUUM",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `VACUUM` as parsed.
#[derive(Debug)]
pub(super) struct VacuumStatement {
    /// The table; all if none is named.
    table: Option<String>,
    /// Rewrite all segments.
    full: bool,
}

impl RunStatement for VacuumStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self { table, full } = *self;
        Box::pin(async move {
            run.session.slot().must_be_idle("VACUUM")?;
            let (cancel, wait) = (run.cancel_flag(), run.session.lock_wait());
            let message = run
                .blocking(move |_, engine| vacuum(engine, table.as_deref(), full, wait, &cancel))
                .await?;
            Ok(QueryResult::done(message))
        })
    }
}

/// Parses `VACUUM`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    match statement {
        ast::Statement::Vacuum(ParsedVacuum {
            full,
            sort_only: false,
            delete_only: false,
            reindex: false,
            recluster: false,
            table_name,
            threshold: None,
            boost: false,
        }) => boxed(VacuumStatement {
            table: table_name.as_ref().map(object_name).transpose()?,
            full: *full,
        }),
        ast::Statement::Vacuum(_) => refuse(
            "an option of VACUUM",
            "write VACUUM, VACUUM table or VACUUM FULL table",
        ),
        _ => Ok(None),
    }
}
