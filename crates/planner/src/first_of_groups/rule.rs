//! The rule that finds aggregates that are first rows.

use std::sync::Arc;

use arrow_schema::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::FirstValue;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::node::FirstOfGroupsExec;

/// Takes the first row of each group from sorted rows, where that is all that is wanted of the group. It must
/// run before the rules that add exchanges and sorts.
#[derive(Debug, Default)]
pub struct FirstOfGroupsRule;

impl PhysicalOptimizerRule for FirstOfGroupsRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| match plan.downcast_ref().map(first_rows).transpose()? {
            Some(Some(first)) => Ok(Transformed::yes(first)),
            _ => Ok(Transformed::no(plan)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "pool_first_of_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns a plan with the output of an aggregate that consists of first rows; `None` for other aggregates.
fn first_rows(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(rows) = over_rows(aggregate).filter(|rows| has_first_values_only(rows)) else {
        return Ok(None);
    };
    let groups = rows.group_expr().expr().iter().map(|(expr, _)| expr);
    let functions = rows.aggr_expr();
    let order = functions.first().map_or(&[][..], |first| first.order_bys());
    let values: Vec<Arc<dyn PhysicalExpr>> = functions.iter().flat_map(|one| one.expressions()).collect();
    if values.len() != functions.len() {
        return Ok(None);
    }
    let schema = rows.input().schema();
    for expr in groups.clone().chain(order.iter().map(|key| &key.expr)) {
        // The sort has no order of structures and lists.
        if is_volatile(expr) || expr.data_type(&schema)?.is_nested() {
            return Ok(None);
        }
    }
    let mut columns = Columns::from_plan(rows.input());
    let keys: Vec<_> = groups.map(|expr| columns.column(expr)).collect();
    let order = order.iter().map(|key| PhysicalSortExpr {
        expr: columns.column(&key.expr),
        options: key.options,
    });
    let Some(order) = sorted(&keys, order.collect()) else {
        return Ok(None);
    };
    let first = FirstOfGroupsExec::new(columns.plan()?, keys.clone(), order);
    let schema = aggregate.schema();
    let outputs = keys.into_iter().chain(values).zip(schema.fields());
    let outputs = outputs.map(|(expr, field)| ProjectionExpr::new(expr, field.name().clone()));
    let output = ProjectionExec::try_new(outputs, Arc::new(first))?;
    Ok(Some(Arc::new(output)))
}

/// Returns the part of an aggregate that reads rows.
fn over_rows(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    match aggregate.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some(aggregate),
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let below: Option<&AggregateExec> = aggregate.input().downcast_ref();
            below.filter(|below| *below.mode() == AggregateMode::Partial)
        }
        _ => None,
    }
}

/// Returns true if an aggregate has groups, and each function is the first value in the same order.
fn has_first_values_only(aggregate: &AggregateExec) -> bool {
    let groups = aggregate.group_expr();
    let functions = aggregate.aggr_expr();
    let is_first = |function: &Arc<AggregateFunctionExpr>| {
        function.fun().inner().is::<FirstValue>()
            && !function.is_distinct()
            && !function.ignore_nulls()
            && !function.is_reversed()
            && function.order_bys() == functions[0].order_bys()
    };
    groups.is_single()
        && !groups.expr().is_empty()
        && !functions.is_empty()
        && functions.iter().all(is_first)
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.limit_options().is_none()
}

/// Returns the order that brings the rows of a group together, with the first row first. As keys are equal
/// within a group, they can come before all others; their own directions stay, for an order of the groups.
fn sorted(keys: &[Arc<dyn PhysicalExpr>], within: Vec<PhysicalSortExpr>) -> Option<LexOrdering> {
    let (mut order, within): (Vec<_>, Vec<_>) = within.into_iter().partition(|key| keys.contains(&key.expr));
    let is_missing = |key: &&Arc<dyn PhysicalExpr>| !order.iter().any(|sorted| sorted.expr.eq(*key));
    let others: Vec<_> = keys.iter().filter(is_missing).cloned().collect();
    let options = SortOptions::new(false, false);
    order.extend(others.into_iter().map(|expr| PhysicalSortExpr { expr, options }));
    order.extend(within);
    LexOrdering::new(order)
}

/// The columns of a plan, and keys that are computed from them, each of them once.
struct Columns<'p> {
    input: &'p Arc<dyn ExecutionPlan>,
    exprs: Vec<ProjectionExpr>,
}

impl<'p> Columns<'p> {
    /// Begins with the columns of a plan.
    fn from_plan(input: &'p Arc<dyn ExecutionPlan>) -> Self {
        let schema = input.schema();
        let fields = schema.fields().iter().enumerate();
        let exprs = fields.map(|(at, field)| {
            let column = Arc::new(Column::new(field.name(), at));
            ProjectionExpr::new(column, field.name().clone())
        });
        Self {
            input,
            exprs: exprs.collect(),
        }
    }

    /// Returns the column of an expression.
    fn column(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let known = self.exprs.iter().position(|known| known.expr.eq(expr));
        let at = known.unwrap_or_else(|| {
            self.exprs
                .push(ProjectionExpr::new(Arc::clone(expr), expr.to_string()));
            self.exprs.len() - 1
        });
        Arc::new(Column::new(&self.exprs[at].alias, at))
    }

    /// Returns a plan with these columns.
    fn plan(self) -> Result<Arc<dyn ExecutionPlan>> {
        if self.exprs.len() == self.input.schema().fields().len() {
            return Ok(Arc::clone(self.input));
        }
        let input = Arc::clone(self.input);
        Ok(Arc::new(ProjectionExec::try_new(self.exprs, input)?))
    }
}
