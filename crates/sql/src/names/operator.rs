//! How labels stand in a syntax tree: as a binary operator that no text has.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};

use super::label;

/// The operator's name.
const OPERATOR: &str = "\u{1}label";

/// Returns an expression with a label.
pub(super) fn labelled(expr: Expr, label: &str) -> Expr {
    Expr::BinaryOp {
        left: Box::new(expr),
        op: BinaryOperator::Custom(OPERATOR.to_owned()),
        right: Box::new(Expr::value(Value::SingleQuotedString(label.to_owned()))),
    }
}

/// Returns true for an expression with a label.
pub(super) fn is_labelled(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Custom(name), .. } if name == OPERATOR)
}

/// Plans labels.
#[derive(Debug)]
pub struct LabelPlanner;

impl ExprPlanner for LabelPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        Ok(match &expr.op {
            BinaryOperator::Custom(name) if name == OPERATOR => {
                PlannerResult::Planned(label::labelled(expr.left, expr.right))
            }
            _ => PlannerResult::Original(expr),
        })
    }
}
