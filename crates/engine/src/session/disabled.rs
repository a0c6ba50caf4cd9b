//! `halocline.disabled_rules`: rules of the optimizer that a session leaves out, to find out whether one of
//! them makes an answer wrong or slow.
//!
//! Invariant: a rule that turns a plan into one that can be run, or run right, is never left out.

use datafusion::error::DataFusionError;
use datafusion::execution::{SessionState, SessionStateBuilder};

use super::rules::{LogicalRule, PhysicalRule};

/// Rules that plans need: those that remove what no operator runs (subqueries, DISTINCT ON, comparisons with
/// ANY and ALL, coalesce, keys to group by twice), the one that determines again which columns may be NULL,
/// the one that gives a limit to the sort below it, which is removed otherwise, those that give each operator
/// the order and distribution it relies on, and the one that evaluates a common table expression once.
const REQUIRED_RULES: &[&str] = &[
    "rewrite_set_comparison",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "simplify_expressions",
    "decorrelate_lateral_join",
    "replace_distinct_aggregate",
    "eliminate_duplicated_expr",
    "optimize_projections",
    "push_down_limit",
    "OutputRequirements",
    "EnsureRequirements",
    "join_selection",
    "EnsureCooperative",
    "SanityCheckPlan",
    "share_materialized",
];

/// Returns the names in the value of the setting.
fn names(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Returns the names of all rules of a session that can be left out, those of logical plans first.
fn optional(state: &SessionState) -> Vec<String> {
    let logical = state.optimizers().iter().map(|rule| rule.name().to_owned());
    let physical = state
        .physical_optimizers()
        .iter()
        .map(|rule| rule.name().to_owned());
    let mut all: Vec<String> = Vec::new();
    for name in logical.chain(physical) {
        if !REQUIRED_RULES.contains(&name.as_str()) && !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Checks a value of the setting.
///
/// # Errors
/// It names a rule that there is not, or that plans need.
pub(super) fn check(value: &str, state: &SessionState) -> Result<(), DataFusionError> {
    let optional = optional(state);
    for name in names(value) {
        if optional.iter().any(|rule| rule == name) {
            continue;
        }
        let what = if REQUIRED_RULES.contains(&name) {
            format!("plans need the rule {name}")
        } else {
            format!("there is no rule {name}")
        };
        let all = optional.join(", ");
        let text = format!("halocline.disabled_rules: {what}; these can be left out: {all}");
        return Err(DataFusionError::Configuration(text));
    }
    Ok(())
}

/// Returns the state without the rules that the value of the setting names.
pub(super) fn without(state: SessionState, value: &str) -> SessionState {
    let left_out = |rule: &str| names(value).any(|name| name == rule);
    let logical: Vec<LogicalRule> = state.optimizers().to_vec();
    let physical: Vec<PhysicalRule> = state.physical_optimizers().to_vec();
    let logical = logical
        .into_iter()
        .filter(|rule| !left_out(rule.name()))
        .collect();
    let physical = physical
        .into_iter()
        .filter(|rule| !left_out(rule.name()))
        .collect();
    SessionStateBuilder::new_from_existing(state)
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(physical)
        .build()
}
