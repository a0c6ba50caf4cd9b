//! The optimizer rule.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use halocline_catalog::settings::SessionSettings;

use super::cardinality::cardinality;
use super::graph::JoinGraph;
use super::{emit, enumerate};
use crate::plan_estimate::Estimator;

/// Share of the cost of the query's order that another one must not exceed: a plan that was reordered stays
/// as it is, whatever rounding does.
const MAX_COST_SHARE: f64 = 0.999;

/// Orders joins by their estimated cost, unless `halocline.join_order` is off.
#[derive(Debug)]
pub struct JoinOrderRule;

impl OptimizerRule for JoinOrderRule {
    fn name(&self) -> &'static str {
        "join_order"
    }

    /// Returns `None`, because the rule traverses the plan itself: from the top, and past the joins that it
    /// has ordered.
    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let options = config.options();
        match options.extensions.get::<SessionSettings>() {
            Some(settings) if settings.join_order.0 && has_joins(&plan) => {
                let estimator = Estimator { mode: settings.index };
                ordered(plan, estimator)
            }
            _ => Ok(Transformed::no(plan)),
        }
    }
}

/// Returns true if there is a join in a plan or its subqueries: plans without one are not taken apart.
fn has_joins(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|plan| {
        found |= matches!(plan, LogicalPlan::Join(_));
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    walked.is_err() || found
}

/// Orders all joins of a plan.
///
/// # Errors
/// DataFusion cannot make an operator.
pub(super) fn ordered(plan: LogicalPlan, estimator: Estimator) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|plan| match plan {
        LogicalPlan::Join(_) => joins(plan, estimator),
        other => Ok(Transformed::no(other)),
    })
}

/// Orders the joins of the graph whose topmost join is `plan`, and those within its relations.
fn joins(plan: LogicalPlan, estimator: Estimator) -> Result<Transformed<LogicalPlan>> {
    let Some(mut graph) = JoinGraph::from_plan(&plan) else {
        return sides(plan, estimator);
    };
    let mut changed = false;
    for relation in &mut graph.relations {
        let inner = std::mem::take(&mut relation.plan);
        let inner = ordered(inner, estimator)?;
        changed |= inner.transformed;
        relation.plan = inner.data;
    }
    let order = better(&graph, estimator);
    if order.is_none() && !changed {
        return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
    }
    let joined = emit::plan(&graph, &order.unwrap_or_else(|| graph.order.clone()))?;
    Ok(Transformed::new(joined, true, TreeNodeRecursion::Jump))
}

/// Returns an order that is cheaper than that of the query.
fn better(graph: &JoinGraph, estimator: Estimator) -> Option<super::graph::JoinTree> {
    let cardinality = cardinality(graph, estimator)?;
    let rows = |part: u64| cardinality.rows(part);
    let present = enumerate::cost(&graph.order, &rows);
    let best = enumerate::best_order(graph, &rows)?;
    (best.cost < present * MAX_COST_SHARE).then_some(best.tree)
}

/// Makes the smaller side of an outer join its build side.
fn sides(plan: LogicalPlan, estimator: Estimator) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = &plan else {
        return Ok(Transformed::no(plan));
    };
    let is_outer = matches!(join.join_type, JoinType::Left | JoinType::Right | JoinType::Full);
    if !is_outer || join.on.is_empty() || join.null_aware {
        return Ok(Transformed::no(plan));
    }
    let (left, right) = (estimator.estimate(&join.left), estimator.estimate(&join.right));
    if !left.is_known || !right.is_known || right.rows >= left.rows * MAX_COST_SHARE {
        return Ok(Transformed::no(plan));
    }
    let swapped = Join::try_new(
        Arc::clone(&join.right),
        Arc::clone(&join.left),
        join.on.iter().cloned().map(|(a, b)| (b, a)).collect(),
        join.filter.clone(),
        join.join_type.swap(),
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let schema = Arc::clone(plan.schema());
    let swapped = Arc::new(LogicalPlan::Join(swapped));
    let projection = Projection::try_new_with_schema(columns, swapped, schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}
