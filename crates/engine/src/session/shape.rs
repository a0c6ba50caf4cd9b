//! The shape of a logical plan, which determines the rules that can change it.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, TableSource, Volatility};
use halocline_scan::keyed::KeyedProvider;
use halocline_scan::plan::PoolTable;

use crate::prepared::DetachedTable;

/// The kind of a logical plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanShape {
    /// A scan of one table of the pool below at most one filter, one projection and one limit.
    Selection,
    /// A plan of one table of the pool that also groups or sorts, or has several projections or filters.
    SingleTable,
    /// Any other plan: it has joins, subqueries, windows, other tables, or functions whose value depends on
    /// more than their arguments.
    General,
}

/// The nodes of a plan that have been seen.
#[derive(Default)]
struct SeenNodes {
    scans: usize,
    filters: usize,
    projections: usize,
    limits: usize,
    /// Has an aggregate, a sort or DISTINCT.
    breaks: bool,
}

impl PlanShape {
    /// Returns the shape of a plan; that of the explained one for EXPLAIN.
    pub(crate) fn from_plan(plan: &LogicalPlan) -> Self {
        let mut seen = SeenNodes::default();
        let visited = plan.apply(|node| {
            if seen.add(node) && expressions_are_simple(node) {
                Ok(TreeNodeRecursion::Continue)
            } else {
                seen.scans = usize::MAX;
                Ok(TreeNodeRecursion::Stop)
            }
        });
        if visited.is_err() || seen.scans != 1 {
            return Self::General;
        }
        if seen.breaks || seen.filters > 1 || seen.projections > 1 || seen.limits > 1 {
            Self::SingleTable
        } else {
            Self::Selection
        }
    }
}

impl SeenNodes {
    /// Counts a node; false if a plan of one table has none of its kind.
    fn add(&mut self, node: &LogicalPlan) -> bool {
        match node {
            LogicalPlan::Projection(_) => self.projections += 1,
            LogicalPlan::Filter(_) => self.filters += 1,
            LogicalPlan::Limit(_) => self.limits += 1,
            LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::All(_)) => {
                self.breaks = true
            }
            LogicalPlan::TableScan(scan) => {
                self.scans += 1;
                return is_own(&scan.source);
            }
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => {}
            _ => return false,
        }
        true
    }
}

/// Returns true for a table of a pool.
fn is_own(source: &Arc<dyn TableSource>) -> bool {
    if source.is::<DetachedTable>() {
        return true;
    }
    source_as_provider(source)
        .is_ok_and(|provider| provider.is::<PoolTable>() || provider.is::<KeyedProvider>())
}

fn expressions_are_simple(node: &LogicalPlan) -> bool {
    let mut simple = true;
    let visited = node.apply_expressions(|root| {
        root.apply(|expr| {
            simple = is_simple(expr);
            Ok(if simple {
                TreeNodeRecursion::Continue
            } else {
                TreeNodeRecursion::Stop
            })
        })
    });
    simple && visited.is_ok()
}

/// Returns true for an expression whose value depends on columns and constants alone, apart from its
/// operands.
pub(crate) fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(function) => function.func.signature().volatility == Volatility::Immutable,
        Expr::AggregateFunction(function) => function.func.signature().volatility == Volatility::Immutable,
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Placeholder(_)
        | Expr::BinaryExpr(_)
        | Expr::Like(_)
        | Expr::SimilarTo(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_)
        | Expr::GroupingSet(_) => true,
        _ => false,
    }
}
