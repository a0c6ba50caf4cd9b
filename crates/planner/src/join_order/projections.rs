//! Keeps projections that must not be pushed below a join, because its condition would then be evaluated on
//! wrong columns, or on rows where it fails.
//!
//! - DataFusion moves a projection below a sort-merge join without telling the join's condition that its
//!   columns have moved; the condition is then evaluated on others.
//! - Parts of the condition of a nested loop join are computed below it, by a projection of all rows; those
//!   in branches of CASE, or beside OR, may fail for rows that do not need them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TransformedResult, TreeNode};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::CaseExpr;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::projection::remove_unnecessary_projections;

use super::merge_joins;
use super::orders::with_needed_orders;
use crate::unnest::SCALAR_SUBQUERY;

/// DataFusion's [`ProjectionPushdown`], skipped for plans with such joins.
#[derive(Debug, Default)]
pub(super) struct SafeProjections(ProjectionPushdown);

impl PhysicalOptimizerRule for SafeProjections {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_merge = |plan: &Arc<dyn ExecutionPlan>| Ok(merge_joins::has_condition(plan));
        if !options.optimizer.prefer_hash_join && plan.exists(is_merge)? {
            return merge_joins::with_nullable_conditions(plan);
        }
        let optimized = if plan.exists(has_branches)? {
            plan.transform_down(remove_unnecessary_projections).data()?
        } else {
            self.0.optimize(plan, options)?
        };
        with_needed_orders(optimized)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Returns true for a nested loop join whose condition has parts that only some rows need.
fn has_branches(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let join = plan.downcast_ref::<NestedLoopJoinExec>();
    let Some(filter) = join.and_then(NestedLoopJoinExec::filter) else {
        return Ok(false);
    };
    filter.expression().exists(|expr: &Arc<dyn PhysicalExpr>| {
        let function = expr.downcast_ref::<ScalarFunctionExpr>();
        Ok(expr.downcast_ref::<CaseExpr>().is_some()
            || function.is_some_and(|function| function.name() == SCALAR_SUBQUERY))
    })
}
