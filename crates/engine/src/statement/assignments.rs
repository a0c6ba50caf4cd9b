//! Parts that `INSERT`, `UPDATE` and `DELETE` share as parsed: assignments, and the table that is changed.

use datafusion::sql::sqlparser::ast::{self, AssignmentTarget, Expr, TableFactor, TableWithJoins};
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, object_name, refuse};

/// Reads the assignments of a statement, which errors name.
///
/// # Errors
/// A column is assigned twice, or the form is not offered.
pub(super) fn assignments(
    given: &[ast::Assignment],
    statement: &str,
) -> Result<Vec<(String, Expr)>, EngineError> {
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

/// Returns the table that a statement changes, and its alias.
///
/// # Errors
/// It is anything but one table.
pub(super) fn target(table: &TableWithJoins) -> Result<(String, String), EngineError> {
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
