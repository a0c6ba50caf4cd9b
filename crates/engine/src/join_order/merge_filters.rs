//! Projections that stay above sort-merge joins with a condition.
//!
//! DataFusion moves a projection below a sort-merge join without telling the join's condition that its
//! columns have moved; the condition is then evaluated on others. Such joins are only made if
//! `datafusion.optimizer.prefer_hash_join` is false.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;

/// DataFusion's rule of this name, for plans without such joins.
#[derive(Debug, Default)]
pub(super) struct ProjectionsAboveMergeJoins(ProjectionPushdown);

impl PhysicalOptimizerRule for ProjectionsAboveMergeJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_at_risk = |plan: &Arc<dyn ExecutionPlan>| {
            let join = plan.downcast_ref::<SortMergeJoinExec>();
            Ok(join.is_some_and(|join| join.filter().is_some()))
        };
        match !options.optimizer.prefer_hash_join && plan.exists(is_at_risk)? {
            true => Ok(plan),
            false => self.0.optimize(plan, options),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
