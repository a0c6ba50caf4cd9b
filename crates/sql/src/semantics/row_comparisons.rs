//! Comparisons of rows, `(a, b) = (c, d)`, as comparisons of their values, three-valued by column.
//!
//! Rows are equal if all values are, different if two values are, and ordered by the first values that
//! differ.
//! `(a, b) IN (SELECT …)` compares calls of the function `row_value`, which unnesting takes apart.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, UnaryOperator, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::EngineError;
use crate::row_value::ROW_VALUE;
use crate::syntax::{call_of, walk_mut};

/// Rewrites comparisons of rows.
pub(super) struct RowComparisons;

impl VisitorMut for RowComparisons {
    type Break = EngineError;

    /// Gives outputs that are rewritten the name that they have in the text.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<EngineError> {
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = &*item else {
                continue;
            };
            let mut refined = expr.clone();
            walk_mut(&mut refined, &mut RowComparisons)?;
            if refined != *expr {
                let alias = Ident::with_quote('"', expr.to_string());
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias,
                };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        let taken = std::mem::replace(expr, Expr::Tuple(Vec::new()));
        match rewritten(taken) {
            Ok(rewritten) => {
                *expr = rewritten;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn rewritten(expr: Expr) -> Result<Expr, EngineError> {
    Ok(match expr {
        Expr::BinaryOp { left, op, right } if is_comparison(&op) => match (row(&left), row(&right)) {
            (Some(left), Some(right)) => compared(left, &op, right)?,
            (None, None) => Expr::BinaryOp { left, op, right },
            _ => return Err(one_sided()),
        },
        Expr::IsDistinctFrom(left, right) => match (row(&left), row(&right)) {
            (Some(left), Some(right)) => {
                let make = |left, right| Expr::IsDistinctFrom(Box::new(left), Box::new(right));
                combined(pairs(left, right)?, make, BinaryOperator::Or)
            }
            (None, None) => Expr::IsDistinctFrom(left, right),
            _ => return Err(one_sided()),
        },
        Expr::IsNotDistinctFrom(left, right) => match (row(&left), row(&right)) {
            (Some(left), Some(right)) => {
                let make = |left, right| Expr::IsNotDistinctFrom(Box::new(left), Box::new(right));
                combined(pairs(left, right)?, make, BinaryOperator::And)
            }
            (None, None) => Expr::IsNotDistinctFrom(left, right),
            _ => return Err(one_sided()),
        },
        Expr::Between {
            expr,
            negated,
            low,
            high,
        } if row(&expr).is_some() => {
            let (Some(value), Some(low), Some(high)) = (row(&expr), row(&low), row(&high)) else {
                return Err(one_sided());
            };
            let from = compared(value.clone(), &BinaryOperator::GtEq, low)?;
            let to = compared(value, &BinaryOperator::LtEq, high)?;
            negated_if(negated, binary(from, BinaryOperator::And, to))
        }
        Expr::InList { expr, list, negated } if row(&expr).is_some() => {
            let mut any: Option<Expr> = None;
            for item in &list {
                let (Some(value), Some(item)) = (row(&expr), row(item)) else {
                    return Err(one_sided());
                };
                let equal = compared(value, &BinaryOperator::Eq, item)?;
                any = Some(match any {
                    Some(before) => binary(before, BinaryOperator::Or, equal),
                    None => equal,
                });
            }
            match any {
                Some(any) => negated_if(negated, any),
                None => return Err(one_sided()),
            }
        }
        Expr::InSubquery {
            expr,
            subquery,
            negated,
        } => match row(&expr) {
            Some(values) => Expr::InSubquery {
                subquery: Box::new(of_rows(*subquery, values.len())?),
                expr: Box::new(call(values)),
                negated,
            },
            None => Expr::InSubquery {
                expr,
                subquery,
                negated,
            },
        },
        Expr::AnyOp {
            left,
            compare_op,
            right,
            is_some,
        } => match (row(&left), compare_op, *right) {
            (Some(values), BinaryOperator::Eq, Expr::Subquery(subquery)) => Expr::InSubquery {
                subquery: Box::new(of_rows(*subquery, values.len())?),
                expr: Box::new(call(values)),
                negated: false,
            },
            (Some(_), ..) => return Err(quantified()),
            (None, compare_op, right) => Expr::AnyOp {
                left,
                compare_op,
                right: Box::new(right),
                is_some,
            },
        },
        Expr::AllOp {
            left,
            compare_op,
            right,
        } => match (row(&left), compare_op, *right) {
            (Some(values), BinaryOperator::NotEq, Expr::Subquery(subquery)) => Expr::InSubquery {
                subquery: Box::new(of_rows(*subquery, values.len())?),
                expr: Box::new(call(values)),
                negated: true,
            },
            (Some(_), ..) => return Err(quantified()),
            (None, compare_op, right) => Expr::AllOp {
                left,
                compare_op,
                right: Box::new(right),
            },
        },
        // A row is NULL if all of its values are, and not NULL if none of them is.
        Expr::IsNull(value) => match row(&value) {
            Some(values) => all(values, |value| Expr::IsNull(Box::new(value))),
            None => Expr::IsNull(value),
        },
        Expr::IsNotNull(value) => match row(&value) {
            Some(values) => all(values, |value| Expr::IsNotNull(Box::new(value))),
            None => Expr::IsNotNull(value),
        },
        other => other,
    })
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
}

/// Returns the values of a row of two or more.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(values) if values.len() > 1 => Some(values.clone()),
        Expr::Nested(inner) => row(inner),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let values = list.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            });
            values
                .collect::<Option<Vec<_>>>()
                .filter(|values| values.len() > 1)
        }
        _ => None,
    }
}

fn pairs(left: Vec<Expr>, right: Vec<Expr>) -> Result<Vec<(Expr, Expr)>, EngineError> {
    if left.len() == right.len() {
        Ok(left.into_iter().zip(right).collect())
    } else {
        Err(EngineError::Unsupported {
            what: format!(
                "a comparison of a row of {} values with one of {}",
                left.len(),
                right.len()
            ),
            instead: "give both the same number of values".into(),
        })
    }
}

/// Returns the comparison of two rows.
fn compared(left: Vec<Expr>, op: &BinaryOperator, right: Vec<Expr>) -> Result<Expr, EngineError> {
    use BinaryOperator as O;
    let pairs = pairs(left, right)?;
    let strict = match op {
        O::Eq => return Ok(combined(pairs, |left, right| binary(left, O::Eq, right), O::And)),
        O::NotEq => {
            return Ok(combined(
                pairs,
                |left, right| binary(left, O::NotEq, right),
                O::Or,
            ));
        }
        O::Lt | O::LtEq => O::Lt,
        _ => O::Gt,
    };
    let mut pairs = pairs.into_iter().rev();
    let Some((left, right)) = pairs.next() else {
        return Err(one_sided());
    };
    // From the last values to the first.
    let mut ordered = binary(left, op.clone(), right);
    for (left, right) in pairs {
        let equal = binary(left.clone(), O::Eq, right.clone());
        let differs = binary(left, strict.clone(), right);
        let rest = binary(equal, O::And, ordered);
        ordered = binary(differs, O::Or, rest);
    }
    Ok(ordered)
}

fn combined(pairs: Vec<(Expr, Expr)>, make: impl Fn(Expr, Expr) -> Expr, by: BinaryOperator) -> Expr {
    let each = pairs
        .into_iter()
        .map(|(left, right)| Expr::Nested(Box::new(make(left, right))));
    let all = each.reduce(|left, right| binary(left, by.clone(), right));
    all.unwrap_or_else(|| Expr::Tuple(Vec::new()))
}

fn all(values: Vec<Expr>, make: impl Fn(Expr) -> Expr) -> Expr {
    let each = values.into_iter().map(make);
    let all = each.reduce(|left, right| binary(left, BinaryOperator::And, right));
    all.unwrap_or_else(|| Expr::Tuple(Vec::new()))
}

/// Returns an operation in parentheses.
fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }))
}

fn negated_if(negated: bool, expr: Expr) -> Expr {
    if negated {
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(expr),
        }
    } else {
        expr
    }
}

/// Returns a call of the function that makes a row.
fn call(values: Vec<Expr>) -> Expr {
    call_of(ROW_VALUE, values)
}

/// Returns a query whose only column has the rows of a query of `width` columns.
fn of_rows(subquery: Query, width: usize) -> Result<Query, EngineError> {
    let names: Vec<String> = (0..width).map(|at| format!("__row_{at}")).collect();
    let names = names.join(", ");
    let text = format!("SELECT {ROW_VALUE}({names}) FROM (SELECT 1) AS __row ({names})");
    let parsed = Parser::parse_sql(&GenericDialect {}, &text);
    if let Ok([Statement::Query(query)]) = parsed.as_deref()
        && let mut query = query.as_ref().clone()
        && let SetExpr::Select(select) = &mut *query.body
        && let Some(TableFactor::Derived { subquery: inner, .. }) = derived(select)
    {
        **inner = subquery;
        return Ok(query);
    }
    Err(one_sided())
}

fn derived(select: &mut Select) -> Option<&mut TableFactor> {
    debug_assert!(
        matches!(select.projection.as_slice(), [SelectItem::UnnamedExpr(_)]),
        "one column"
    );
    select.from.first_mut().map(|table| &mut table.relation)
}

fn one_sided() -> EngineError {
    EngineError::Unsupported {
        what: "a comparison of a row with something else".into(),
        instead: "compare rows with rows: (a, b) = (1, 2), or (a, b) IN (SELECT …)".into(),
    }
}

fn quantified() -> EngineError {
    EngineError::Unsupported {
        what: "ANY or ALL of rows with an operator other than = ANY and <> ALL".into(),
        instead: "write EXISTS (SELECT … WHERE …)".into(),
    }
}
