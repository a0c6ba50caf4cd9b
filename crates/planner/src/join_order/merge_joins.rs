//! Corrections of sort-merge joins, which are only made if `datafusion.optimizer.prefer_hash_join` is false.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;

/// Returns true for such a join with a condition.
pub(super) fn has_condition(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let join = plan.downcast_ref::<SortMergeJoinExec>();
    join.is_some_and(|join| join.filter().is_some())
}

/// Lets the columns of conditions be NULL: a row without a partner is NULL in those of the other side.
///
/// # Errors
/// A join cannot be built again.
pub(super) fn with_nullable_conditions(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() else {
            return Ok(Transformed::no(plan));
        };
        let Some(filter) = join.filter().as_ref() else {
            return Ok(Transformed::no(plan));
        };
        let fields = filter.schema().fields().iter();
        let fields = fields.map(|field| -> Field { field.as_ref().clone().with_nullable(true) });
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let filter = JoinFilter::new(
            Arc::clone(filter.expression()),
            filter.column_indices().to_vec(),
            Arc::new(schema),
        );
        let join = SortMergeJoinExec::try_new(
            Arc::clone(join.left()),
            Arc::clone(join.right()),
            join.on().to_vec(),
            Some(filter),
            join.join_type(),
            join.sort_options().to_vec(),
            join.null_equality(),
        )?;
        Ok(Transformed::yes(Arc::new(join) as Arc<dyn ExecutionPlan>))
    })
    .data()
}
