//! `CREATE TEMP TABLE`: a table of the session.

use datafusion::sql::sqlparser::ast::{self, ColumnOption};
use halocline_sql::EngineError;
use halocline_sql::parse::refuse;

use super::create_table::new_table;
use super::create_table_as::new_table_as;
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementQuery, StatementSyntax, boxed,
};
use super::table_changes::{NewTable, NewTableAs};
use super::table_kind::TableKind;
use super::temporary_table::TemporaryTableKind;
use crate::QueryResult;

/// `CREATE TEMP TABLE` in the list of statements.
pub(super) const CREATE_TEMP_TABLE: StatementKind = StatementKind {
    name: "CREATE TEMP TABLE",
    example: "CREATE TEMP TABLE t (a int)",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `CREATE TEMP TABLE` as parsed.
#[derive(Debug)]
enum CreateTemporaryStatement {
    /// With a list of columns.
    Listed(NewTable),
    /// With the rows of a query.
    Queried(NewTableAs),
}

impl RunStatement for CreateTemporaryStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let spec = match &*self {
                Self::Listed(table) => &table.spec,
                Self::Queried(table) => &table.spec,
            };
            let name = spec.name.as_str();
            let now = run.session.temporaries().now();
            if now.views.contains_key(name) || run.session.externals().has(name) {
                return Err(EngineError::Exists {
                    kind: if now.views.contains_key(name) {
                        "view"
                    } else {
                        "table"
                    },
                    name: name.to_owned(),
                    instead: "drop it first, or choose another name",
                });
            }
            match (now.tables.contains_key(name), spec.or_replace, spec.if_not_exists) {
                (true, false, true) => return Ok(QueryResult::done(spec.is_there())),
                (true, false, false) => return Err(spec.exists()),
                (true, true, _) | (false, ..) => {}
            }
            let message = match *self {
                Self::Listed(table) => TemporaryTableKind.create(&run, table).await?,
                Self::Queried(table) => TemporaryTableKind.create_as(&run, table).await?,
            };
            Ok(QueryResult::done(message))
        })
    }

    fn into_query(self: Box<Self>) -> Option<StatementQuery> {
        match *self {
            Self::Listed(_) => None,
            Self::Queried(table) => Some(StatementQuery::stored(table.query)),
        }
    }
}

/// Parses `CREATE TEMP TABLE`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    let create = match statement {
        ast::Statement::CreateTable(create) if create.temporary => create,
        _ => return Ok(None),
    };
    let instead = "leave them out: a temporary table has only NOT NULL and DEFAULT";
    let is_offered = |option: &ColumnOption| {
        matches!(
            option,
            ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Default(_)
        )
    };
    let mut options = create.columns.iter().flat_map(|column| &column.options);
    if !create.constraints.is_empty() || !options.all(|option| is_offered(&option.option)) {
        return refuse("constraints in CREATE TEMP TABLE", instead);
    }
    if create.table_options != ast::CreateTableOptions::None {
        return refuse("WITH in CREATE TEMP TABLE", "leave it out");
    }
    match &create.query {
        None => boxed(CreateTemporaryStatement::Listed(new_table(create)?)),
        Some(query) => boxed(CreateTemporaryStatement::Queried(new_table_as(create, query)?)),
    }
}
