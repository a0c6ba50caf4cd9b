//! The operands of comparisons in a WHERE clause: the places where a plan can be made without the value.
//!
//! Elsewhere a value may change the plan: a fraction in a division is a float, a number in ORDER BY a column,
//! and an output column is named after it. In a comparison only its type matters.

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, SetExpr, UnaryOperator, Value};
use datafusion::sql::sqlparser::tokenizer::Location;

/// Visits every expression that is an operand of a comparison, of BETWEEN, IN or LIKE, in the WHERE clause of
/// the outermost SELECT, where these are combined by AND, OR and NOT.
pub(super) fn for_each_operand(statement: &mut Parsed, visit: &mut dyn FnMut(&mut Expr)) {
    match statement {
        Parsed::Explain(explain) => for_each_operand(&mut explain.statement, visit),
        Parsed::Statement(inner) => {
            if let ast::Statement::Query(query) = &mut **inner
                && let SetExpr::Select(select) = &mut *query.body
                && let Some(selection) = &mut select.selection
            {
                condition(selection, visit);
            }
        }
        Parsed::CopyTo(_) | Parsed::CreateExternalTable(_) | Parsed::Reset(_) => {}
    }
}

fn condition(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    use BinaryOperator as Op;
    match expr {
        Expr::Nested(inner)
        | Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: inner,
        } => condition(inner, visit),
        Expr::BinaryOp {
            left,
            op: Op::And | Op::Or,
            right,
        } => {
            condition(left, visit);
            condition(right, visit);
        }
        Expr::BinaryOp {
            left,
            op: Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq,
            right,
        } => {
            operand(left, visit);
            operand(right, visit);
        }
        Expr::Between { low, high, .. } => {
            operand(low, visit);
            operand(high, visit);
        }
        Expr::InList { list, .. } => list.iter_mut().for_each(|item| operand(item, visit)),
        Expr::Like {
            any: false, pattern, ..
        } => operand(pattern, visit),
        _ => {}
    }
}

fn operand(mut expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    visit(expr);
}

/// A literal of a text that is an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiteralOperand {
    /// The place of its token in the text.
    pub(super) at: Location,
    /// True for a number with a minus before it.
    pub(super) negative: bool,
    /// True for the text of a `DATE '…'`.
    pub(super) date: bool,
}

impl LiteralOperand {
    /// Reads an operand; `None` if it is no number, text or date.
    pub(super) fn read(expr: &Expr) -> Option<Self> {
        let (value, negative, date) = match expr {
            Expr::Value(value) => match &value.value {
                Value::Number(_, false) | Value::SingleQuotedString(_) => (value, false, false),
                _ => return None,
            },
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => match &**expr {
                Expr::Value(value) if matches!(value.value, Value::Number(_, false)) => (value, true, false),
                _ => return None,
            },
            Expr::TypedString(typed) => match (&typed.data_type, &typed.value.value) {
                (ast::DataType::Date, Value::SingleQuotedString(_)) if !typed.uses_odbc_syntax => {
                    (&typed.value, false, true)
                }
                _ => return None,
            },
            _ => return None,
        };
        Some(Self {
            at: value.span.start,
            negative,
            date,
        })
    }
}

/// Returns the number of a parameter; `None` for any other expression.
pub(super) fn parameter_number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => name.strip_prefix('$')?.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParserBuilder;

    use super::*;

    fn parse(text: &str) -> Parsed {
        let parsed = DFParserBuilder::new(text).build().unwrap().parse_statements();
        parsed.unwrap().pop_front().unwrap()
    }

    #[test]
    fn operands_of_the_outermost_where_clause() {
        let text = "SELECT a + 1, 'x' FROM t WHERE (a = 1 OR NOT b > -2.5) AND c IN ('p', 'q') AND a + 3 < b \
                    AND d BETWEEN DATE '2020-01-02' AND (4) AND s LIKE 'x%' AND a * 5 = b AND f(6) = 7 \
                    AND e IN (SELECT 8 WHERE a = 9) GROUP BY 10 HAVING a = 11 LIMIT 12";
        let mut found = Vec::new();
        for_each_operand(&mut parse(text), &mut |expr| {
            found.extend(LiteralOperand::read(expr).map(|_| expr.to_string()));
        });
        let expected = ["1", "-2.5", "'p'", "'q'", "DATE '2020-01-02'", "4", "'x%'", "7"];
        assert_eq!(found, expected);
    }

    #[test]
    fn operands_know_their_place() {
        let text = "SELECT 1 FROM t\n  WHERE a = -17";
        let mut found = None;
        for_each_operand(&mut parse(text), &mut |expr| {
            found = found.or(LiteralOperand::read(expr))
        });
        let found = found.unwrap();
        assert_eq!((found.at.line, found.at.column), (2, 14));
        assert!(found.negative && !found.date);
    }
}
