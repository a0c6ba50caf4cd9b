//! The operators between a sort and the scan of a table that can run without the columns they do not need.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary,
};
use halocline_scan::leaf::LeafExec;
use halocline_scan::plan::PoolScan;

/// A scan with the filters and exchanges above it.
pub(super) struct ScanChain<'a> {
    plan: &'a Arc<dyn ExecutionPlan>,
    pub(super) scan: &'a PoolScan,
    /// For each column of the plan's output, its position in that of the scan.
    pub(super) origins: Vec<usize>,
    below: Option<Box<ScanChain<'a>>>,
}

impl<'a> ScanChain<'a> {
    /// Reads a plan; `None` if it has other operators.
    pub(super) fn read(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if plan.fetch().is_some() {
            return None;
        }
        if let Some(LeafExec(scan)) = plan.downcast_ref::<LeafExec<PoolScan>>() {
            return Some(Self {
                plan,
                scan,
                origins: (0..plan.schema().fields().len()).collect(),
                below: None,
            });
        }
        let passes_rows = plan.is::<CoalescePartitionsExec>()
            || plan.is::<CooperativeExec>()
            || plan.is::<RepartitionExec>()
                && matches!(plan.output_partitioning(), Partitioning::RoundRobinBatch(_));
        let filter = plan.downcast_ref::<FilterExec>();
        if filter.is_none() && !passes_rows {
            return None;
        }
        let below = Self::read(plan.children().first().copied()?)?;
        let origins = match filter.and_then(|filter| filter.projection().as_ref()) {
            Some(projection) => projection.iter().map(|at| below.origins[*at]).collect(),
            None => below.origins.clone(),
        };
        Some(Self {
            plan,
            scan: below.scan,
            origins,
            below: Some(Box::new(below)),
        })
    }

    /// Adds the columns of the scan that the filters need.
    pub(super) fn add_needed(&self, columns: &mut BTreeSet<usize>) {
        let Some(below) = &self.below else { return };
        if let Some(filter) = self.plan.downcast_ref::<FilterExec>() {
            let needed = collect_columns(filter.predicate());
            columns.extend(needed.iter().map(|column| below.origins[column.index()]));
        }
        below.add_needed(columns);
    }

    /// Returns the plan with these columns of the scan only, followed by the addresses of the rows.
    ///
    /// # Errors
    /// A node refuses its new child.
    pub(super) fn narrowed(&self, columns: &BTreeSet<usize>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(below) = &self.below else {
            let columns: Vec<usize> = columns.iter().copied().collect();
            return Ok(Arc::new(LeafExec(self.scan.narrowed(&columns)?)));
        };
        let input = below.narrowed(columns)?;
        match self.plan.downcast_ref::<FilterExec>() {
            Some(filter) => {
                let predicate = relocated(filter.predicate(), |at| position(columns, below.origins[at]))?;
                Ok(Arc::new(FilterExec::try_new(predicate, input)?))
            }
            None => replace_children_if_necessary(Arc::clone(self.plan), vec![input]),
        }
    }
}

/// Returns the position of a column among those that are kept.
pub fn position(columns: &BTreeSet<usize>, column: usize) -> usize {
    columns.range(..column).count()
}

/// Returns an expression with its columns at other positions.
///
/// # Errors
/// The expression cannot be rebuilt.
pub fn relocated(expr: &Arc<dyn PhysicalExpr>, to: impl Fn(usize) -> usize) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(expr).transform_up(|expr| {
        Ok(match expr.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), to(column.index()))) as _),
            None => Transformed::no(expr),
        })
    });
    replaced.data()
}
