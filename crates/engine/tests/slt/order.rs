//! The order that a query asks for.

use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{self, Expr, OrderByKind, PipeOperator, Value};

/// Returns true if the rows of a query have an order: it cannot be parsed, or has `ORDER BY` at its end.
pub(super) fn has_order(text: &str) -> bool {
    match query(text) {
        Some(query) => {
            let is_order = |operator: &PipeOperator| matches!(operator, PipeOperator::OrderBy { .. });
            query.order_by.is_some() || query.pipe_operators.iter().any(is_order)
        }
        None => !text.trim_start().to_ascii_uppercase().starts_with("EXECUTE"),
    }
}

/// Returns the values by which the rows of a query are ordered; `None` if they are not all columns of it.
pub(super) fn sort_keys<'a>(
    text: &str,
    names: &[String],
    rows: &'a [Vec<String>],
) -> Option<Vec<Vec<&'a str>>> {
    let OrderByKind::Expressions(keys) = query(text)?.order_by?.kind else {
        return None;
    };
    let keys: Vec<usize> = keys
        .iter()
        .map(|key| column(&key.expr, names))
        .collect::<Option<_>>()?;
    let of_row = |row: &'a Vec<String>| keys.iter().map(|key| row.get(*key).map(String::as_str)).collect();
    rows.iter().map(of_row).collect()
}

fn query(text: &str) -> Option<ast::Query> {
    let mut statements = DFParser::parse_sql(text).ok()?;
    match statements.pop_front()? {
        Statement::Statement(statement) => match *statement {
            ast::Statement::Query(query) => Some(*query),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the position of the column that an expression is; `None` if it is not one column of these names.
fn column(expr: &Expr, names: &[String]) -> Option<usize> {
    let name = match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => return number.parse::<usize>().ok()?.checked_sub(1),
            _ => return None,
        },
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    };
    let name = match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    };
    let mut found = names.iter().enumerate().filter(|(_, other)| **other == name);
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Some(at),
        _ => None,
    }
}
