//! The rule that finds windows of a physical plan which may not fit into memory.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::WindowAggExec;
use halocline_catalog::settings::query_memory;

use super::exec::SpillingWindowExec;
use crate::row_size::known_bytes;

/// Part of the queries' memory that rows may take without the node: one over this.
const MEMORY_DIVISOR: usize = 16;

/// The rule.
#[derive(Debug)]
pub struct SpillingWindowRule;

impl PhysicalOptimizerRule for SpillingWindowRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(memory) = query_memory(options) else {
            return Ok(plan);
        };
        let room = memory / MEMORY_DIVISOR;
        let rewritten = plan.transform_up(|plan| {
            let is_large = plan
                .downcast_ref::<WindowAggExec>()
                .is_some_and(|window| known_bytes(window.input(), options) > room);
            Ok(if is_large {
                Transformed::yes(Arc::new(SpillingWindowExec::new(plan)) as Arc<dyn ExecutionPlan>)
            } else {
                Transformed::no(plan)
            })
        });
        rewritten.data()
    }

    fn name(&self) -> &str {
        "spilling_window"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
