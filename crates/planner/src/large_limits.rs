//! Sorts with a limit of more rows than fit the memory.
//!
//! DataFusion keeps the first rows of such a sort in DRAM, and fails where they are too many, as `OFFSET` can
//! make them. A sort without a limit spills, so that the limit is put above it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use halocline_catalog::settings::query_memory;

use crate::row_size::row_bytes;

/// Part of the queries' memory that the first rows of a sort may take: one over this.
const MEMORY_DIVISOR: usize = 8;
/// Copies of a row that are kept at a time: in the batch it came in, of which others have been dropped, and
/// encoded for comparison.
const ROW_COPIES: usize = 4;

/// The rule.
#[derive(Debug)]
pub struct LargeLimitRule;

impl PhysicalOptimizerRule for LargeLimitRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(memory) = query_memory(options) else {
            return Ok(plan);
        };
        let room = memory / MEMORY_DIVISOR;
        plan.transform_up(|plan| {
            Ok(match with_limit_above(&plan, room, options) {
                Some(limited) => Transformed::yes(limited),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "large_limits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns a sort below its limit, if the first rows of all partitions take more than `room`.
fn with_limit_above(
    plan: &Arc<dyn ExecutionPlan>,
    room: usize,
    options: &ConfigOptions,
) -> Option<Arc<dyn ExecutionPlan>> {
    let sort = plan.downcast_ref::<SortExec>()?;
    let rows = sort.fetch()?;
    let is_partitioned = sort.preserve_partitioning();
    let sorts = if is_partitioned {
        sort.input().output_partitioning().partition_count()
    } else {
        1
    };
    let row = row_bytes(&sort.schema(), options) * ROW_COPIES;
    if rows.saturating_mul(row).saturating_mul(sorts) <= room {
        return None;
    }
    let sort = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()));
    let sort: Arc<dyn ExecutionPlan> = Arc::new(sort.with_preserve_partitioning(is_partitioned));
    Some(if is_partitioned {
        Arc::new(LocalLimitExec::new(sort, rows))
    } else {
        Arc::new(GlobalLimitExec::new(sort, 0, Some(rows)))
    })
}
