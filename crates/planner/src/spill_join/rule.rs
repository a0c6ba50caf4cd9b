//! The choice of joins that spill, and of array joins.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use halocline_catalog::settings::{FeatureMode, SessionSettings};

use super::array_side::ArraySide;
use super::choice::{PlannedChoice, PlannedResources};
use super::estimate::BuildEstimate;
use super::exec::SpillingJoin;

/// A build side may take one over this of the memory of queries before its join is one that spills: other
/// operators hold memory, too.
const BUILD_MEMORY_DIVISOR: f64 = 8.0;

/// Factor by which a build side may be larger than estimated.
const ESTIMATE_ERROR_FACTOR: f64 = 4.0;

/// Rows of a build side from which a join that spills is faster, too: the table no longer fits the caches.
const FASTER_ROWS: u64 = 4 << 20;

/// Replaces hash joins by joins that spill and by array joins. It runs before distributions are enforced, as
/// a join that spills takes its inputs as they are divided, and before filters are pushed down, as it sets
/// one.
#[derive(Debug)]
pub struct SpillingJoinRule;

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
        let modes = JoinModes {
            spilling: settings.spilling_join,
            array: settings.array_join,
            resources: PlannedResources {
                memory: memory.size(),
                threads: options.execution.target_partitions,
            },
        };
        if modes.spilling == FeatureMode::Off && modes.array == FeatureMode::Off {
            return Ok(plan);
        }
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            Ok(match modes.replacement(join)? {
                Some(join) => Transformed::yes(join),
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

/// The settings that a hash join is replaced by.
struct JoinModes {
    spilling: FeatureMode,
    array: FeatureMode,
    resources: PlannedResources,
}

impl JoinModes {
    /// Returns what a hash join is replaced by; `None` if it stays.
    ///
    /// # Errors
    /// The hash join is inconsistent.
    fn replacement(&self, join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !SpillingJoin::is_offered(join) {
            return Ok(None);
        }
        let estimate = BuildEstimate::for_join(join);
        let array = self.array_side(join);
        let arrays = array.as_ref().map(|(array, side)| (array, *side));
        let choice = PlannedChoice::estimate(join, &estimate, arrays, self.resources);
        let is_preferred = || choice.as_ref().is_some_and(PlannedChoice::prefers_array);
        if let Some((_, side)) = array
            && (self.array == FeatureMode::Force || is_preferred())
        {
            return exchanged_to_build(join, side, |join| {
                SpillingJoin::from_hash_join(join, BuildEstimate::for_join(join), choice.clone(), true)
            })
            .map(Some);
        }
        let is_replaced = match self.spilling {
            FeatureMode::Off => false,
            FeatureMode::Auto => !self.is_small(&estimate),
            FeatureMode::Force => true,
        };
        if !is_replaced {
            return Ok(None);
        }
        let join = SpillingJoin::from_hash_join(join, estimate, choice, false)?;
        Ok(Some(Arc::new(join)))
    }

    fn is_small(&self, estimate: &BuildEstimate) -> bool {
        let part = self.resources.memory as f64 / BUILD_MEMORY_DIVISOR;
        let likely = estimate
            .bytes
            .map_or(f64::INFINITY, |bytes| bytes * ESTIMATE_ERROR_FACTOR);
        let most = estimate.most_bytes.unwrap_or(f64::INFINITY);
        likely.min(most) <= part && estimate.rows.is_some_and(|rows| rows < FASTER_ROWS)
    }

    /// Returns the side whose rows can be found by their keys: the larger one, if both can.
    fn array_side(&self, join: &HashJoinExec) -> Option<(ArraySide, JoinSide)> {
        if self.array == FeatureMode::Off || join.null_equality() == NullEquality::NullEqualsNull {
            return None;
        }
        let keys = join.on();
        let left = ArraySide::from_plan(join.left(), keys.iter().map(|(left, _)| left));
        let right = ArraySide::from_plan(join.right(), keys.iter().map(|(_, right)| right));
        // The build side of NOT IN stays.
        let right = right.filter(|_| !join.null_aware);
        let sides = [(left, JoinSide::Left), (right, JoinSide::Right)];
        let sides = sides.into_iter().filter_map(|(array, side)| Some((array?, side)));
        let likely = sides.filter(|(array, _)| array.is_likely());
        likely.max_by_key(|(array, _)| array.rows())
    }
}

/// Returns a join with this side as its build side, and the order of columns of the join.
///
/// # Errors
/// Those of `make`; the hash join is inconsistent.
fn exchanged_to_build(
    join: &HashJoinExec,
    side: JoinSide,
    make: impl Fn(&HashJoinExec) -> Result<SpillingJoin>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if side == JoinSide::Left {
        return Ok(Arc::new(make(join)?));
    }
    let exchanged = join.swap_inputs(PartitionMode::CollectLeft)?;
    let made = exchanged.transform_up(|node| {
        Ok(match node.downcast_ref::<HashJoinExec>() {
            // The inputs may have hash joins that stay.
            Some(own) if Arc::ptr_eq(own.left(), join.right()) => {
                Transformed::yes(Arc::new(make(own)?) as Arc<dyn ExecutionPlan>)
            }
            _ => Transformed::no(node),
        })
    });
    made.data()
}
