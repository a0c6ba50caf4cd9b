//! The rule that finds aggregations of a physical plan which may not fit into memory.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateMode};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use halocline_catalog::settings::query_memory;

use super::exec::SortAggregateExec;
use super::layout::collects;
use crate::row_size::{known_rows, must_spill};

/// Part of the queries' memory that values may take without the node: one over this.
const MEMORY_DIVISOR: usize = 16;
/// Bytes that a collected value is taken for.
const VALUE_BYTES: usize = 64;

/// The rule.
#[derive(Debug)]
pub struct SortAggregateRule;

impl PhysicalOptimizerRule for SortAggregateRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(memory) = query_memory(options) else {
            return Ok(plan);
        };
        let room = memory / MEMORY_DIVISOR;
        let must_spill = must_spill(options);
        let rewritten = plan.transform_up(|plan| {
            let Some((_, first)) = aggregation(&plan) else {
                return Ok(Transformed::no(plan));
            };
            let collecting = first.aggr_expr().iter().filter(|aggregate| collects(aggregate));
            let values = collecting.count();
            let fits =
                || !must_spill && known_rows(first.input()).saturating_mul(values * VALUE_BYTES) <= room;
            if values == 0 || fits() {
                return Ok(Transformed::no(plan));
            }
            let node = SortAggregateExec::try_new(&plan, first)?;
            Ok(Transformed::yes(Arc::new(node) as Arc<dyn ExecutionPlan>))
        });
        rewritten.data()
    }

    fn name(&self) -> &str {
        "sort_aggregate"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns an aggregation that is complete in this node, and the node that reads its rows: itself, or the one
/// that aggregates parts of them.
pub(super) fn aggregation(plan: &Arc<dyn ExecutionPlan>) -> Option<(&AggregateExec, &AggregateExec)> {
    let complete = plan.downcast_ref::<AggregateExec>()?;
    let first = match complete.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => complete,
        AggregateMode::Final | AggregateMode::FinalPartitioned => partial(complete.input())?,
        _ => return None,
    };
    let is_plain = |node: &AggregateExec| {
        node.limit_options().is_none() && matches!(node.input_order_mode(), InputOrderMode::Linear)
    };
    (is_plain(complete) && is_plain(first)).then_some((complete, first))
}

/// Returns the first half of an aggregation below exchanges.
fn partial(mut plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    loop {
        if let Some(found) = plan.downcast_ref::<AggregateExec>() {
            let is_first = *found.mode() == AggregateMode::Partial;
            return (is_first && found.mode().input_mode() == AggregateInputMode::Raw).then_some(found);
        }
        let [input] = plan.children()[..] else {
            return None;
        };
        plan = input;
    }
}
