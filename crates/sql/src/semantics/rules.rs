//! The two passes over the logical plan, before and after DataFusion coerces types, and what both need.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::after_coercion::after;
use super::before_coercion::{before, unified_keys, union_of};
use super::equal_floats::equal_floats;
use super::floats::is_float;
use super::guards;
use super::sets;
use super::values;

/// The pass before the coercion of types.
#[derive(Debug)]
pub struct BeforeCoercion;

/// The pass after it.
#[derive(Debug)]
pub struct AfterCoercion;

impl AnalyzerRule for BeforeCoercion {
    fn name(&self) -> &'static str {
        "decimals_meet_floats"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = config.execution.time_zone.as_deref();
        let before = |expr: Expr, schema: &DFSchema| before(expr, schema, zone);
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Union(union) => union_of(union).map(Transformed::yes),
            LogicalPlan::Join(join) if sets::is_set_operation(&join) => {
                sets::set_operation(join).map(Transformed::yes)
            }
            LogicalPlan::Values(values) => {
                let plan = LogicalPlan::Values(values::with_floats(values)?);
                each_expression(plan, before)
            }
            LogicalPlan::Join(join) => each_expression(LogicalPlan::Join(unified_keys(join, zone)), before),
            other => each_expression(other, before),
        });
        rewritten.data()
    }
}

impl AnalyzerRule for AfterCoercion {
    fn name(&self) -> &'static str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = config.execution.time_zone.as_deref();
        let after = |expr: Expr, schema: &DFSchema| after(expr, schema, zone);
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let plan = each_expression(plan, after)?.data;
            guards::guarded(equal_floats(plan)?).map(Transformed::yes)
        });
        rewritten.data()
    }
}

/// Rewrites the expressions of a plan's root, whose names stay.
pub(super) fn each_expression(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let of_table = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&of_table);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    // Types may have changed further down.
    rewritten.map_data(LogicalPlan::recompute_schema)
}

pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(
        op,
        O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom
    )
}

/// Returns the type of floats that expressions of these types meet in; `None` unless there are floats and
/// decimals among them.
pub(super) fn meeting<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let decimals = types.clone().any(DataType::is_decimal);
    let mut floats = types.filter(|data_type| is_float(data_type));
    let first = floats.next().filter(|_| decimals)?;
    // Floats of 16 bits are too small for what decimals hold.
    let narrow = *first != DataType::Float64 && floats.all(|other| *other != DataType::Float64);
    Some(if narrow {
        DataType::Float32
    } else {
        DataType::Float64
    })
}

/// Returns the type of an expression; that of NULL if it has none, which the type coercion reports as an
/// error.
pub(super) fn type_of(expr: &Expr, schema: &DFSchema) -> DataType {
    expr.get_type(schema).unwrap_or(DataType::Null)
}

/// Replaces some columns of a plan by expressions of the same name, which `of` returns by position.
pub(super) fn project<T>(
    input: &Arc<LogicalPlan>,
    of: impl Fn(usize) -> Option<T>,
    make: impl Fn(Expr, &T) -> Expr,
) -> Result<LogicalPlan> {
    let columns = input.schema().columns();
    if (0..columns.len()).all(|at| of(at).is_none()) {
        return Ok((**input).clone());
    }
    let exprs = columns.into_iter().enumerate().map(|(at, column)| match of(at) {
        Some(to) => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            make(Expr::Column(column), &to).alias_qualified(relation, name)
        }
        None => Expr::Column(column),
    });
    let exprs: Vec<Expr> = exprs.collect();
    LogicalPlanBuilder::from((**input).clone())
        .project(exprs)?
        .build()
}
