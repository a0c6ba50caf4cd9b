//! Lists of optimizer rules for plans of one table: those of DataFusion and of the engine that can change
//! such a plan.
//!
//! A rule is left out by its name. One that a new version of DataFusion adds, or that the engine adds, is
//! kept until it is listed here, so that a list is never too short.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::{Analyzer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use halocline_planner::materialized::MaterializeMarked;
use halocline_planner::unnest::Unnest;
use halocline_sql::semantics::{AfterCoercion, BeforeCoercion, EvaluateFrames, HoistKeys};

use super::shape::PlanShape;

/// A rule for logical plans.
pub(crate) type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
/// A rule for physical plans.
pub(crate) type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Adds the analyzer rules to the state of a session.
pub(super) fn with_analyzer_rules(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(BeforeCoercion));
    rules.insert(0, Arc::new(MaterializeMarked));
    rules.push(Arc::new(AfterCoercion));
    rules.push(Arc::new(EvaluateFrames));
    rules.push(Arc::new(Unnest));
    rules.push(Arc::new(HoistKeys));
    builder.with_analyzer_rules(rules)
}

/// Logical rules about joins, subqueries, set operations and fields of structs, none of which a plan of one
/// table has.
const NOT_FOR_ONE_TABLE: &[&str] = &[
    "rewrite_set_comparison",
    "optimize_unions",
    "unions_to_filter",
    "eliminate_join",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
    "filter_null_join_keys",
    "eliminate_outer_join",
    "extract_leaf_expressions",
    "push_down_leaf_projections",
];

/// Logical rules about sorting and grouping.
const NOT_FOR_SELECTIONS: &[&str] = &[
    "replace_distinct_aggregate",
    "eliminate_duplicated_expr",
    "single_distinct_aggregation_to_group_by",
    "eliminate_group_by_constant",
];

/// Physical rules about joins and windows.
const NOT_FOR_ONE_TABLE_PHYSICAL: &[&str] = &[
    "join_selection",
    "WindowTopN",
    "LimitPushPastWindows",
    "HashJoinBuffering",
];

/// Physical rules about sorting and grouping, and those that only check a plan. Scans of this engine take no
/// filters from physical plans, and are cooperative.
const NOT_FOR_SELECTIONS_PHYSICAL: &[&str] = &[
    "OutputRequirements",
    "aggregate_statistics",
    "LimitedDistinctAggregation",
    "FilterPushdown",
    "FilterPushdown(Post)",
    "CombinePartialFinalAggregate",
    "OptimizeAggregateOrder",
    "LimitAggregation",
    "TopKRepartition",
    "PushdownSort",
    "EnsureCooperative",
    "SanityCheckPlan",
];

/// The other rules of DataFusion, which selections need if a filter or a limit is left above the scan.
const FOR_SELECTIONS_PHYSICAL: &[&str] = &["EnsureRequirements", "ProjectionPushdown", "LimitPushdown"];

/// The other logical rules of DataFusion.
const FOR_SELECTIONS: &[&str] = &[
    "simplify_expressions",
    "eliminate_filter",
    "eliminate_limit",
    "propagate_empty_relation",
    PUSH_DOWN_LIMIT,
    PUSH_DOWN_FILTER,
    "common_sub_expression_eliminate",
    "optimize_projections",
];

/// Rules of the engine for logical plans about joins.
const OWN_OF_JOINS: &[&str] = &["reduce_outer_joins", "reduce_partners", "join_order"];

/// Rules of the engine for logical plans about grouping.
const OWN_OF_GROUPS: &[&str] = &["count_all_rows", "star_join"];

/// Rules of the engine for physical plans about joins and subqueries.
const OWN_OF_JOINS_PHYSICAL: &[&str] = &[
    "spilling_join",
    "coded_joins",
    "share_materialized",
    "nested_loops",
];

/// Rules of the engine for physical plans about sorting, grouping and windows.
const OWN_OF_GROUPS_PHYSICAL: &[&str] = &[
    "pool_first_of_groups",
    "pool_first_rows",
    "pool_late_materialization",
    "pool_dynamic_filters",
    "large_limits",
    "sort_aggregate",
    "spilling_window",
    "string_views",
];

const PUSH_DOWN_LIMIT: &str = "push_down_limit";
const PUSH_DOWN_FILTER: &str = "push_down_filter";
/// The rule that computes repeated expressions once.
pub(crate) const COMMON_SUBEXPRESSIONS: &str = "common_sub_expression_eliminate";

/// Returns the logical rules for plans of a shape, out of all of a session.
pub(crate) fn logical_rules(all: &[LogicalRule], shape: PlanShape) -> Vec<LogicalRule> {
    let mut rules = Vec::new();
    for rule in all {
        let left_out = match shape {
            PlanShape::General => false,
            PlanShape::SingleTable => is_in(rule.name(), &[NOT_FOR_ONE_TABLE, OWN_OF_JOINS]),
            PlanShape::Selection => {
                let joins = [NOT_FOR_ONE_TABLE, OWN_OF_JOINS];
                is_in(rule.name(), &joins) || is_in(rule.name(), &[NOT_FOR_SELECTIONS, OWN_OF_GROUPS])
            }
        };
        if left_out {
            continue;
        }
        rules.push(Arc::clone(rule));
        if shape == PlanShape::Selection && rule.name() == PUSH_DOWN_FILTER {
            // A limit gets past a filter when that is in the scan; there is no second pass for it.
            rules.push(Arc::new(PushDownLimit::new()));
        }
    }
    rules
}

/// Returns the logical rules of the engine that can change a plan of one table.
pub(crate) fn own_logical_rules(all: &[LogicalRule]) -> Vec<LogicalRule> {
    let others = [
        NOT_FOR_ONE_TABLE,
        NOT_FOR_SELECTIONS,
        FOR_SELECTIONS,
        OWN_OF_JOINS,
    ];
    let own = |rule: &&LogicalRule| !is_in(rule.name(), &others);
    all.iter().filter(own).cloned().collect()
}

/// Returns the physical rules for plans of a shape, out of all of a session.
pub(crate) fn physical_rules(all: &[PhysicalRule], shape: PlanShape) -> Vec<PhysicalRule> {
    let joins = [NOT_FOR_ONE_TABLE_PHYSICAL, OWN_OF_JOINS_PHYSICAL];
    let groups = [NOT_FOR_SELECTIONS_PHYSICAL, OWN_OF_GROUPS_PHYSICAL];
    let kept = |rule: &&PhysicalRule| match shape {
        PlanShape::General => true,
        PlanShape::SingleTable => !is_in(rule.name(), &joins),
        PlanShape::Selection => !is_in(rule.name(), &joins) && !is_in(rule.name(), &groups),
    };
    all.iter().filter(kept).cloned().collect()
}

/// Returns the physical rules of the engine that can change a scan below a projection.
pub(crate) fn own_physical_rules(all: &[PhysicalRule]) -> Vec<PhysicalRule> {
    let mut rules = physical_rules(all, PlanShape::Selection);
    rules.retain(|rule| !FOR_SELECTIONS_PHYSICAL.contains(&rule.name()));
    rules
}

fn is_in(name: &str, lists: &[&[&str]]) -> bool {
    lists.iter().any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;

    use super::*;
    use crate::{Database, DatabaseOptions};

    #[test]
    fn every_rule_of_this_version_of_datafusion_is_listed() {
        let state = SessionStateBuilder::new().with_default_features().build();
        let own: Vec<LogicalRule> = own_logical_rules(state.optimizers());
        assert!(own.is_empty(), "{own:?}");
        let own: Vec<PhysicalRule> = own_physical_rules(state.physical_optimizers());
        assert!(own.is_empty(), "{own:?}");
        for names in [NOT_FOR_ONE_TABLE, NOT_FOR_SELECTIONS, FOR_SELECTIONS] {
            for name in names {
                assert!(
                    state.optimizers().iter().any(|rule| rule.name() == *name),
                    "{name}"
                );
            }
        }
        let physical = [
            NOT_FOR_ONE_TABLE_PHYSICAL,
            NOT_FOR_SELECTIONS_PHYSICAL,
            FOR_SELECTIONS_PHYSICAL,
        ];
        for name in physical.into_iter().flatten() {
            let mut rules = state.physical_optimizers().iter();
            assert!(rules.any(|rule| rule.name() == *name), "{name}");
        }
    }

    #[test]
    fn every_listed_rule_of_the_engine_is_in_a_session() {
        let db = Database::in_memory(&DatabaseOptions::default()).unwrap();
        let lease = db.session.states().lease();
        let state = lease.state();
        for name in [OWN_OF_JOINS, OWN_OF_GROUPS].into_iter().flatten() {
            let mut rules = state.optimizers().iter();
            assert!(rules.any(|rule| rule.name() == *name), "{name}");
        }
        let physical = [OWN_OF_JOINS_PHYSICAL, OWN_OF_GROUPS_PHYSICAL];
        for name in physical.into_iter().flatten() {
            let mut rules = state.physical_optimizers().iter();
            assert!(rules.any(|rule| rule.name() == *name), "{name}");
        }
    }
}
