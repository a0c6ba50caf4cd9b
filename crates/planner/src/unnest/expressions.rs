//! Replaces the subqueries of expressions over a plan by columns that are joined to it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, Operator, Subquery, not};

use super::correlation::has_subquery;
use super::names::FreshNames;
use super::repeat::is_volatile;
use super::rewrite::Unnesting;

/// A plan to which the results of subqueries are joined as columns after its own.
pub(super) struct Extended<'a> {
    /// The plan that subqueries are correlated to.
    pub(super) base: Arc<LogicalPlan>,
    /// The same with the columns that have been added.
    pub(super) plan: LogicalPlan,
    /// The column that numbers the rows of the base, if a subquery has to run for each of them.
    pub(super) row: Option<Column>,
    pub(super) names: &'a mut FreshNames,
}

impl<'a> Extended<'a> {
    /// Begins with a plan that has no column of a subquery.
    pub(super) fn new(plan: LogicalPlan, names: &'a mut FreshNames) -> Self {
        Self {
            base: Arc::new(plan.clone()),
            plan,
            row: None,
            names,
        }
    }

    /// Returns the column that numbers the rows of the outer plan if a subquery has to run for each of them:
    /// it is correlated, and has functions that return something else each time.
    ///
    /// # Errors
    /// The plan cannot be traversed.
    pub(super) fn row_for(&self, subquery: &LogicalPlan) -> Result<Option<Column>> {
        Ok(match &self.row {
            Some(row) if is_volatile(subquery)? => Some(row.clone()),
            _ => None,
        })
    }

    /// Returns the plan, in whose place there is nothing until it is set again.
    pub(super) fn take_plan(&mut self) -> LogicalPlan {
        let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: Arc::new(DFSchema::empty()),
        });
        std::mem::replace(&mut self.plan, nothing)
    }

    /// Replaces the subqueries of an expression.
    ///
    /// # Errors
    /// One of them cannot be joined.
    pub(super) fn expression(&mut self, expr: Expr) -> Result<Expr> {
        if !has_subquery(&expr) {
            return Ok(expr);
        }
        // Operands first, as those of IN may have subqueries themselves.
        expr.transform_up(|expr| {
            Ok(match expr {
                Expr::ScalarSubquery(subquery) => {
                    let plan = self.unnested(subquery)?;
                    Transformed::yes(self.scalar(plan)?)
                }
                Expr::Exists(Exists { subquery, negated }) => {
                    let plan = self.unnested(subquery)?;
                    Transformed::yes(negated_if(negated, self.exists(plan)?))
                }
                Expr::InSubquery(InSubquery {
                    expr,
                    subquery,
                    negated,
                }) => {
                    let plan = self.unnested(subquery)?;
                    Transformed::yes(negated_if(negated, self.quantified(*expr, Operator::Eq, plan)?))
                }
                Expr::SetComparison(SetComparison {
                    expr,
                    subquery,
                    op,
                    quantifier,
                }) => {
                    let plan = self.unnested(subquery)?;
                    Transformed::yes(self.compared(*expr, op, quantifier, plan)?)
                }
                other => Transformed::no(other),
            })
        })
        .data()
    }

    /// Returns the plan of a subquery, whose own subqueries have been replaced.
    pub(super) fn unnested(&mut self, subquery: Subquery) -> Result<LogicalPlan> {
        Unnesting::with(self.names).plan(Arc::unwrap_or_clone(subquery.subquery))
    }

    /// Joins a comparison with ANY or ALL of the rows.
    fn compared(
        &mut self,
        expr: Expr,
        op: Operator,
        quantifier: SetQuantifier,
        plan: LogicalPlan,
    ) -> Result<Expr> {
        match quantifier {
            SetQuantifier::Any => self.quantified(expr, op, plan),
            // True for all rows, unless the opposite is true for any.
            SetQuantifier::All => match op.negate() {
                Some(opposite) => Ok(not(self.quantified(expr, opposite, plan)?)),
                None => Err(super::rule::unsupported(
                    &format!("{op} ALL (SELECT …)"),
                    "write NOT EXISTS",
                )),
            },
        }
    }
}

/// Negates an expression if so.
pub(super) fn negated_if(negated: bool, expr: Expr) -> Expr {
    if negated { not(expr) } else { expr }
}
