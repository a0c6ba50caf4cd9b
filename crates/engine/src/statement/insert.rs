//! `INSERT`.

use datafusion::sql::sqlparser::ast::{
    self, ConflictTarget, Expr, OnConflictAction, Query, SetExpr, SqliteOnConflict, TableObject,
    UnaryOperator, Value,
};
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, is_default, object_name, refuse};

use super::assignments::assignments;
use super::distinct_names::distinctly_named;
use super::run::{StatementRun, counted};
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementQuery, StatementSyntax, boxed,
};
use super::table_changes::{Insert, InsertSource, OnConflict};
use crate::QueryResult;

/// `INSERT` in the list of statements.
pub(super) const INSERT: StatementKind = StatementKind {
    name: "INSERT",
    example: "INSERT INTO t VALUES (1)",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// An `INSERT` as parsed.
#[derive(Debug)]
pub(super) struct InsertStatement(pub(super) Insert);

impl RunStatement for InsertStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(insert) = *self;
        Box::pin(async move {
            let table = run.table(&insert.table).await?;
            let rows = table.insert(&run, insert).await?;
            Ok(QueryResult::done(format!("inserted {}", counted(rows))))
        })
    }

    fn into_query(self: Box<Self>) -> Option<StatementQuery> {
        match self.0.source {
            InsertSource::Query(query) => Some(StatementQuery::stored(query)),
            InsertSource::Literals(_) => None,
        }
    }
}

/// Parses `INSERT`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Insert(insert) = statement else {
        return Ok(None);
    };
    let TableObject::TableName(name) = &insert.table else {
        return refuse("INSERT into a function", "name a table");
    };
    if insert.returning.is_some() || insert.output.is_some() {
        return refuse("INSERT … RETURNING", "ask for the rows with a SELECT");
    }
    if insert.overwrite {
        return refuse(
            "INSERT OVERWRITE",
            "TRUNCATE the table first, within BEGIN and COMMIT",
        );
    }
    if insert.settings.is_some() || insert.format_clause.is_some() || insert.priority.is_some() {
        return refuse("SETTINGS, FORMAT or a priority in INSERT", "leave it out");
    }
    let plain = insert.after_columns.is_empty()
        && insert.insert_alias.is_none()
        && insert.optimizer_hints.is_empty()
        && insert.multi_table_into_clauses.is_empty()
        && insert.assignments.is_empty()
        && insert.partitioned.is_none()
        && insert.table_alias.is_none()
        && insert.multi_table_insert_type.is_none();
    let (Some(query), true) = (&insert.source, plain) else {
        return refuse(
            "this form of INSERT",
            "write INSERT INTO t (columns) VALUES … or SELECT …",
        );
    };
    let columns = insert.columns.iter().map(object_name).collect::<Result<_, _>>()?;
    let source = match literals(query) {
        Some(rows) => InsertSource::Literals(rows),
        None => InsertSource::Query(distinctly_named(query)),
    };
    let table = object_name(name)?;
    boxed(InsertStatement(Insert {
        on_conflict: on_conflict(insert, &table)?,
        table,
        columns,
        source,
    }))
}

/// Reads `ON CONFLICT`, `INSERT OR` and `REPLACE INTO`.
fn on_conflict(insert: &ast::Insert, table: &str) -> Result<OnConflict, EngineError> {
    let instead = "write ON CONFLICT DO NOTHING or ON CONFLICT (key) DO UPDATE SET …";
    let replaces = insert.replace_into || insert.or == Some(SqliteOnConflict::Replace);
    let ignores = insert.ignore || insert.or == Some(SqliteOnConflict::Ignore);
    match (&insert.on, replaces, ignores) {
        (None, true, false) => return Ok(OnConflict::Replace),
        (None, false, true) => return Ok(OnConflict::Nothing(None)),
        (_, false, false) if insert.or.is_none() => {}
        _ => return refuse("this combination of OR, IGNORE and ON CONFLICT", instead),
    }
    let on = match &insert.on {
        None => return Ok(OnConflict::Fail),
        Some(ast::OnInsert::OnConflict(on)) => on,
        Some(_) => return refuse("ON DUPLICATE KEY", instead),
    };
    let key = match &on.conflict_target {
        None => None,
        Some(ConflictTarget::Columns(columns)) => Some(columns.iter().map(identifier).collect()),
        Some(ConflictTarget::OnConstraint(_)) => {
            return refuse("ON CONFLICT ON CONSTRAINT", "name the columns of the primary key");
        }
    };
    match &on.action {
        OnConflictAction::DoNothing => Ok(OnConflict::Nothing(key)),
        OnConflictAction::DoUpdate(update) => Ok(OnConflict::Update {
            key,
            assignments: assignments(&update.assignments, &format!("INSERT INTO {table}"))?,
            selection: update.selection.clone().map(Box::new),
        }),
    }
}

/// Returns the rows of a query that is nothing but `VALUES` of literals and the word DEFAULT.
fn literals(query: &Query) -> Option<Vec<Vec<Expr>>> {
    let SetExpr::Values(values) = &*query.body else {
        return None;
    };
    if query.with.is_some()
        || query.order_by.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some()
    {
        return None;
    }
    let all = values.rows.iter().all(|row| row.content.iter().all(is_literal));
    all.then(|| values.rows.iter().map(|row| row.content.clone()).collect())
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(
            value.value,
            Value::Number(..) | Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null
        ),
        Expr::UnaryOp {
            op: UnaryOperator::Minus | UnaryOperator::Plus,
            expr,
        } => matches!(&**expr, Expr::Value(value) if matches!(value.value, Value::Number(..))),
        Expr::TypedString(typed) => {
            matches!(
                typed.data_type,
                ast::DataType::Date | ast::DataType::Timestamp(None, ast::TimezoneInfo::None)
            ) && matches!(typed.value.value, Value::SingleQuotedString(_))
        }
        other => is_default(other),
    }
}
