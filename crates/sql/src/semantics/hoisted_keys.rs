//! Keys of sorts, windows and ordered aggregates that become columns below.
//!
//! DataFusion finds the order that a key has from bounds of its operands, and fails to do so for a comparison
//! of which an operand has no bounds of its type, such as `CASE`. It then refuses its own plan: that is not
//! sorted by the key it sorts by. A column has no operands.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Sort as Key, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::optimizer::AnalyzerRule;

/// Makes columns of such keys. It follows the rule that makes joins of subqueries, which puts their columns
/// in the place of the subqueries among the keys.
#[derive(Debug)]
pub struct HoistKeys;

impl AnalyzerRule for HoistKeys {
    fn name(&self) -> &'static str {
        "hoist_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| hoisted(plan).map(Transformed::yes))
            .data()
    }
}

/// Returns a plan with such keys of its root as columns. Its columns and their names stay.
fn hoisted(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !needs(&plan) {
        return Ok(plan);
    }
    let Some(input) = plan.inputs().first().map(|input| (*input).clone()) else {
        return Ok(plan);
    };
    let mut keys = Keys::default();
    let names = NamePreserver::new(&plan);
    let columns = plan.schema().columns();
    let changed = match plan {
        LogicalPlan::Sort(mut sort) => {
            sort.expr.iter_mut().for_each(|key| keys.hoist(&mut key.expr));
            LogicalPlan::Sort(sort)
        }
        other => other
            .map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(|expr| Ok(keys.of_function(expr)))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
            .data()?,
    };
    let below = input.schema().columns().into_iter().map(Expr::Column);
    let hoisted = keys.exprs.into_iter().enumerate();
    let hoisted = hoisted.map(|(at, expr)| expr.alias(name_of(at)));
    let exprs: Vec<Expr> = below.chain(hoisted).collect();
    let input = LogicalPlanBuilder::from(input).project(exprs)?.build()?;
    let changed = changed.with_new_exprs(changed.expressions(), vec![input])?;
    let columns = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(changed).project(columns)?.build()
}

/// The keys that become columns.
#[derive(Default)]
struct Keys {
    exprs: Vec<Expr>,
}

fn name_of(at: usize) -> String {
    format!("sort key {at}")
}

impl Keys {
    fn hoist(&mut self, key: &mut Expr) {
        if !is_without_bounds(key) {
            return;
        }
        let at = self.exprs.iter().position(|other| other == key);
        let at = at.unwrap_or_else(|| {
            self.exprs.push(key.clone());
            self.exprs.len() - 1
        });
        *key = Expr::Column(Column::from_name(name_of(at)));
    }

    fn of_function(&mut self, expr: Expr) -> Transformed<Expr> {
        match expr {
            Expr::AggregateFunction(mut function) => {
                let order = function.params.order_by.iter_mut();
                order.for_each(|key| self.hoist(&mut key.expr));
                Transformed::yes(Expr::AggregateFunction(function))
            }
            Expr::WindowFunction(mut window) => {
                let WindowFunction { params, .. } = &mut *window;
                params.partition_by.iter_mut().for_each(|key| self.hoist(key));
                params
                    .order_by
                    .iter_mut()
                    .for_each(|key| self.hoist(&mut key.expr));
                Transformed::yes(Expr::WindowFunction(window))
            }
            other => Transformed::no(other),
        }
    }
}

/// Returns true if a key of a plan's root has to become a column.
fn needs(plan: &LogicalPlan) -> bool {
    let any = |keys: &[Key]| keys.iter().any(|key| is_without_bounds(&key.expr));
    let of_function = |expr: &Expr| match expr {
        Expr::AggregateFunction(function) => any(&function.params.order_by),
        Expr::WindowFunction(window) => {
            any(&window.params.order_by) || window.params.partition_by.iter().any(is_without_bounds)
        }
        _ => false,
    };
    let of_functions = |exprs: &[Expr]| {
        let mut exprs = exprs.iter();
        exprs.any(|expr| expr.exists(|expr| Ok(of_function(expr))).unwrap_or(false))
    };
    match plan {
        LogicalPlan::Sort(sort) => any(&sort.expr),
        LogicalPlan::Window(window) => of_functions(&window.window_expr),
        LogicalPlan::Aggregate(aggregate) => of_functions(&aggregate.aggr_expr),
        _ => false,
    }
}

/// Returns true for a key with `BETWEEN`, or with a comparison of more than columns, constants and casts of
/// them.
fn is_without_bounds(key: &Expr) -> bool {
    let is_compared = |expr: &Expr| match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq,
            right,
        }) => !has_bounds(left) || !has_bounds(right),
        // Its comparisons are made later, with operands that depend on the types.
        Expr::Between(_) => true,
        _ => false,
    };
    key.exists(|expr| Ok(is_compared(expr))).unwrap_or(false)
}

fn has_bounds(operand: &Expr) -> bool {
    match operand {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Cast(cast) => has_bounds(&cast.expr),
        _ => false,
    }
}
