//! The rule that finds windows and groups of which only the first rows are wanted.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::functions_window::rank::Rank;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary,
};
use halocline_catalog::settings::SessionSettings;

use super::groups::Groups;
use super::node::{FirstRows, FirstRowsFilterExec};
use super::scan_order::reading_best_first;
use super::upper_bounds::{UpperBounds, lower, upper_bounds};
use crate::dynamic::sources;
use crate::first_of_groups::FirstOfGroupsExec;

/// Number of wanted rows of each group above which all rows are sorted. A row that passes costs a step for
/// each of them.
const MAX_ROWS: u64 = 64;

/// Puts a filter below windows of `row_number()` and `rank()` of which only small numbers are wanted, and
/// below nodes that keep the first row of each group. It must run after the rules that add exchanges and
/// sorts.
#[derive(Debug, Default)]
pub struct FirstRowsRule;

impl PhysicalOptimizerRule for FirstRowsRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<SessionSettings>();
        let is_on = settings.is_some_and(|settings| settings.first_rows.0);
        let is_of_groups = |node: &Arc<dyn ExecutionPlan>| {
            node.is::<BoundedWindowAggExec>() || node.is::<FirstOfGroupsExec>()
        };
        if is_on && plan.exists(|node| Ok(is_of_groups(node)))? {
            with_filters(plan, &UpperBounds::new())
        } else {
            Ok(plan)
        }
    }

    fn name(&self) -> &'static str {
        "pool_first_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns a plan, of whose output only rows within these bounds are wanted, with filters below its windows
/// and first rows of groups.
fn with_filters(plan: Arc<dyn ExecutionPlan>, bounds: &UpperBounds) -> Result<Arc<dyn ExecutionPlan>> {
    let mut plan = plan;
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>()
        && let Some(first) = first_rows(window, bounds)
        && let Some(input) = filtered(window.input(), &first, false)?
    {
        plan = replace_children_if_necessary(plan, vec![input])?;
    }
    if let Some(groups) = plan.downcast_ref::<FirstOfGroupsExec>()
        && let Some(first) = first_of_groups(groups)
        && let Some(input) = filtered(groups.input(), &first, false)?
    {
        plan = replace_children_if_necessary(plan, vec![input])?;
    }
    let mut children = Vec::new();
    let mut changed = false;
    for (number, child) in plan.children().into_iter().enumerate() {
        let below = with_filters(Arc::clone(child), &bounds_below(&plan, number, bounds))?;
        changed |= !Arc::ptr_eq(&below, child);
        children.push(below);
    }
    if changed {
        replace_children_if_necessary(plan, children)
    } else {
        Ok(plan)
    }
}

/// Returns the bounds of the rows of a child that can become rows of the plan's output within `bounds`.
fn bounds_below(plan: &Arc<dyn ExecutionPlan>, child: usize, bounds: &UpperBounds) -> UpperBounds {
    let mut below = UpperBounds::new();
    // A node without sources for its columns needs all rows of the child.
    let Some(sources) = sources(plan, child) else {
        return below;
    };
    for (column, bound) in bounds {
        let source = sources.get(*column).and_then(Option::as_ref);
        if let Some(source) = source.and_then(|source| source.downcast_ref::<Column>()) {
            lower(&mut below, source.index(), *bound);
        }
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        for (column, bound) in upper_bounds(filter.predicate()) {
            lower(&mut below, column, bound);
        }
    }
    below
}

/// Returns the wanted rows of a window's input, if bounds of the window's output leave only the first ones of
/// each group.
fn first_rows(window: &BoundedWindowAggExec, bounds: &UpperBounds) -> Option<FirstRows> {
    let functions = window.window_expr();
    let from = window.input().schema().fields().len();
    let numbers = from..from + functions.len();
    let fetch = numbers.filter_map(|column| bounds.get(&column)).min()?;
    let fetch = (*fetch).max(1);
    let one = functions.first()?;
    // Any other function may depend on rows after the first ones.
    let are_alike = functions.iter().all(|function| {
        numbers_rows(function)
            && function.partition_by() == one.partition_by()
            && function.order_by() == one.order_by()
    });
    let partition_by = one.partition_by().to_vec();
    let order_by = LexOrdering::new(one.order_by().to_vec())?;
    let schema = window.input().schema();
    let keys: Vec<&Arc<dyn PhysicalExpr>> = partition_by.iter().chain([&order_by.first().expr]).collect();
    let types = keys.iter().map(|key| key.data_type(&schema));
    let types = types.collect::<Result<Vec<_>>>().ok()?;
    let is_usable = are_alike
        && !partition_by.is_empty()
        && fetch <= MAX_ROWS
        && !keys.into_iter().any(is_volatile)
        && Groups::supports(&types);
    let fetch = usize::try_from(fetch).ok()?;
    is_usable.then_some(FirstRows {
        partition_by,
        order_by: Some(order_by),
        fetch,
    })
}

/// Returns the wanted rows of the input of a node that keeps the first row of each group.
fn first_of_groups(groups: &FirstOfGroupsExec) -> Option<FirstRows> {
    let partition_by = groups.keys().to_vec();
    let order_by = groups.order_within();
    let schema = groups.input().schema();
    let order = order_by.as_ref().map(|order| &order.first().expr);
    let types = partition_by.iter().chain(order).map(|key| key.data_type(&schema));
    let types = types.collect::<Result<Vec<_>>>().ok()?;
    Groups::supports(&types).then_some(FirstRows {
        partition_by,
        order_by,
        fetch: 1,
    })
}

/// Returns true for `row_number()` and `rank()`: their value for a row depends on the rows before it only,
/// and is greater than the number of these.
fn numbers_rows(function: &Arc<dyn WindowExpr>) -> bool {
    let standard = function.as_any().downcast_ref::<StandardWindowExpr>();
    let Some(standard) = standard.map(StandardWindowExpr::get_standard_func_expr) else {
        return false;
    };
    let Some(function) = standard.as_any().downcast_ref::<WindowUDFExpr>() else {
        return false;
    };
    let function = function.fun();
    // The type of rank() is that of dense_rank() and percent_rank(), too.
    function.inner().is::<RowNumber>() || (function.inner().is::<Rank>() && function.name() == "rank")
}

/// Returns a plan with a filter below its sorts and the exchanges that bring the rows of a group together;
/// `None` if it has no sort, which `is_sorted` says of the nodes above.
fn filtered(
    plan: &Arc<dyn ExecutionPlan>,
    first: &FirstRows,
    is_sorted: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if plan.fetch().is_some() {
        return Ok(None);
    }
    let is_sort = plan.is::<SortExec>();
    // Above a round-robin exchange, several threads compare.
    let is_exchange = plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<RepartitionExec>() && matches!(plan.output_partitioning(), Partitioning::Hash(..));
    if !is_sort && !is_exchange {
        if !is_sorted {
            return Ok(None);
        }
        let key = first.first_key();
        let column = key.and_then(|key| Some((key.expr.downcast_ref::<Column>()?, key.options)));
        let input = match column {
            Some((column, options)) => reading_best_first(plan, column.index(), options)?,
            None => None,
        };
        let input = input.unwrap_or_else(|| Arc::clone(plan));
        return Ok(Some(Arc::new(FirstRowsFilterExec::new(input, first.clone()))));
    }
    let input = plan.children().first().copied();
    let input = input
        .map(|input| filtered(input, first, is_sorted || is_sort))
        .transpose()?;
    match input.flatten() {
        Some(input) => replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some),
        None => Ok(None),
    }
}
