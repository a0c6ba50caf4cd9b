//! Simplification of expressions without those of DataFusion's rules that take NULL for a value.
//!
//! The simplifier combines lists of one expression: `i IN (1) AND i IN (2)` becomes false and
//! `i NOT IN (1) OR i NOT IN (2)` true, also where i is NULL, of which the negation then selects rows. So
//! where an expression has two lists of the same column that may meet, they are functions while it is
//! simplified.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::simplify_expressions::{ExprSimplifier, SimplifyExpressions};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;
use datafusion::prelude::col;

use super::kept::text_of;

/// DataFusion's rule of this name, with lists hidden from it.
#[derive(Debug, Default)]
pub(super) struct SimplifyKeepingNulls {
    inner: SimplifyExpressions,
}

impl OptimizerRule for SimplifyKeepingNulls {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut is_at_risk = false;
        plan.apply_expressions(|expr| {
            is_at_risk |= may_meet(expr)?;
            Ok(if is_at_risk {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if !is_at_risk {
            return self.inner.rewrite(plan, config);
        }
        let names = NamePreserver::new(&plan);
        let hidden = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(hide(expr)?.update_data(|expr| name.restore(expr)))
        })?;
        let simplified = self.inner.rewrite(hidden.data, config)?;
        simplified.transform_data(|plan| plan.map_expressions(shown))
    }
}

/// Simplifies an expression of the columns of a context.
///
/// # Errors
/// A constant cannot be computed.
pub fn simplified(expr: Expr, context: SimplifyContext) -> Result<Expr> {
    let simplifier = ExprSimplifier::new(context);
    if !may_meet(&expr)? {
        return simplifier.simplify(expr);
    }
    shown(simplifier.simplify(hide(expr)?.data)?).data()
}

/// How an expression compares a column with constants.
#[derive(Default)]
struct Comparisons {
    lists: usize,
    values: usize,
}

/// Returns the operand of a comparison with constants, and whether that is a list or may become one.
fn compared(expr: &Expr) -> Option<(&Expr, bool)> {
    match expr {
        Expr::InList(list) if list.expr.any_column_refs() => Some((&list.expr, true)),
        // `s ~ '^(a|b)$'` is made `s IN ('a', 'b')`.
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::RegexMatch | Operator::RegexNotMatch,
            right,
        }) => {
            let (_, pattern) = text_of(right)?;
            (left.any_column_refs() && pattern.starts_with("^(")).then_some((&**left, true))
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq | Operator::NotEq,
            right,
        }) => match (&**left, &**right) {
            (column @ Expr::Column(_), Expr::Literal(..)) | (Expr::Literal(..), column @ Expr::Column(_)) => {
                Some((column, false))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns true if two lists of one expression may meet: lists, or comparisons that are made lists.
fn may_meet(expr: &Expr) -> Result<bool> {
    if matches!(expr, Expr::Column(_) | Expr::Literal(..)) || compared(expr).is_some() {
        return Ok(false);
    }
    let mut found: Vec<(&Expr, Comparisons)> = Vec::new();
    // One chain of OR makes one list, which is right.
    let mut chains = vec![expr];
    let mut is_chain = true;
    while let Some(next) = chains.pop() {
        match next {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Or,
                right,
            }) => chains.extend([&**left, &**right]),
            Expr::InList(list) if list.negated => is_chain = false,
            Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) | Expr::InList(_) => {}
            _ => is_chain = false,
        }
        if !is_chain {
            break;
        }
    }
    if is_chain {
        return Ok(false);
    }
    expr.apply(|expr| {
        if let Some((column, is_list)) = compared(expr) {
            let at = found.iter().position(|(other, _)| *other == column);
            let at = at.unwrap_or_else(|| {
                found.push((column, Comparisons::default()));
                found.len() - 1
            });
            match (found.get_mut(at), is_list) {
                (Some((_, comparisons)), true) => comparisons.lists += 1,
                (Some((_, comparisons)), false) => comparisons.values += 1,
                (None, _) => {}
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    // A list is made of two comparisons with values.
    Ok(found.iter().any(|(_, of)| of.lists + of.values / 2 >= 2))
}

/// Makes lists and comparisons with constants functions.
fn hide(expr: Expr) -> Result<Transformed<Expr>> {
    if !may_meet(&expr)? {
        return Ok(Transformed::no(expr));
    }
    expr.transform_up(|expr| {
        if compared(&expr).is_none() {
            return Ok(Transformed::no(expr));
        }
        Ok(match expr {
            Expr::InList(InList { expr, list, negated }) => {
                let args = std::iter::once(*expr).chain(list);
                Transformed::yes(function(if negated { &NOT_IN } else { &IN }, args.collect()))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let of = match op {
                    Operator::Eq => &EQUAL,
                    Operator::NotEq => &NOT_EQUAL,
                    Operator::RegexMatch => &MATCH,
                    _ => &NOT_MATCH,
                };
                Transformed::yes(function(of, vec![*left, *right]))
            }
            other => Transformed::no(other),
        })
    })
}

/// Makes the functions what they were.
fn shown(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        let function = match expr {
            Expr::ScalarFunction(function) => function,
            // What has been shown below a negation.
            Expr::Not(inner) => return Ok(negated(*inner)),
            other => return Ok(Transformed::no(other)),
        };
        let Some(hidden) = function.func.inner().downcast_ref::<HiddenComparison>() else {
            return Ok(Transformed::no(Expr::ScalarFunction(function)));
        };
        hidden.kind.expression(function.args).map(Transformed::yes)
    })
}

/// Returns the negation of an expression, which is a comparison if that is one.
fn negated(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::InList(mut list) => {
            list.negated = !list.negated;
            Transformed::yes(Expr::InList(list))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op.negate() {
            Some(op) => Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            None => Transformed::no(Expr::Not(Box::new(Expr::BinaryExpr(BinaryExpr {
                left,
                op,
                right,
            })))),
        },
        other => Transformed::no(Expr::Not(Box::new(other))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Match,
    NotMatch,
    In,
    NotIn,
    Equal,
    NotEqual,
}

/// A comparison with constants that the simplifier does not know.
#[derive(Debug, PartialEq, Eq, Hash)]
struct HiddenComparison {
    kind: Kind,
    signature: Signature,
}

static MATCH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| hidden(Kind::Match));
static NOT_MATCH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| hidden(Kind::NotMatch));
static IN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| hidden(Kind::In));
static NOT_IN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| hidden(Kind::NotIn));
static EQUAL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| hidden(Kind::Equal));
static NOT_EQUAL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| hidden(Kind::NotEqual));

fn hidden(kind: Kind) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(HiddenComparison {
        kind,
        signature: Signature::variadic_any(Volatility::Immutable),
    }))
}

fn function(of: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(of), args))
}

impl Kind {
    /// Returns the comparison of its operands; that of one item is none of a list.
    fn expression(self, args: Vec<Expr>) -> Result<Expr> {
        let mut args = args.into_iter();
        let missing = || DataFusionError::Internal("a comparison has operands".to_owned());
        let left = Box::new(args.next().ok_or_else(missing)?);
        let (op, negated) = match self {
            Self::In | Self::Equal => (Operator::Eq, false),
            Self::NotIn | Self::NotEqual => (Operator::NotEq, true),
            Self::Match => (Operator::RegexMatch, false),
            Self::NotMatch => (Operator::RegexNotMatch, true),
        };
        let mut items: Vec<Expr> = args.collect();
        Ok(match (items.len(), items.pop()) {
            (1, Some(right)) => Expr::BinaryExpr(BinaryExpr::new(left, op, Box::new(right))),
            (_, last) => {
                items.extend(last);
                Expr::InList(InList::new(left, items, negated))
            }
        })
    }
}

impl ScalarUDFImpl for HiddenComparison {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Match => "matches_constant",
            Kind::NotMatch => "matches_no_constant",
            Kind::In => "in_constants",
            Kind::NotIn => "not_in_constants",
            Kind::Equal => "equal_constant",
            Kind::NotEqual => "not_equal_constant",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), DataType::Boolean, nullable)))
    }

    /// Shows the comparison if its operand turns out to be a constant.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.first() {
            Some(Expr::Literal(value, _)) if value.is_null() => {
                let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
                Ok(ExprSimplifyResult::Simplified(unknown))
            }
            Some(Expr::Literal(..)) => self.kind.expression(args).map(ExprSimplifyResult::Simplified),
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    /// Evaluates the comparison, for an operand that has turned out to be constant.
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let fields = args.arg_fields.iter().enumerate();
        let fields: Vec<Field> = fields
            .map(|(at, field)| Field::clone(field).with_name(format!("c{at}")))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let columns = (0..args.args.len()).map(|at| col(format!("c{at}")));
        let expr = self.kind.expression(columns.collect())?;
        let schema_of_names = DFSchema::try_from(Arc::clone(&schema))?;
        let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        let expr = create_physical_expr(&expr, &schema_of_names, &properties, &context)?;
        let columns = args.args.iter().map(|arg| arg.to_array(args.number_rows));
        let batch = RecordBatch::try_new(schema, columns.collect::<Result<_>>()?)?;
        expr.evaluate(&batch)
    }
}
