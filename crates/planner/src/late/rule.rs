//! The rule that makes `ORDER BY … LIMIT` fetch most columns late.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use halocline_catalog::settings::SessionSettings;

use super::chain::{ScanChain, position, relocated};
use super::fetch_node::{FetchRowsExec, FetchedColumn};
use super::top_node::{TopRowsExec, with_one_partition};

/// Rows of the scan for each one that is returned from which fetching their columns is cheaper than reading
/// the columns of all rows: a single value costs about as much as this many in sequence.
const ROWS_PER_FETCH: usize = 16;

/// Number of rows to sort above which they are collected and split by rank instead of kept in a heap.
const LARGE_HEAP: usize = 16_384;

/// Makes `ORDER BY … LIMIT` over a scan fetch the columns that it does not sort by for its rows only. It must
/// run after the rules that push down limits and projections.
#[derive(Debug, Default)]
pub struct LateMaterializationRule;

impl PhysicalOptimizerRule for LateMaterializationRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<SessionSettings>();
        if !settings.is_some_and(|settings| settings.late_materialization.0) {
            return Ok(plan);
        }
        let rewritten = plan.transform_down(|node| {
            let rewritten = match SortedScan::read(&node) {
                Some(sorted) => sorted.rewritten()?,
                None => None,
            };
            Ok(match rewritten {
                Some(rewritten) => Transformed::new(rewritten, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        });
        rewritten.data()
    }

    fn name(&self) -> &'static str {
        "pool_late_materialization"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sort of a scan of which only some rows are wanted.
struct SortedScan<'a> {
    sort: &'a SortExec,
    merge: Option<&'a SortPreservingMergeExec>,
    limit: Option<&'a GlobalLimitExec>,
    /// Number of rows that the sort returns.
    sorted: usize,
    /// A projection between the sort and the rest, which runs last instead.
    projection: Option<&'a ProjectionExec>,
    chain: ScanChain<'a>,
}

impl<'a> SortedScan<'a> {
    /// Reads a plan; `None` if it is something else.
    fn read(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let limit = plan.downcast_ref::<GlobalLimitExec>();
        let below = limit.map_or(plan, GlobalLimitExec::input);
        let merge = below.downcast_ref::<SortPreservingMergeExec>();
        let below = merge.map_or(below, SortPreservingMergeExec::input);
        let sort = below.downcast_ref::<SortExec>()?;
        if merge.is_none() && below.output_partitioning().partition_count() > 1 {
            return None;
        }
        let projection = sort.input().downcast_ref::<ProjectionExec>();
        let chain = ScanChain::read(projection.map_or(sort.input(), ProjectionExec::input))?;
        let mut projected = projection.iter().flat_map(|projection| projection.expr());
        if projected.any(|projected| is_volatile(&projected.expr)) {
            return None;
        }
        Some(Self {
            sorted: sort.fetch()?,
            sort,
            merge,
            limit,
            projection,
            chain,
        })
    }

    /// Returns the number of rows that are skipped, and that of those after them.
    fn wanted(&self) -> (usize, usize) {
        let skip = self.limit.map_or(0, GlobalLimitExec::skip);
        let rows = self.limit.and_then(GlobalLimitExec::fetch);
        let most = self.merge.and_then(ExecutionPlan::fetch).unwrap_or(self.sorted);
        let most = most.min(self.sorted).saturating_sub(skip);
        (skip, rows.unwrap_or(most).min(most))
    }

    /// Returns the order as expressions on the output of the chain.
    fn order(&self) -> Result<Vec<PhysicalSortExpr>> {
        let of = |sorted: &PhysicalSortExpr| {
            let expr = match self.projection {
                None => Arc::clone(&sorted.expr),
                Some(projection) => unprojected(&sorted.expr, projection)?,
            };
            Ok(PhysicalSortExpr::new(expr, sorted.options))
        };
        self.sort.expr().iter().map(of).collect()
    }

    /// Returns the plan with late materialization; `None` if that is not cheaper.
    fn rewritten(&self) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (chain, (skip, rows)) = (&self.chain, self.wanted());
        let order = self.order()?;
        let mut kept = BTreeSet::new();
        for sorted in &order {
            let columns = collect_columns(&sorted.expr);
            kept.extend(columns.iter().map(|column| chain.origins[column.index()]));
        }
        chain.add_needed(&mut kept);
        if chain.origins.iter().all(|origin| kept.contains(origin)) {
            return self.by_rank(skip, rows);
        }
        let scan = chain.scan;
        let pays = scan.estimated_rows() as usize >= rows.saturating_mul(ROWS_PER_FETCH)
            && scan.reads_stored_columns_only();
        let relocate = |sorted: &PhysicalSortExpr| {
            let expr = relocated(&sorted.expr, |at| position(&kept, chain.origins[at]))?;
            Ok(PhysicalSortExpr::new(expr, sorted.options))
        };
        let narrow_order = order.iter().map(relocate).collect::<Result<Vec<_>>>()?;
        let Some(narrow_order) = LexOrdering::new(narrow_order).filter(|_| pays) else {
            return Ok(None);
        };
        let narrow = chain.narrowed(&kept)?;
        let top: Arc<dyn ExecutionPlan> = if self.sorted > LARGE_HEAP {
            Arc::new(TopRowsExec::new(
                narrow_order,
                with_one_partition(narrow),
                skip,
                rows,
            )?)
        } else {
            self.limited(self.with_input(narrow_order, narrow))
        };
        let columns = chain.origins.iter().map(|origin| {
            if kept.contains(origin) {
                FetchedColumn::Input(position(&kept, *origin))
            } else {
                FetchedColumn::Stored(chain.scan.stored_column(*origin))
            }
        });
        let fetched: Arc<dyn ExecutionPlan> = Arc::new(FetchRowsExec::new(
            Arc::clone(chain.scan.table()),
            top,
            kept.len(),
            columns.collect(),
            self.chain_schema(),
            order,
        ));
        Ok(Some(match self.projection {
            None => fetched,
            Some(projection) => Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), fetched)?),
        }))
    }

    /// Returns the plan without a large heap, if it has one.
    fn by_rank(&self, skip: usize, rows: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if self.sorted <= LARGE_HEAP {
            return Ok(None);
        }
        let input = with_one_partition(Arc::clone(self.sort.input()));
        let top = TopRowsExec::new(self.sort.expr().clone(), input, skip, rows)?;
        Ok(Some(Arc::new(top)))
    }

    /// Returns the schema below the sort and its projection.
    fn chain_schema(&self) -> arrow_schema::SchemaRef {
        match self.projection {
            Some(projection) => projection.input().schema(),
            None => self.sort.input().schema(),
        }
    }

    /// Returns the sort, and the merge of its partitions, of another input.
    fn with_input(&self, order: LexOrdering, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let sort = SortExec::new(order.clone(), input)
            .with_preserve_partitioning(self.sort.preserve_partitioning())
            .with_fetch(Some(self.sorted));
        match self.merge {
            None => Arc::new(sort),
            Some(merge) => {
                let all = SortPreservingMergeExec::new(order, Arc::new(sort));
                Arc::new(all.with_fetch(ExecutionPlan::fetch(merge)))
            }
        }
    }

    /// Returns the limit of another input.
    fn limited(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match self.limit {
            None => input,
            Some(limit) => Arc::new(GlobalLimitExec::new(input, limit.skip(), limit.fetch())),
        }
    }
}

/// Returns an expression on the output of a projection as one on its input.
fn unprojected(expr: &Arc<dyn PhysicalExpr>, projection: &ProjectionExec) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(expr).transform_up(|expr| {
        let column = expr.downcast_ref::<Column>();
        let source = column.and_then(|column| projection.expr().get(column.index()));
        Ok(match source {
            Some(projected) => Transformed::yes(Arc::clone(&projected.expr)),
            None => Transformed::no(expr),
        })
    });
    replaced.data()
}
