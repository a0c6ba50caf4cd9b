//! Orders that operators need of their inputs.
//!
//! Rows that are sorted need not be sorted by what is constant as well. Where sorts have been removed, or
//! projections have become one or part of a join, DataFusion may no longer know that an expression is
//! constant: that of a filter `expression = 1`, or a cast of a constant. The plan is then refused, although
//! its rows could be sorted anew, which is done here.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};

/// DataFusion's `EnsureRequirements`, which moves sorts after it has added those that are needed.
#[derive(Debug, Default)]
pub(super) struct EnsureOrders(EnsureRequirements);

impl PhysicalOptimizerRule for EnsureOrders {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        with_needed_orders(self.0.optimize(plan, options)?)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Sorts the inputs of operators that need an order which they do not have.
pub(super) fn with_needed_orders(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let mut inputs: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
        let mut is_changed = false;
        for (needed, input) in plan.required_input_ordering().into_iter().zip(&mut inputs) {
            let Some(needed) = needed.map(OrderingRequirements::into_single) else {
                continue;
            };
            let orders = input.equivalence_properties();
            if !orders.ordering_satisfy_requirement(needed.clone())? {
                let sort = SortExec::new(LexOrdering::from(needed), Arc::clone(input));
                *input = Arc::new(sort.with_preserve_partitioning(true));
                is_changed = true;
            }
        }
        Ok(if is_changed {
            Transformed::yes(replace_children_if_necessary(plan, inputs)?)
        } else {
            Transformed::no(plan)
        })
    })
    .data()
}
