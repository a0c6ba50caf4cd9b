//! Operands that must not be evaluated where others decide: `x <> 0 AND 1 / x > 2` does not divide by zero.
//!
//! AND and OR evaluate their operands from the left, and one that may fail only for the rows that those
//! before it do not decide. DataFusion evaluates both for whole batches, and makes conditions of CASE such
//! operands while it simplifies. CASE with an operand is evaluated as it stands. So that is what such
//! conditions become; in a filter, the others are there beside it as well, for what scans and joins make of
//! them.
//!
//! A division, a conversion that not every value has, and arithmetic that may overflow can fail. An equality
//! of columns of two tables that can only overflow stays a key of their join.

use std::collections::HashSet;

use arrow_schema::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, disjunction, merge_schema};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, LogicalPlan, Operator, lit};

use super::arithmetic::may_overflow;
use super::cast;
use super::kept::is_lossy;
use super::operators::is_division;
use super::rules::type_of;

/// Guards the conditions of a plan's root, whose names stay.
///
/// # Errors
/// An expression cannot be traversed.
pub(super) fn guarded(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut schema: Option<DFSchema> = None;
    let mut is_fallible = false;
    plan.apply_expressions(|expr| {
        let schema = schema.get_or_insert_with(|| merge_schema(&plan.inputs()));
        is_fallible = is_fallible || may_fail(expr, schema)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(schema) = schema.filter(|_| is_fallible) else {
        return Ok(plan);
    };
    let is_filter = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        if !may_fail(&expr, &schema)? {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        let guarded = if is_filter {
            filter(expr, &schema)?
        } else {
            guard(expr, &schema)?
        };
        Ok(Transformed::yes(name.restore(guarded)))
    });
    plan.data()
}

/// Returns true if the evaluation of an expression may fail for a row.
fn may_fail(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    if is_key(expr) {
        return fails(expr, schema, false);
    }
    fails(expr, schema, true)
}

/// Returns true for an equality of columns of several tables.
fn is_key(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { op, .. }) = expr else {
        return false;
    };
    let relations = || -> HashSet<Option<TableReference>> {
        let columns = expr.column_refs().into_iter();
        columns.map(|column| column.relation.clone()).collect()
    };
    matches!(op, Operator::Eq | Operator::IsNotDistinctFrom) && relations().len() > 1
}

/// Returns true if the evaluation of an expression may fail for a row, for another reason than an overflow or
/// for any.
fn fails(expr: &Expr, schema: &DFSchema, counts_overflow: bool) -> Result<bool> {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Divide | Operator::Modulo,
                right,
                ..
            }) => !is_divisor(right) && !type_of(right, schema).is_floating(),
            Expr::ScalarFunction(function) if is_division(function) => {
                !function.args.get(1).is_some_and(is_divisor)
            }
            // A literal that is cast has been found to fail.
            Expr::ScalarFunction(function) if cast::may_fail(function) => {
                expr.any_column_refs() || matches!(function.args.first(), Some(Expr::Literal(..)))
            }
            Expr::ScalarFunction(function) => counts_overflow && may_overflow(function, schema),
            Expr::Cast(Cast { expr: value, field }) => {
                let (from, to) = (type_of(value, schema), field.data_type());
                value.any_column_refs()
                    && (is_lossy(expr, schema)
                        || (from.is_string() && !to.is_string())
                        || (from.is_floating() && (to.is_integer() || to.is_decimal())))
            }
            _ => false,
        })
    })
}

/// Returns true for a number other than zero.
fn is_divisor(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            value.is_null() || ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| *value != zero)
        }
        Expr::Cast(Cast { expr, field }) => {
            !matches!(field.data_type(), DataType::Boolean) && is_divisor(expr)
        }
        _ => false,
    }
}

/// Returns the operands of a chain of AND or OR.
fn operands(expr: Expr, op: Operator) -> Vec<Expr> {
    let (mut operands, mut rest) = (Vec::new(), vec![expr]);
    while let Some(expr) = rest.pop() {
        match expr {
            Expr::BinaryExpr(binary) if binary.op == op => rest.extend([*binary.right, *binary.left]),
            other => operands.push(other),
        }
    }
    operands
}

/// Returns true if an operand other than the first one may fail.
fn need_guard(operands: &[Expr], schema: &DFSchema) -> Result<bool> {
    for operand in operands.iter().skip(1) {
        if may_fail(operand, schema)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true for an operand that must stay where it is: a subquery is made a join, and so is a condition
/// on columns of the query around; one with random values has one value.
fn is_fixed(expr: &Expr) -> bool {
    let is_query = |expr: &Expr| {
        matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
        )
    };
    expr.is_volatile() || expr.contains_outer() || expr.exists(|expr| Ok(is_query(expr))).unwrap_or(true)
}

/// Guards the operands within an expression.
fn guard(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let op = match &expr {
        Expr::BinaryExpr(binary) => binary.op,
        _ => Operator::Plus,
    };
    if !matches!(op, Operator::And | Operator::Or) {
        let expr = expr
            .map_children(|child| guard(child, schema).map(Transformed::yes))
            .data()?;
        return match expr {
            Expr::Case(case) => guarded_case(case, schema).map(Expr::Case),
            other => Ok(other),
        };
    }
    let operands: Vec<Expr> = operands(expr, op)
        .into_iter()
        .map(|operand| guard(operand, schema))
        .collect::<Result<_>>()?;
    if need_guard(&operands, schema)? && !operands.iter().any(is_fixed) {
        Ok(in_order(operands, op))
    } else {
        Ok(joined(operands, op))
    }
}

fn joined(operands: Vec<Expr>, op: Operator) -> Expr {
    let joined = match op {
        Operator::And => conjunction(operands),
        _ => disjunction(operands),
    };
    joined.unwrap_or_else(|| lit(op == Operator::And))
}

/// Returns a CASE that evaluates operands in their order, until one decides.
fn in_order(operands: Vec<Expr>, op: Operator) -> Expr {
    let decided = |operand: &Expr| match op {
        Operator::And => (operand.clone().is_false(), lit(false)),
        _ => (operand.clone().is_true(), lit(true)),
    };
    let decided = operands.iter().map(decided);
    let decided = decided
        .map(|(when, then)| (Box::new(when), Box::new(then)))
        .collect();
    Expr::Case(Case::new(
        Some(Box::new(lit(true))),
        decided,
        Some(Box::new(joined(operands, op))),
    ))
}

/// Guards the operands of a condition that selects rows where it is true. Those that cannot fail stand beside
/// the others, too.
fn filter(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let operands: Vec<Expr> = operands(expr, Operator::And)
        .into_iter()
        .map(|operand| guard(operand, schema))
        .collect::<Result<_>>()?;
    let (fixed, operands): (Vec<Expr>, Vec<Expr>) = operands.into_iter().partition(is_fixed);
    if !need_guard(&operands, schema)? {
        let all = fixed.into_iter().chain(operands).collect();
        return Ok(joined(all, Operator::And));
    }
    let mut conditions = Vec::with_capacity(operands.len() + fixed.len() + 1);
    for operand in &operands {
        if !may_fail(operand, schema)? {
            conditions.push(operand.clone());
        }
    }
    conditions.extend(fixed);
    conditions.push(while_true(operands));
    Ok(joined(conditions, Operator::And))
}

/// Returns a CASE that evaluates conditions in their order, until one is not true. It is true where all are.
fn while_true(mut conditions: Vec<Expr>) -> Expr {
    let last = conditions.pop().unwrap_or_else(|| lit(true));
    let before = conditions.into_iter();
    let before = before.map(|condition| (Box::new(condition.is_not_true()), Box::new(lit(false))));
    Expr::Case(Case::new(
        Some(Box::new(lit(true))),
        before.collect(),
        Some(Box::new(last)),
    ))
}

/// Returns a CASE of conditions that is evaluated as it stands, if a branch may fail.
fn guarded_case(case: Case, schema: &DFSchema) -> Result<Case> {
    let thens = case.when_then_expr.iter().map(|(_, then)| &**then);
    let whens = case.when_then_expr.iter().skip(1).map(|(when, _)| &**when);
    let mut is_fallible = false;
    for expr in thens.chain(whens).chain(case.else_expr.as_deref()) {
        is_fallible = is_fallible || may_fail(expr, schema)?;
    }
    let is_condition = case
        .when_then_expr
        .first()
        .is_some_and(|(_, then)| matches!(type_of(then, schema), DataType::Boolean | DataType::Null));
    Ok(if case.expr.is_none() && is_fallible && is_condition {
        Case {
            expr: Some(Box::new(lit(true))),
            ..case
        }
    } else {
        case
    })
}
