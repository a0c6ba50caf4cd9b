//! The rule that leads dynamic filters to scans of tables.

use std::sync::Arc;

use arrow_schema::SortOptions;
use datafusion::common::NullEquality;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::PartitionMode;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary,
};
use halocline_catalog::settings::SessionSettings;
use halocline_scan::leaf::LeafExec;
use halocline_scan::plan::PoolScan;
use halocline_scan::plan::{BuildKeys, DynamicFilters, KeyFilter};

use super::build_keys::BuildKeysExec;
use super::columns::{Sources, hash_join, sources};
use crate::late::TopRowsExec;
use crate::spill_join::SpillingJoin;
use crate::star::StarExec;

/// A dynamic filter on its way to a scan.
struct Filter {
    expr: Arc<dyn PhysicalExpr>,
    /// The order in the first of its columns, if the first rows in it are wanted.
    order: Option<SortOptions>,
    /// The keys of the join that sets it, in the order of its children.
    keys: Option<Arc<BuildKeys>>,
}

/// Gives each scan the dynamic filters of the joins and sorts above it. It must run after the rules that
/// change the children of these.
#[derive(Debug, Default)]
pub struct DynamicFilterRule;

impl PhysicalOptimizerRule for DynamicFilterRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<SessionSettings>();
        if settings.is_some_and(|settings| settings.dynamic_filters.0) {
            push(plan, Vec::new(), config)
        } else {
            Ok(plan)
        }
    }

    fn name(&self) -> &'static str {
        "pool_dynamic_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Leads `filters`, conditions on the output of a plan, and those of operators in it to the scans below.
fn push(
    plan: Arc<dyn ExecutionPlan>,
    filters: Vec<Filter>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(LeafExec(scan)) = plan.downcast_ref::<LeafExec<PoolScan>>() {
        let filters: Vec<Filter> = filters
            .into_iter()
            .filter(|filter| scan.takes(&filter.expr))
            .collect();
        if filters.is_empty() {
            return Ok(plan);
        }
        let first = filters.iter().find_map(Filter::first_column);
        let filters = filters.into_iter().map(|filter| (filter.expr, filter.keys));
        let filters = DynamicFilters::new(filters.collect());
        return Ok(Arc::new(LeafExec(scan.with_dynamic_filters(filters, first))));
    }
    let plan = match plan.downcast_ref::<StarExec>() {
        Some(star) => match star.with_key_filters(filters.iter().filter_map(Filter::of_keys).collect()) {
            Some(star) => Arc::new(star),
            None => plan,
        },
        None => with_filter(plan, config)?,
    };
    let mut produced = produced(&plan, config);
    let keys = produced.as_ref().and_then(|(_, filter)| filter.keys.clone());
    let mut children = Vec::new();
    let mut changed = false;
    for (number, child) in plan.children().into_iter().enumerate() {
        let mut below = Vec::new();
        if !filters.is_empty()
            && let Some(sources) = sources(&plan, number)
        {
            for filter in &filters {
                below.extend(filter.moved(&sources)?);
            }
        }
        below.extend(
            produced
                .take_if(|(of, _)| *of == number)
                .map(|(_, filter)| filter),
        );
        let pushed = push(Arc::clone(child), below, config)?;
        changed |= !Arc::ptr_eq(&pushed, child);
        children.push(pushed);
    }
    // Only a scan keeps the keys.
    if let Some(keys) = keys
        && Arc::strong_count(&keys) > 1
        && let Some(build) = children.first_mut()
    {
        *build = Arc::new(BuildKeysExec::new(Arc::clone(build), keys));
    }
    if changed {
        replace_children_if_necessary(plan, children)
    } else {
        Ok(plan)
    }
}

/// Returns a hash join with a dynamic filter, if it may have one. DataFusion adds it to most joins, but not
/// where the names of columns below are not unique.
fn with_filter(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = hash_join(&plan) else {
        return Ok(plan);
    };
    let routed = |side: &Arc<dyn ExecutionPlan>| match side.output_partitioning() {
        Partitioning::Hash(_, count) => Some(*count),
        _ => None,
    };
    let (left, right) = (routed(join.left()), routed(join.right()));
    let is_routed = join.mode != PartitionMode::Partitioned || (left.is_some() && left == right);
    let is_array = plan.downcast_ref().is_some_and(SpillingJoin::is_array);
    if is_array
        || !join.dynamic_expressions_produced().is_empty()
        || !join.join_type().on_lr_is_preserved().1
        || join.null_aware
        || !is_routed
        || config.optimizer.preserve_file_partitions > 0
        || !config.optimizer.enable_join_dynamic_filter_pushdown
    {
        return Ok(plan);
    }
    let keys = join.on().iter().map(|(_, right)| Arc::clone(right)).collect();
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
    let join = join.builder().build()?.with_dynamic_filter_expr(filter)?;
    Ok(match plan.downcast_ref::<SpillingJoin>() {
        Some(spilling) => Arc::new(spilling.with_description(join)),
        None => Arc::new(join),
    })
}

/// Returns the filter that a node sets while it runs, and the number of the child whose rows it is for.
fn produced(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Option<(usize, Filter)> {
    let options = &config.optimizer;
    let mut keys = None;
    let (child, order, is_enabled) = if let Some(join) = hash_join(plan) {
        // A NULL among the keys of the build side is not collected.
        keys = (join.null_equality() == NullEquality::NullEqualsNothing)
            .then(|| Arc::new(BuildKeys::for_join(join)));
        (1, None, options.enable_join_dynamic_filter_pushdown)
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let order = Some(sort.expr().first().options);
        (0, order, options.enable_topk_dynamic_filter_pushdown)
    } else {
        let top = plan.downcast_ref::<TopRowsExec>()?;
        (
            0,
            Some(top.first_order()),
            options.enable_topk_dynamic_filter_pushdown,
        )
    };
    let expr = plan.dynamic_expressions_produced().pop().filter(|_| is_enabled)?;
    let columns = expr.children();
    let is_usable = !columns.is_empty() && !columns.into_iter().any(is_volatile);
    is_usable.then_some((child, Filter { expr, order, keys }))
}

impl Filter {
    /// Returns the filter as a condition on the columns of a child; `None` if one of its columns does not
    /// come from there.
    fn moved(&self, sources: &Sources) -> Result<Option<Self>> {
        let source = |column: &Column| sources.get(column.index())?.clone();
        let from_child = |expr: &Arc<dyn PhysicalExpr>| {
            let mut columns = collect_columns(expr).into_iter();
            columns.all(|column| source(&column).is_some_and(|source| !is_volatile(&source)))
        };
        let children = self.expr.children();
        if !children.iter().all(|child| from_child(child)) {
            return Ok(None);
        }
        let replaced = children.into_iter().map(|child| {
            let replaced = Arc::clone(child).transform_up(|expr| {
                Ok(match expr.downcast_ref::<Column>().and_then(source) {
                    Some(source) => Transformed::yes(source),
                    None => Transformed::no(expr),
                })
            });
            replaced.data()
        });
        let children = replaced.collect::<Result<Vec<_>>>()?;
        Ok(Some(Self {
            // This keeps the identity of the filter, by which its operator finds out that a scan reads it.
            expr: Arc::clone(&self.expr).with_new_children(children)?,
            order: self.order,
            keys: self.keys.clone(),
        }))
    }

    /// Returns the filter with its keys, if it has them.
    fn of_keys(&self) -> Option<Arc<KeyFilter>> {
        let keys = Arc::clone(self.keys.as_ref()?);
        Some(Arc::new(KeyFilter::new(Arc::clone(&self.expr), keys)))
    }

    /// Returns the first column of the order, if it is one, and its direction.
    fn first_column(&self) -> Option<(usize, SortOptions)> {
        let column = self.expr.children().first()?.downcast_ref::<Column>()?.index();
        Some((column, self.order?))
    }
}
