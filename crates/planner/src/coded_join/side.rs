//! A side of a join that is a scan below exchanges, which can be replaced by another scan.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary,
};
use halocline_scan::leaf::LeafExec;
use halocline_scan::plan::CodedColumn;
use halocline_scan::plan::PoolScan;

/// Returns the scan below operators that pass all rows and columns, in any order.
pub(super) fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&PoolScan> {
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(LeafExec(scan)) = plan.downcast_ref::<LeafExec<PoolScan>>() {
        return Some(scan);
    }
    let passes_rows = plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<RepartitionExec>()
            && matches!(plan.output_partitioning(), Partitioning::RoundRobinBatch(_));
    match plan.children()[..] {
        [child] if passes_rows => scan_below(child),
        _ => None,
    }
}

/// Returns the plan with some of the columns of its scan, followed by codes.
///
/// # Errors
/// A node refuses its new child.
pub(super) fn with_codes(
    plan: &Arc<dyn ExecutionPlan>,
    columns: &BTreeSet<usize>,
    codes: &[CodedColumn],
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(LeafExec(scan)) = plan.downcast_ref::<LeafExec<PoolScan>>() {
        let columns: Vec<usize> = columns.iter().copied().collect();
        return Ok(Arc::new(LeafExec(scan.with_codes(&columns, codes)?)));
    }
    let children = plan.children().into_iter();
    let children = children.map(|child| with_codes(child, columns, codes));
    replace_children_if_necessary(Arc::clone(plan), children.collect::<Result<_>>()?)
}
