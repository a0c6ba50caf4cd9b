//! The choice of joins that spill.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

use super::estimate::BuildEstimate;
use super::exec::SpillingJoin;
use crate::config::{SessionSettings, SpillingMode};

/// A build side may take one over this of the memory of queries before its join is one that spills: other
/// operators hold memory, too.
const PART: f64 = 8.0;

/// Factor by which a build side may be larger than estimated.
const UNDERESTIMATED: f64 = 4.0;

/// Rows of a build side from which a join that spills is faster, too: the table no longer fits the caches.
const FASTER_ROWS: u64 = 4 << 20;

/// Replaces hash joins by joins that spill. It runs before distributions are enforced, as a join that spills
/// takes its inputs as they are divided, and before filters are pushed down, as it sets one.
#[derive(Debug)]
pub(crate) struct SpillingJoinRule;

impl PhysicalOptimizerRule for SpillingJoinRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(settings) = options.extensions.get::<SessionSettings>() else {
            return Ok(plan);
        };
        let Some(memory) = &settings.query_memory else {
            return Ok(plan);
        };
        let (mode, part) = (settings.spilling_join, memory.size() as f64 / PART);
        if mode == SpillingMode::Off {
            return Ok(plan);
        }
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let estimate = BuildEstimate::of(join);
            let likely = estimate
                .bytes
                .map_or(f64::INFINITY, |bytes| bytes * UNDERESTIMATED);
            let most = estimate.most_bytes.unwrap_or(f64::INFINITY);
            let is_small = likely.min(most) <= part && estimate.rows.is_some_and(|rows| rows < FASTER_ROWS);
            if mode == SpillingMode::Auto && is_small {
                return Ok(Transformed::no(node));
            }
            Ok(match SpillingJoin::of(join, estimate)? {
                Some(spilling) => Transformed::yes(Arc::new(spilling) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        };
        plan.transform_up(replace).data()
    }

    fn name(&self) -> &str {
        "spilling_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
