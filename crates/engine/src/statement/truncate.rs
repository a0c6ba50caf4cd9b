//! `TRUNCATE`.

use datafusion::sql::sqlparser::ast;
use halocline_sql::parse::{object_name, refuse};

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_kind::KINDS;
use crate::QueryResult;

/// `TRUNCATE` in the list of statements.
pub(super) const TRUNCATE: StatementKind = StatementKind {
    name: "TRUNCATE",
    example: "TRUNCATE TABLE t",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `TRUNCATE` as parsed.
#[derive(Debug)]
pub(super) struct TruncateStatement {
    /// The tables.
    names: Vec<String>,
    /// Skip missing ones.
    if_exists: bool,
}

impl RunStatement for TruncateStatement {
    /// Deletes all rows of the tables, kind by kind. The message is that of the last kind.
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self { names, if_exists } = *self;
        Box::pin(async move {
            let mut of_kinds = KINDS.map(|kind| (kind, Vec::new()));
            for name in names {
                let kind = run.table(&name).await?.kind().name();
                for (_, names) in of_kinds.iter_mut().filter(|(other, _)| other.name() == kind) {
                    names.push(name.clone());
                }
            }
            let mut message = String::new();
            for (kind, names) in of_kinds {
                if !names.is_empty() {
                    message = kind.truncate(&run, names, if_exists).await?;
                }
            }
            Ok(QueryResult::done(message))
        })
    }
}

/// Parses `TRUNCATE`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Truncate(truncate) = statement else {
        return Ok(None);
    };
    if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
        return refuse("an option of TRUNCATE", "write TRUNCATE TABLE t");
    }
    if truncate.identity.is_some() || truncate.cascade.is_some() {
        return refuse("IDENTITY or CASCADE in TRUNCATE", "write TRUNCATE TABLE t");
    }
    if truncate.table_names.iter().any(|target| target.only) {
        return refuse("ONLY in TRUNCATE", "write TRUNCATE TABLE t");
    }
    let names = truncate
        .table_names
        .iter()
        .map(|target| object_name(&target.name));
    boxed(TruncateStatement {
        names: names.collect::<Result<_, _>>()?,
        if_exists: truncate.if_exists,
    })
}
