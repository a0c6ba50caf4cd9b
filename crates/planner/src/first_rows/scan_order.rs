//! The order in which a scan reads a table whose best rows are wanted.

use std::sync::Arc;

use arrow_schema::SortOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use halocline_scan::leaf::LeafExec;
use halocline_scan::plan::PoolScan;

use crate::dynamic::sources;

/// Returns a plan whose scan begins with the parts of its table that zone maps say to have the first rows in
/// the order of a column of the plan's output; `None` if the column is none of a scan. Without that, no row
/// would be dropped where rows come with the best ones last, as the newest rows of a table do.
///
/// # Errors
/// A node refuses its new child.
pub(super) fn reading_best_first(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    options: SortOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(LeafExec(scan)) = plan.downcast_ref::<LeafExec<PoolScan>>() {
        let scan = scan.reading_best_first(column, options);
        return Ok(scan.map(|scan| Arc::new(LeafExec(scan)) as _));
    }
    let children = plan.children();
    let [child] = children.as_slice() else {
        return Ok(None);
    };
    let source = sources(plan, 0).and_then(|sources| sources.get(column)?.clone());
    let Some(source) = source.as_ref().and_then(|source| source.downcast_ref::<Column>()) else {
        return Ok(None);
    };
    match reading_best_first(child, source.index(), options)? {
        Some(child) => replace_children_if_necessary(Arc::clone(plan), vec![child]).map(Some),
        None => Ok(None),
    }
}
