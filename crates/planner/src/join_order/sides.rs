//! The sides and modes of hash joins in the physical plan.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use halocline_catalog::settings::SessionSettings;
use halocline_costs::cardinality::conditions::assumed;

use super::orders::EnsureOrders;
use super::projections::SafeProjections;
use super::pushdown::PushdownOfUniqueNames;
use crate::first_of_groups::FirstOfGroupsRule;
use crate::spill_join::SpillingJoinRule;

/// DataFusion's `JoinSelection`, but for plans whose build sides [`JoinOrderRule`](super::JoinOrderRule) has
/// chosen: these are kept, and are collected by one thread unless they are large. Plans that read other
/// sources than tables without a primary key may have joins that the rule knows nothing about.
#[derive(Debug, Default)]
struct JoinSides(JoinSelection);

/// Returns the rules of a session: those of DataFusion, with [`JoinSides`] in the place of `JoinSelection`,
/// [`PushdownOfUniqueNames`] in that of `FilterPushdown`, [`SafeProjections`] in that of
/// `ProjectionPushdown`, [`EnsureOrders`] in that of `EnsureRequirements`, and those that run before
/// exchanges and sorts are added.
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    for rule in &mut rules {
        if rule.name() == JoinSelection::new().name() {
            *rule = Arc::new(JoinSides::default());
        } else if rule.name() == ProjectionPushdown::new().name() {
            *rule = Arc::new(SafeProjections::default());
        } else if rule.name() == EnsureRequirements::new().name() {
            *rule = Arc::new(EnsureOrders::default());
        } else if let Some(pushdown) = PushdownOfUniqueNames::replacing(rule.as_ref()) {
            *rule = Arc::new(pushdown);
        }
    }
    let chosen = rules
        .iter()
        .position(|rule| rule.name() == JoinSelection::new().name());
    let at = chosen.map_or(0, |at| at + 1);
    rules.insert(at, Arc::new(FirstOfGroupsRule));
    rules.insert(at, Arc::new(SpillingJoinRule));
    rules
}

impl PhysicalOptimizerRule for JoinSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if is_ordered(&plan, options) {
            with_modes(plan, options)
        } else {
            self.0.optimize(plan, options)
        }
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if is_ordered(&plan, context.config_options()) {
            with_modes(plan, context.config_options())
        } else {
            self.0.optimize_with_context(plan, context)
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Returns true if the sides of all joins of a plan have been chosen.
fn is_ordered(plan: &Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> bool {
    let settings = options.extensions.get::<SessionSettings>();
    settings.is_some_and(|settings| settings.join_order.0) && reads_the_pool(plan)
}

/// Returns true unless a plan reads files or tables with a primary key, whose sizes are not known.
fn reads_the_pool(plan: &Arc<dyn ExecutionPlan>) -> bool {
    !matches!(plan.name(), "DataSourceExec" | "KeyedScan") && plan.children().into_iter().all(reads_the_pool)
}

/// Decides for each hash join whether its build side is collected.
fn with_modes(plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let most = options.optimizer.hash_join_single_partition_threshold_rows as f64;
    let decided = plan.transform_up(|plan| {
        let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
            return Ok(Transformed::no(plan));
        };
        if *join.partition_mode() != PartitionMode::Auto {
            return Ok(Transformed::no(plan));
        }
        // A null-aware anti join has to see all rows of its probe side.
        let mode = if join.null_aware || rows(join.left()) < most {
            PartitionMode::CollectLeft
        } else {
            PartitionMode::Partitioned
        };
        let decided = join.builder().with_partition_mode(mode).build()?;
        Ok(Transformed::yes(Arc::new(decided) as Arc<dyn ExecutionPlan>))
    });
    decided.data()
}

/// Estimates the rows of a plan, rather too many than too few: a join is taken for one with a key.
fn rows(plan: &Arc<dyn ExecutionPlan>) -> f64 {
    let inputs: Vec<f64> = plan.children().into_iter().map(rows).collect();
    let join_type = match (
        plan.downcast_ref::<HashJoinExec>(),
        plan.downcast_ref::<NestedLoopJoinExec>(),
    ) {
        (Some(join), _) => Some(*join.join_type()),
        (_, Some(join)) => Some(*join.join_type()),
        _ => None,
    };
    let rows = match inputs.as_slice() {
        [] => known_rows(plan),
        [input] if plan.downcast_ref::<FilterExec>().is_some() => input * assumed::FILTER,
        [input] => match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate) if aggregate.group_expr().is_empty() => 1.0,
            _ => *input,
        },
        [left, right] => match join_type {
            Some(JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark) => *left,
            Some(JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark) => *right,
            Some(_) => left.max(*right),
            None => left + right,
        },
        many => many.iter().sum(),
    };
    match plan.fetch() {
        Some(fetch) => rows.min(fetch as f64),
        None => rows,
    }
}

/// Returns the estimate of a scan; a scan that has none is large.
fn known_rows(plan: &Arc<dyn ExecutionPlan>) -> f64 {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let rows = statistics
        .ok()
        .and_then(|known| known.num_rows.get_value().copied());
    rows.map_or(f64::INFINITY, |rows| rows as f64)
}
