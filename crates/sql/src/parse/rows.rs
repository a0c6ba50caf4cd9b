//! `INSERT`, `UPDATE` and `DELETE` as parsed.

use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, ConflictTarget, Expr, FromTable, Ident, OnConflictAction, Query, SelectItem,
    SetExpr, SqliteOnConflict, TableFactor, TableObject, TableWithJoins, UnaryOperator, Value,
};

use super::{Statement, identifier, object_name, refuse};
use crate::EngineError;

/// Rows to add.
#[derive(Debug)]
pub struct Insert {
    /// The table.
    pub table: String,
    /// The columns that are given; all in their order if none is named.
    pub columns: Vec<String>,
    /// The rows.
    pub source: InsertSource,
    /// The action for rows whose primary key is there.
    pub on_conflict: OnConflict,
}

/// The action for rows to insert whose primary key is there.
#[derive(Debug)]
pub enum OnConflict {
    /// The statement fails.
    Fail,
    /// The rows are left out.
    Nothing(Option<Vec<String>>),
    /// The rows replace those that are there.
    Replace,
    /// The rows that are there are changed.
    Update {
        /// The columns of the primary key, if they are named.
        key: Option<Vec<String>>,
        /// Columns and their new values, in which `excluded` stands for the row to insert.
        assignments: Vec<(String, Expr)>,
        /// The condition on the rows that are changed; all if there is none.
        selection: Option<Box<Expr>>,
    },
}

/// The source of new rows.
#[derive(Debug)]
pub enum InsertSource {
    /// Values that need no planning, row by row.
    Literals(Vec<Vec<Expr>>),
    /// Anything else.
    Query(Box<Query>),
}

/// Rows to change.
#[derive(Debug)]
pub struct Update {
    /// The table.
    pub table: String,
    /// The alias of the table in the statement, or its name.
    pub alias: String,
    /// Columns and their new values.
    pub assignments: Vec<(String, Expr)>,
    /// The condition on the rows; all if there is none.
    pub selection: Option<Expr>,
}

/// Rows to delete.
#[derive(Debug)]
pub struct Delete {
    /// The table.
    pub table: String,
    /// The alias of the table in the statement, or its name.
    pub alias: String,
    /// The condition on the rows; all if there is none.
    pub selection: Option<Expr>,
}

/// Reads `INSERT`.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn insert(insert: &ast::Insert) -> Result<Statement, EngineError> {
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
    Ok(Statement::Insert(Insert {
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

/// Returns the query with distinct names for repeated outputs, such as two NULLs: the names do not matter
/// here, but DataFusion requires them to differ.
pub(super) fn distinctly_named(query: &Query) -> Box<Query> {
    let mut query = Box::new(query.clone());
    if let SetExpr::Select(select) = &mut *query.body {
        let texts: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
        for (at, item) in select.projection.iter_mut().enumerate() {
            if let (SelectItem::UnnamedExpr(expr), true) = (&*item, texts[..at].contains(&texts[at])) {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', format!("value {at}")),
                };
            }
        }
    }
    query
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

/// Reads `UPDATE`.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn update(update: &ast::Update) -> Result<Statement, EngineError> {
    if update.returning.is_some() || update.output.is_some() {
        return refuse("UPDATE … RETURNING", "ask for the rows with a SELECT");
    }
    if update.from.is_some() {
        return refuse(
            "UPDATE … FROM",
            "take the value from a subquery: SET a = (SELECT … WHERE u.k = t.k) WHERE EXISTS (…)",
        );
    }
    if update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some() {
        return refuse("OR, ORDER BY or LIMIT in UPDATE", "select the rows in WHERE");
    }
    let (table, alias) = target(&update.table)?;
    Ok(Statement::Update(Update {
        assignments: assignments(&update.assignments, &format!("UPDATE {table}"))?,
        table,
        alias,
        selection: update.selection.clone(),
    }))
}

/// Reads the assignments of a statement, which errors name.
fn assignments(given: &[ast::Assignment], statement: &str) -> Result<Vec<(String, Expr)>, EngineError> {
    let mut assignments: Vec<(String, Expr)> = Vec::new();
    for assignment in given {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return refuse("SET (a, b) = …", "assign the columns one by one");
        };
        let Some(column) = name.0.last().and_then(|part| part.as_ident()).map(identifier) else {
            return refuse(format!("SET {name}"), "name a column of the table");
        };
        if assignments.iter().any(|(other, _)| *other == column) {
            let text = format!("{statement}: column '{column}' is assigned twice; assign it once");
            return Err(EngineError::Query(text));
        }
        assignments.push((column, assignment.value.clone()));
    }
    Ok(assignments)
}

/// Reads `DELETE`.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn delete(delete: &ast::Delete) -> Result<Statement, EngineError> {
    if delete.returning.is_some() || delete.output.is_some() {
        return refuse("DELETE … RETURNING", "ask for the rows with a SELECT first");
    }
    if delete.using.is_some() || !delete.tables.is_empty() {
        return refuse(
            "DELETE … USING",
            "select the rows with a subquery: WHERE k IN (SELECT …)",
        );
    }
    if !delete.order_by.is_empty() || delete.limit.is_some() {
        return refuse("ORDER BY or LIMIT in DELETE", "select the rows in WHERE");
    }
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let [table] = tables.as_slice() else {
        return refuse(
            "DELETE from several tables",
            "send one statement for each, within BEGIN and COMMIT",
        );
    };
    let (table, alias) = target(table)?;
    Ok(Statement::Delete(Delete {
        table,
        alias,
        selection: delete.selection.clone(),
    }))
}

/// Returns the table that a statement changes, and its alias.
fn target(table: &TableWithJoins) -> Result<(String, String), EngineError> {
    let TableFactor::Table {
        name,
        alias,
        args: None,
        ..
    } = &table.relation
    else {
        return refuse("a change of anything but a table", "name a table");
    };
    if !table.joins.is_empty() {
        return refuse(
            "a change of a join",
            "name one table and select its rows with a subquery",
        );
    }
    let name = object_name(name)?;
    let alias = alias
        .as_ref()
        .map_or_else(|| name.clone(), |alias| identifier(&alias.name));
    Ok((name, alias))
}

/// Returns true for the word DEFAULT, which the parser reads as a column.
pub fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}
