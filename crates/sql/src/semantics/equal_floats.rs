//! One zero and one NaN in what is compared by joins, groups and `DISTINCT`.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, Join, LogicalPlan};

use super::floats::{self, canonical, is_float};
use super::rules::{each_expression, is_comparison, project, type_of};
use super::sort_keys;

/// Unifies zeros of columns that grouping sets group by, below the aggregate: what is above it knows the
/// columns by their names.
fn equal_in_grouping_sets(aggregate: Aggregate) -> Result<Aggregate> {
    let sets = aggregate.group_expr.iter();
    let sets = sets.filter(|expr| matches!(expr, Expr::GroupingSet(_)));
    let columns: HashSet<&Column> = sets.flat_map(Expr::column_refs).collect();
    if columns.is_empty() {
        return Ok(aggregate);
    }
    let schema = aggregate.input.schema();
    let of_floats = |at: usize| {
        let (relation, field) = schema.qualified_field(at);
        let column = Column::from((relation, field));
        (is_float(field.data_type()) && columns.contains(&column)).then_some(())
    };
    if (0..schema.fields().len()).all(|at| of_floats(at).is_none()) {
        return Ok(aggregate);
    }
    let input = project(&aggregate.input, of_floats, |expr, ()| canonical(expr))?;
    Aggregate::try_new(Arc::new(input), aggregate.group_expr, aggregate.aggr_expr)
}

/// Unifies zeros and NaNs of the joins and groups of a plan, which may be rewritten already.
///
/// # Errors
/// An expression cannot be traversed.
pub fn with_equal_floats(plan: LogicalPlan) -> Result<LogicalPlan> {
    let compared = |expr: Expr, schema: &DFSchema| {
        Ok(match expr {
            Expr::BinaryExpr(binary)
                if is_comparison(binary.op) && is_float(&type_of(&binary.left, schema)) =>
            {
                Transformed::yes(floats::comparison(binary))
            }
            other => Transformed::no(other),
        })
    };
    let rewritten = plan.transform_up(|plan| match plan {
        LogicalPlan::Join(join) => {
            let plan = each_expression(LogicalPlan::Join(join), compared)?.data;
            equal_floats(plan).map(Transformed::yes)
        }
        plan @ (LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::All(_))) => {
            equal_floats(plan).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    });
    rewritten.data()
}

/// Unifies zeros in the keys of joins, groups and distinct rows at a plan's root.
///
/// # Errors
/// A node cannot be built again.
pub(super) fn equal_floats(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Join(join) => {
            let mut on = Vec::with_capacity(join.on.len());
            for (left, right) in join.on {
                on.push(if is_float(&type_of(&left, join.left.schema())) {
                    (canonical(left), canonical(right))
                } else {
                    (left, right)
                });
            }
            Ok(LogicalPlan::Join(Join { on, ..join }))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let aggregate = equal_in_grouping_sets(aggregate)?;
            let names = NamePreserver::new_for_projection();
            let schema = aggregate.input.schema();
            let mut groups = Vec::with_capacity(aggregate.group_expr.len());
            for expr in &aggregate.group_expr {
                let plain = matches!(expr, Expr::GroupingSet(_) | Expr::Literal(..));
                groups.push(if !plain && is_float(&type_of(expr, schema)) {
                    names.save(expr).restore(canonical(expr.clone().unalias()))
                } else {
                    expr.clone()
                });
            }
            if groups == aggregate.group_expr {
                return Ok(LogicalPlan::Aggregate(aggregate));
            }
            let grouped = Aggregate::try_new(Arc::clone(&aggregate.input), groups, aggregate.aggr_expr)?;
            Ok(LogicalPlan::Aggregate(grouped))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let of_floats = |column: usize| {
                let field = input.schema().fields().get(column);
                field.filter(|field| is_float(field.data_type())).map(|_| ())
            };
            let input = project(&input, of_floats, |expr, ()| canonical(expr))?;
            Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input))))
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            sort_keys::of_distinct_on(on).map(|on| LogicalPlan::Distinct(Distinct::On(on)))
        }
        other => sort_keys::of_plan(other),
    }
}
