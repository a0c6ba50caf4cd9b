//! The analyzer rule that replaces subqueries and lateral joins by joins.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use halocline_sql::EngineError;
use halocline_sql::error::external;
use halocline_sql::semantics::with_equal_floats;

use super::correlation::subplan;
use super::rewrite::Unnesting;

/// Replaces subqueries and lateral joins by joins. It comes after the rules that determine types, as the plan
/// that it returns has them all.
#[derive(Debug)]
pub struct Unnest;

impl AnalyzerRule for Unnest {
    fn name(&self) -> &'static str {
        "unnest_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if has_subqueries(&plan)? {
            with_equal_floats(Unnesting::default().plan(plan)?)
        } else {
            Ok(plan)
        }
    }
}

/// Returns true if a plan has subqueries or lateral joins.
fn has_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found = found || matches!(node, LogicalPlan::Subquery(_));
        if !found {
            node.apply_expressions(|root| {
                root.apply(|expr| {
                    found = found || subplan(expr).is_some();
                    Ok(next(found))
                })
            })?;
        }
        Ok(next(found))
    })?;
    Ok(found)
}

/// Returns how a search goes on.
pub(super) fn next(found: bool) -> TreeNodeRecursion {
    if found {
        TreeNodeRecursion::Stop
    } else {
        TreeNodeRecursion::Continue
    }
}

/// Returns the error for a statement that is not supported.
pub(super) fn unsupported(what: &str, instead: &str) -> DataFusionError {
    external(EngineError::Unsupported {
        what: what.to_string(),
        instead: instead.to_string(),
    })
}
