//! The rule that finds windows of a physical plan which may not fit into memory.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::windows::WindowAggExec;
use halocline_catalog::settings::query_memory;

use super::exec::SpillingWindowExec;

/// Part of the queries' memory that rows may take without the node: one over this.
const MEMORY_DIVISOR: usize = 16;
/// Bytes that a value of variable length is taken for.
const VARIABLE_BYTES: usize = 48;

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
                .is_some_and(|window| known_bytes(window.input()) > room);
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

/// Returns the bytes of the rows of a plan at most; `usize::MAX` if that is unknown.
pub fn known_bytes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let rows = statistics
        .ok()
        .and_then(|known| known.num_rows.get_value().copied());
    let schema = plan.schema();
    let widths = schema.fields().iter();
    let row: usize = widths
        .map(|field| field.data_type().primitive_width().unwrap_or(VARIABLE_BYTES))
        .sum();
    rows.map_or(usize::MAX, |rows| rows.saturating_mul(row))
}
