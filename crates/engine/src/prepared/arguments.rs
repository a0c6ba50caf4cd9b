//! The arguments of `EXECUTE`: constant expressions.

use datafusion::common::ScalarValue;
use datafusion::sql::parser::{DFParserBuilder, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, SelectItem, SetExpr, UnaryOperator, Value};
use futures::StreamExt;
use halocline_sql::EngineError;

use super::values::number;
use crate::session::StatementPlanner;

/// Returns the values of arguments that are literals; `None` if another expression is among them.
pub(crate) fn literals(arguments: &[Expr]) -> Option<Vec<ScalarValue>> {
    arguments.iter().map(literal).collect()
}

/// Evaluates arguments as a query of one row.
///
/// # Errors
/// An argument is no constant, or cannot be evaluated.
pub(crate) async fn evaluated(
    planner: &StatementPlanner,
    arguments: Vec<Expr>,
) -> Result<Vec<ScalarValue>, EngineError> {
    let mut rows = planner.query(row_of(arguments)?).await?;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            let columns = batch.columns().iter();
            let values = columns.map(|column| ScalarValue::try_from_array(column, 0));
            return Ok(values.collect::<Result<_, _>>()?);
        }
    }
    Err(EngineError::Query(
        "the arguments of EXECUTE have no value".into(),
    ))
}

/// Returns the value of a literal; `None` for any other expression.
fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => number(digits, false),
            Value::SingleQuotedString(text) => Some(ScalarValue::Utf8(Some(text.clone()))),
            Value::Boolean(value) => Some(ScalarValue::Boolean(Some(*value))),
            Value::Null => Some(ScalarValue::Null),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match &**expr {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, false) => number(digits, true),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Returns `SELECT expression AS a0, …`.
fn row_of(expressions: Vec<Expr>) -> Result<Box<ast::Query>, EngineError> {
    let parsed = DFParserBuilder::new("SELECT NULL")
        .build()?
        .parse_statements()?
        .pop_front();
    if let Some(Parsed::Statement(statement)) = parsed
        && let ast::Statement::Query(mut query) = *statement
        && let SetExpr::Select(select) = &mut *query.body
    {
        let items = expressions.into_iter().enumerate();
        select.projection = items
            .map(|(at, expr)| SelectItem::ExprWithAlias {
                expr,
                alias: Ident::new(format!("a{at}")),
            })
            .collect();
        return Ok(query);
    }
    Err(EngineError::Query(
        "the arguments of EXECUTE cannot be planned".into(),
    ))
}
