//! Statements that DataFusion plans and runs: queries, `EXPLAIN`, `DESCRIBE` and `SHOW`.

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;
use halocline_sql::EngineError;
use halocline_sql::parse::{parse_tree, refuse};

use super::run::StatementRun;
use super::show_indexes::is_show_indexes;
use super::statement_kind::{
    BoxedStatement, RunStatement, StatementFuture, StatementKind, StatementQuery, StatementSyntax,
    sql_statement,
};
use crate::QueryResult;

/// `SELECT` in the list of statements.
pub(super) const SELECT: StatementKind = StatementKind {
    name: "SELECT",
    example: "SELECT 1",
    syntax: &[StatementSyntax::Whole {
        is: |tree| matches!(sql_statement(tree), Some(ast::Statement::Query(_))),
        parse: planned,
    }],
};

/// `EXPLAIN` in the list of statements.
pub(super) const EXPLAIN: StatementKind = StatementKind {
    name: "EXPLAIN",
    example: "EXPLAIN SELECT 1",
    syntax: &[StatementSyntax::Whole {
        is: |tree| matches!(tree, Parsed::Explain(_)),
        parse: explain,
    }],
};

/// `DESCRIBE` in the list of statements.
pub(super) const DESCRIBE: StatementKind = StatementKind {
    name: "DESCRIBE",
    example: "DESCRIBE t",
    syntax: &[StatementSyntax::Whole {
        is: |tree| matches!(sql_statement(tree), Some(ast::Statement::ExplainTable { .. })),
        parse: planned,
    }],
};

/// `SHOW` in the list of statements.
pub(super) const SHOW: StatementKind = StatementKind {
    name: "SHOW",
    example: "SHOW TABLES",
    syntax: &[
        StatementSyntax::Whole {
            is: is_show,
            parse: planned,
        },
        StatementSyntax::Whole {
            is: is_show_tables,
            parse: show_tables,
        },
    ],
};

/// `SHOW FUNCTIONS` in the list of statements.
pub(super) const SHOW_FUNCTIONS: StatementKind = StatementKind {
    name: "SHOW FUNCTIONS",
    example: "SHOW FUNCTIONS",
    syntax: &[StatementSyntax::Whole {
        is: |tree| matches!(sql_statement(tree), Some(ast::Statement::ShowFunctions { .. })),
        parse: planned,
    }],
};

/// A statement that DataFusion plans and runs, as the session plans it.
#[derive(Debug)]
pub(super) struct DataFusionStatement(Parsed);

impl RunStatement for DataFusionStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(tree) = *self;
        Box::pin(async move {
            let rows = run
                .session
                .select(run.engine, tree, run.lookup, run.times)
                .await?;
            Ok(QueryResult::rows(rows))
        })
    }

    fn into_query(self: Box<Self>) -> Option<StatementQuery> {
        Some(StatementQuery::Planned(self.0))
    }
}

fn planned(tree: Parsed) -> Result<BoxedStatement, EngineError> {
    Ok(Box::new(DataFusionStatement(tree)))
}

/// Parses `EXPLAIN`.
///
/// # Errors
/// It explains anything but a query.
fn explain(tree: Parsed) -> Result<BoxedStatement, EngineError> {
    match &tree {
        Parsed::Explain(explain)
            if matches!(sql_statement(&explain.statement), Some(ast::Statement::Query(_))) =>
        {
            planned(tree)
        }
        _ => refuse("EXPLAIN of anything but a query", "explain the SELECT alone"),
    }
}

fn is_show(tree: &Parsed) -> bool {
    sql_statement(tree).is_some_and(|statement| match statement {
        ast::Statement::ShowVariable { .. } => !is_show_indexes(statement),
        ast::Statement::ShowColumns { .. } => true,
        _ => false,
    })
}

/// The tables and views of the schema by name, each with its kind.
const TABLES: &str = "SELECT table_name AS name, CASE table_type WHEN 'VIEW' THEN 'view' WHEN 'LOCAL TEMPORARY' THEN 'temporary table' ELSE 'table' END AS kind \
                      FROM information_schema.tables WHERE table_schema = 'public' ORDER BY name";

fn is_show_tables(tree: &Parsed) -> bool {
    matches!(sql_statement(tree), Some(ast::Statement::ShowTables { .. }))
}

/// Returns the query for the tables and views.
///
/// # Errors
/// It cannot be parsed, which does not happen.
pub(super) fn show_tables_query() -> Result<BoxedStatement, EngineError> {
    planned(parse_tree(TABLES)?)
}

/// Parses `SHOW TABLES`.
///
/// # Errors
/// It has options.
fn show_tables(tree: Parsed) -> Result<BoxedStatement, EngineError> {
    match sql_statement(&tree) {
        Some(ast::Statement::ShowTables {
            terse: false,
            history: false,
            extended: false,
            full: false,
            external: false,
            show_options:
                ast::ShowStatementOptions {
                    show_in: None,
                    starts_with: None,
                    limit: None,
                    limit_from: None,
                    filter_position: None,
                },
        }) => show_tables_query(),
        _ => refuse(
            "an option of SHOW TABLES",
            "SELECT from information_schema.tables with a condition",
        ),
    }
}
