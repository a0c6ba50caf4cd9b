//! Numbers in SQL text. Those with a point are decimals, exact; with an exponent floats of 64 bits, and so
//! are those of more than 38 digits. Where a decimal literal takes part in a division it is a float too: the
//! quotient of decimals has few digits after the point, which is not what `x / 3.0` is meant to be.

use std::ops::ControlFlow;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Parens,
    Query, Select, SelectItem, SetExpr, Value, VisitorMut,
};
use halocline_values::floats::{nearest_float, nearest_narrow_float};

use super::values::mark_cast;
use crate::syntax::walk_mut;

/// Digits of a decimal.
const MAX_DIGITS: usize = 38;

/// Rewrites the numbers of a tree that DataFusion would read otherwise.
pub(super) struct NumberRewriter;

impl VisitorMut for NumberRewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_items(select);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = &mut *query.body {
            unify(&mut values.rows);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Value(value) => {
                if let Value::Number(digits, _) = &mut value.value {
                    digits.retain(|digit| digit != '_');
                    if !is_exact(digits) {
                        *expr = double(digits);
                    }
                }
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Divide,
                right,
            } => {
                floats(left);
                floats(right);
            }
            Expr::Function(function) if takes_fractions(function) => {
                if let FunctionArguments::List(list) = &mut function.args {
                    list.args.iter_mut().for_each(float_argument);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Returns true if a number is read as an integer or a decimal. Zeros before the first digit or the point
/// need no room.
fn is_exact(digits: &str) -> bool {
    let significant = digits.trim_start_matches('0');
    let significant = significant.bytes().filter(u8::is_ascii_digit).count();
    significant <= MAX_DIGITS && !digits.contains(['e', 'E'])
}

/// Returns true for aggregates that take a fraction of the values as a float, such as percentiles.
fn takes_fractions(function: &ast::Function) -> bool {
    let name = function.name.to_string().to_ascii_lowercase();
    name.contains("percentile") || name.contains("quantile")
}

/// Makes the decimal literals of which a dividend or divisor is computed floats.
fn floats(expr: &mut Expr) {
    match expr {
        Expr::Value(value) => {
            if let Value::Number(digits, _) = &value.value
                && digits.contains('.')
            {
                *expr = double(digits);
            }
        }
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => floats(inner),
        Expr::BinaryOp {
            left,
            op:
                BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply | BinaryOperator::Modulo,
            right,
        } => {
            floats(left);
            floats(right);
        }
        Expr::Case {
            conditions,
            else_result,
            ..
        } => {
            conditions.iter_mut().for_each(|when| floats(&mut when.result));
            if let Some(result) = else_result {
                floats(result);
            }
        }
        Expr::Function(function) => {
            if let FunctionArguments::List(list) = &mut function.args {
                list.args.iter_mut().for_each(float_argument);
            }
        }
        _ => {}
    }
}

fn float_argument(argument: &mut FunctionArg) {
    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
        floats(expr);
    }
}

fn double(digits: &str) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(digits.replace('_', "")))),
        data_type: ast::DataType::Double(ast::ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

/// Makes the decimal literals of a column of `VALUES` floats if it has a float that its text shows; others
/// are found when their types are known.
fn unify(rows: &mut [Parens<Vec<Expr>>]) {
    let columns = rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
    for column in 0..columns {
        let cells = || rows.iter().filter_map(|row| row.content.get(column));
        if cells().any(is_double) {
            let cells = rows.iter_mut().filter_map(|row| row.content.get_mut(column));
            cells.for_each(floats);
        }
        let cells = rows.iter_mut().filter_map(|row| row.content.get_mut(column));
        cells.for_each(mark_cast);
    }
}

fn is_double(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_double(inner),
        Expr::Cast { data_type, .. } => matches!(
            data_type,
            ast::DataType::Double(_)
                | ast::DataType::DoublePrecision
                | ast::DataType::Float(_)
                | ast::DataType::Float4
                | ast::DataType::Float8
                | ast::DataType::Real
        ),
        _ => false,
    }
}

/// Gives outputs whose numbers are rewritten the name that they have in the text.
fn name_items(select: &mut Select) {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = &*item else {
            continue;
        };
        let mut refined = expr.clone();
        let _ = walk_mut(&mut refined, &mut NumberRewriter);
        if refined != *expr {
            let name = expr.to_string();
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::with_quote('"', name),
            };
        }
    }
}

/// Returns a decimal as the float of 64 or 32 bits that is nearest to it; `None` for other values.
pub(super) fn float_literal(value: &ScalarValue, narrow: bool) -> Option<ScalarValue> {
    let ScalarValue::Decimal128(Some(value), _, scale) = value else {
        return None;
    };
    Some(if narrow {
        ScalarValue::Float32(Some(nearest_narrow_float(*value, *scale)))
    } else {
        ScalarValue::Float64(Some(nearest_float(*value, *scale)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_exact_unless_they_have_an_exponent_or_too_many_digits() {
        for exact in ["1", "8.70", ".5", "5.", "1_000.25", &"9".repeat(38)] {
            assert!(is_exact(exact), "{exact}");
        }
        let least = format!("0.{}1", "0".repeat(37));
        let padded = format!("00_{}", "9".repeat(38));
        assert!(is_exact(&least) && is_exact(&padded));
        let longer = format!("0.{}1", "0".repeat(38));
        for float in ["1e3", "1E-3", "1.5e0", &"9".repeat(39), &longer] {
            assert!(!is_exact(float), "{float}");
        }
    }

    proptest! {
        #[test]
        fn decimals_become_the_nearest_float(value in any::<i128>(), digits in 0_u32..39, scale in 0_i8..38) {
            let value = value % 10_i128.pow(digits.min(38));
            let text = format!("{value}e-{scale}");
            prop_assert_eq!(nearest_float(value, scale).to_bits(), text.parse::<f64>().unwrap().to_bits(), "{}", text);
        }
    }
}
