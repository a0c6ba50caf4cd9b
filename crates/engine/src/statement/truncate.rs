//! `TRUNCATE` of tables of any kind.
//!
//! Invariant: all tables of a statement are emptied or none, also after a crash.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast;
use halocline_sql::parse::{object_name, refuse};

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_kind::KINDS;
use super::truncate_plan::TruncatePlan;
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
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self { mut names, if_exists } = *self;
        Box::pin(async move {
            let mut seen = HashSet::new();
            names.retain(|name| seen.insert(name.clone()));
            let mut of_kinds = KINDS.map(|kind| (kind, Vec::new()));
            for name in &names {
                let kind = run.table(name).await?.kind().name();
                for (_, names) in of_kinds.iter_mut().filter(|(other, _)| other.name() == kind) {
                    names.push(name.clone());
                }
            }
            let mut plan = TruncatePlan::default();
            for (kind, names) in of_kinds {
                if !names.is_empty() {
                    kind.truncate_with(names, &mut plan);
                }
            }
            let cancel = run.cancel_flag();
            let emptied = run
                .blocking(move |session, engine| plan.run(session, engine, if_exists, &cancel))
                .await?;
            names.retain(|name| emptied.contains(name));
            Ok(QueryResult::done(if names.is_empty() {
                "nothing to truncate".to_owned()
            } else {
                format!("truncated table {}", names.join(", "))
            }))
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
