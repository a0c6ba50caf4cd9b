//! Optimised plans of queries that have no template, by text: those with joins, subqueries, windows or set
//! operations.
//!
//! Such a plan refers to a version of the database: its statistics have determined the order of joins. So it
//! is kept together with that version, and dropped with it when there is a newer one.
//!
//! Invariant: at most [`MAX_PLANS`] plans are kept, those used last.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility, WindowFunctionDefinition};
use halocline_scan::plan::PoolTable;

use super::normal_form::NormalForm;
use crate::session::is_simple;

/// Plans that are kept for a version of the database.
const MAX_PLANS: usize = 128;

/// The text of a query, apart from white space and comments, and the settings of the session that asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RepeatedQuery {
    settings: u64,
    text: Box<[u8]>,
}

impl RepeatedQuery {
    /// Returns the query of a text with a version of the settings, which no other session has.
    pub(crate) fn new(form: &NormalForm, settings: u64) -> Self {
        Self {
            settings,
            text: form.with_literals(),
        }
    }
}

/// The plans of a query.
#[derive(Debug)]
pub(crate) struct QueryPlans {
    /// As its text says.
    pub(crate) original: Arc<LogicalPlan>,
    /// Optimised.
    pub(crate) optimised: LogicalPlan,
}

/// The plans that are kept for a version of the database.
#[derive(Debug, Default)]
pub(crate) struct RepeatedPlans {
    plans: HashMap<RepeatedQuery, KeptPlan>,
    /// Number of look-ups so far, as a clock.
    clock: u64,
}

#[derive(Debug)]
struct KeptPlan {
    used: u64,
    plans: Arc<QueryPlans>,
}

impl RepeatedPlans {
    /// Returns the plans of a query, if they are kept.
    pub(crate) fn get(&mut self, query: &RepeatedQuery) -> Option<Arc<QueryPlans>> {
        self.clock += 1;
        let kept = self.plans.get_mut(query)?;
        kept.used = self.clock;
        Some(Arc::clone(&kept.plans))
    }

    /// Keeps the plans of a query, in place of those that were used longest ago if there are many.
    pub(crate) fn add(&mut self, query: RepeatedQuery, plans: Arc<QueryPlans>) {
        if self.plans.len() >= MAX_PLANS && !self.plans.contains_key(&query) {
            let oldest = self.plans.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(query, _)| query.clone()) {
                self.plans.remove(&oldest);
            }
        }
        let used = self.clock;
        self.plans.insert(query, KeptPlan { used, plans });
    }
}

/// Returns true if a plan that is not optimised yet gives the same rows each time that it is run over the
/// same version of the database: it reads tables of the pool only, and the values of its functions depend on
/// their arguments alone.
pub(crate) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    plan.apply_with_subqueries(|node| {
        repeatable = is_repeatable_node(node)?;
        Ok(if repeatable {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    })?;
    Ok(repeatable)
}

fn is_repeatable_node(node: &LogicalPlan) -> Result<bool> {
    let is_known = match node {
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source)?.is::<PoolTable>(),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Distinct(_) => true,
        _ => false,
    };
    let mut repeatable = is_known;
    if is_known {
        node.apply_expressions(|root| {
            root.apply(|expr| {
                repeatable = is_repeatable_expr(expr);
                Ok(if repeatable {
                    TreeNodeRecursion::Continue
                } else {
                    TreeNodeRecursion::Stop
                })
            })
        })?;
    }
    Ok(repeatable)
}

/// Returns true if the value of an expression depends on columns, subqueries and constants alone, apart from
/// its operands.
fn is_repeatable_expr(expr: &Expr) -> bool {
    match expr {
        Expr::Placeholder(_) => false,
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::OuterReferenceColumn(..) => {
            true
        }
        Expr::WindowFunction(window) => {
            let signature = match &window.fun {
                WindowFunctionDefinition::AggregateUDF(function) => function.signature(),
                WindowFunctionDefinition::WindowUDF(function) => function.signature(),
            };
            signature.volatility == Volatility::Immutable
        }
        other => is_simple(other),
    }
}
