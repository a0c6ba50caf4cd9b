//! Keys of groups without views, for queries that have little memory.
//!
//! A table of groups has a block of 2 MiB for each key of type Utf8View or BinaryView, however few groups it
//! has, and each partition has such tables in both halves of an aggregation. Slices of its groups refer to
//! all blocks, which exchanges count for each slice. Keys of type Utf8 and Binary take what their bytes take.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast};
use halocline_planner::string_views::plain;

/// Returns a plan that groups by strings instead of views.
///
/// # Errors
/// An expression has no type.
pub(super) fn without_views(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Aggregate(aggregate) => by_strings(aggregate),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn by_strings(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
    if aggregate.group_expr.iter().any(is_set) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let input = aggregate.input.schema();
    let (mut keys, mut columns, mut has_views) = (Vec::new(), Vec::new(), false);
    for (number, expr) in aggregate.group_expr.iter().enumerate() {
        let (relation, field) = aggregate.schema.qualified_field(number);
        let view = expr.get_type(input)?;
        let Some(plain) = plain(&view) else {
            keys.push(expr.clone());
            columns.push(Expr::from((relation, field)));
            continue;
        };
        let key = format!("string key {number}");
        keys.push(cast(expr.clone().unalias(), plain).alias(&key));
        let value = cast(Expr::Column(key.into()), view);
        columns.push(value.alias_qualified(relation.cloned(), field.name()));
        has_views = true;
    }
    if !has_views {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let results = aggregate.schema.iter().skip(aggregate.group_expr.len());
    columns.extend(results.map(Expr::from));
    let by_strings = Aggregate::try_new(aggregate.input, keys, aggregate.aggr_expr)?;
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(by_strings)).project(columns)?;
    Ok(Transformed::yes(plan.build()?))
}
