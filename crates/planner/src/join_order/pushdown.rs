//! Conditions of physical plans move down only where names of columns are unique.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::ExecutionPlan;

/// DataFusion's `FilterPushdown`, for the parts of a plan where it is right: it finds the columns of a
/// condition in the input of an operator by name, so that a condition on one side of a join may be moved to
/// the other side, if that has columns of the same names.
#[derive(Debug)]
pub(super) struct PushdownOfUniqueNames(FilterPushdown);

impl PushdownOfUniqueNames {
    /// Returns the rule in the place of `rule`, if that is one that it replaces.
    pub(super) fn replacing(rule: &dyn PhysicalOptimizerRule) -> Option<Self> {
        [FilterPushdown::new(), FilterPushdown::new_post_optimization()]
            .into_iter()
            .find(|pushdown| pushdown.name() == rule.name())
            .map(Self)
    }
}

impl PhysicalOptimizerRule for PushdownOfUniqueNames {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            // No condition comes from above the node where the rule begins, so its own names do not matter.
            if node.children().into_iter().all(has_unique_names) {
                let pushed = self.0.optimize(node, options)?;
                return Ok(Transformed::new(pushed, true, TreeNodeRecursion::Jump));
            }
            Ok(Transformed::no(node))
        })
        .data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Returns true if no operator of a plan has two columns of one name.
fn has_unique_names(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    let mut names = HashSet::new();
    schema.fields().iter().all(|field| names.insert(field.name()))
        && plan.children().into_iter().all(has_unique_names)
}
