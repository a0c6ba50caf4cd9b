//! The rule for nested-loop and cross joins of a physical plan.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use halocline_catalog::settings::{FeatureMode, SessionSettings, query_memory};

use super::exec::{WholeBuildSideExec, over};
use crate::row_size::known_bytes;

/// Part of the queries' memory up to which a build side is expected to fit: one over this.
const MEMORY_DIVISOR: usize = 4;

/// The rule. It comes after all that look for joins by their types.
#[derive(Debug)]
pub struct NestedLoopsRule;

impl PhysicalOptimizerRule for NestedLoopsRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(memory) = query_memory(options) else {
            return Ok(plan);
        };
        let settings = options.extensions.get::<SessionSettings>();
        let mode = settings
            .map(|settings| settings.spilling_join)
            .unwrap_or_default();
        // A build side of unknown size is tried in memory first.
        let is_large = |bytes: usize| bytes > memory / MEMORY_DIVISOR && bytes < usize::MAX;
        let divides = |build: &Arc<dyn ExecutionPlan>| match mode {
            FeatureMode::Force => true,
            FeatureMode::Off => false,
            FeatureMode::Auto => is_large(known_bytes(build, options)),
        };
        let rewritten = plan.transform_up(|plan| {
            if let Some(cross) = plan.downcast_ref::<CrossJoinExec>() {
                if !divides(cross.left()) {
                    return Ok(Transformed::no(plan));
                }
                let (left, right) = (Arc::clone(cross.left()), Arc::clone(cross.right()));
                let join = NestedLoopJoinExec::try_new(left, right, None, &JoinType::Inner, None)?;
                return Ok(Transformed::yes(Arc::new(join) as Arc<dyn ExecutionPlan>));
            }
            let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() else {
                return Ok(Transformed::no(plan));
            };
            let has_one_partition = join.right().output_partitioning().partition_count() == 1;
            let safe = match (unmatched(*join.join_type()), divides(join.left())) {
                (Unmatched::Neither, _) => return Ok(Transformed::no(plan)),
                (Unmatched::Build, _) if has_one_partition => return Ok(Transformed::no(plan)),
                (Unmatched::Build, true) => with_partitioning_of(join, one_other_partition(join)?)?,
                (Unmatched::Other, true) => {
                    let swapped = one_other_partition(join)?.swap_inputs()?;
                    with_partitioning_of(join, swapped)?
                }
                (Unmatched::Build | Unmatched::Other, false) | (Unmatched::Both, _) => {
                    Arc::new(WholeBuildSideExec::try_new(join)?)
                }
            };
            Ok(Transformed::yes(safe))
        });
        rewritten.data()
    }

    fn name(&self) -> &str {
        "nested_loops"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The sides whose rows a join returns, or leaves out, because they have no partner.
enum Unmatched {
    Neither,
    Build,
    Other,
    Both,
}

fn unmatched(join_type: JoinType) -> Unmatched {
    match join_type {
        JoinType::Inner => Unmatched::Neither,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => Unmatched::Build,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => Unmatched::Other,
        JoinType::Full => Unmatched::Both,
    }
}

/// Returns a join of the same sides, the other one in one partition.
fn one_other_partition(join: &NestedLoopJoinExec) -> Result<Arc<NestedLoopJoinExec>> {
    let mut other = Arc::clone(join.right());
    if other.output_partitioning().partition_count() > 1 {
        other = Arc::new(CoalescePartitionsExec::new(other));
    }
    Ok(Arc::new(over(join, Arc::clone(join.left()), other)?))
}

/// Returns the rows of `plan` in the partitions of a join where what reads them may rely on their keys.
fn with_partitioning_of(
    join: &NestedLoopJoinExec,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    match join.properties().output_partitioning() {
        keyed @ Partitioning::Hash(..) => Ok(Arc::new(RepartitionExec::try_new(plan, keyed.clone())?)),
        _ => Ok(plan),
    }
}
