//! Lifts the correlated conditions of a subquery to its top, where they become conditions of a join.
//!
//! It is possible where each of them is in a filter below nothing but projections, inner joins, sorts and the
//! like. The order of the rows, and how often a row is there, may change.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Distinct, Expr, Filter, Join, LogicalPlan, Projection, SubqueryAlias};

use super::correlation::{OuterScope, columns_of, substitute};
use super::names::FreshNames;

/// A subquery without its correlated conditions.
pub(super) struct Lifted {
    /// Has the output columns of the subquery first.
    pub(super) plan: LogicalPlan,
    /// Conditions over its columns, with references to the outer plan.
    pub(super) conditions: Vec<Expr>,
}

/// Lifts conditions out of one subquery.
pub(super) struct Lift<'a> {
    pub(super) scope: OuterScope<'a>,
    pub(super) names: &'a mut FreshNames,
    /// Copies of a row need not be kept apart.
    pub(super) as_set: bool,
}

impl Lift<'_> {
    /// Lifts all conditions that refer to the scope; `None` if that is not possible.
    ///
    /// # Errors
    /// The plan cannot be traversed.
    pub(super) fn plan(&mut self, plan: LogicalPlan) -> Result<Option<Lifted>> {
        if !self.scope.is_used_within(&plan)? {
            let conditions = Vec::new();
            return Ok(Some(Lifted { plan, conditions }));
        }
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.plan(Arc::unwrap_or_clone(sort.input)),
            LogicalPlan::Distinct(Distinct::All(input)) if self.as_set => {
                self.plan(Arc::unwrap_or_clone(input))
            }
            _ => Ok(None),
        }
    }

    fn filter(&mut self, filter: Filter) -> Result<Option<Lifted>> {
        let Some(mut lifted) = self.plan(Arc::unwrap_or_clone(filter.input))? else {
            return Ok(None);
        };
        let conditions = split_conjunction_owned(filter.predicate).into_iter();
        let (outer, own): (Vec<_>, Vec<_>) =
            conditions.partition(|condition| self.scope.is_used_by(condition));
        if let Some(predicate) = conjunction(own) {
            lifted.plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(lifted.plan))?);
        }
        lifted.conditions.extend(outer);
        Ok(Some(lifted))
    }

    fn projection(&mut self, projection: Projection) -> Result<Option<Lifted>> {
        let exprs = &projection.expr;
        if exprs
            .iter()
            .any(|expr| self.scope.is_used_by(expr) || expr.is_volatile())
        {
            return Ok(None);
        }
        let Some(lifted) = self.plan(Arc::unwrap_or_clone(projection.input))? else {
            return Ok(None);
        };
        let mut outputs = projection.expr;
        let mut visible = HashMap::new();
        for condition in &lifted.conditions {
            for column in columns_of(condition) {
                let passed = outputs
                    .iter()
                    .any(|expr| matches!(expr, Expr::Column(other) if *other == column));
                if passed || visible.contains_key(&column) {
                    continue;
                }
                let fresh = self.names.column();
                outputs.push(Expr::Column(column.clone()).alias(fresh.name()));
                visible.insert(column, Expr::Column(fresh));
            }
        }
        let plan = Projection::try_new(outputs, Arc::new(lifted.plan))?;
        Ok(Some(Lifted {
            plan: LogicalPlan::Projection(plan),
            conditions: translated(lifted.conditions, &visible)?,
        }))
    }

    fn alias(&mut self, alias: SubqueryAlias) -> Result<Option<Lifted>> {
        let before = alias.input.schema().columns();
        let Some(lifted) = self.plan(Arc::unwrap_or_clone(alias.input))? else {
            return Ok(None);
        };
        // The alias makes all columns its own, whose names have to be unique then.
        let mut outputs: Vec<Expr> = before.iter().cloned().map(Expr::Column).collect();
        let mut visible: HashMap<Column, Expr> = HashMap::new();
        for (column, output) in before.iter().zip(alias.schema.columns()) {
            visible.insert(column.clone(), Expr::Column(output));
        }
        for condition in &lifted.conditions {
            for column in columns_of(condition) {
                if visible.contains_key(&column) {
                    continue;
                }
                let name = self.names.next();
                outputs.push(Expr::Column(column.clone()).alias(&name));
                visible.insert(column, Expr::Column(Column::new(Some(alias.alias.clone()), name)));
            }
        }
        let input = LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(lifted.plan))?);
        Ok(Some(Lifted {
            plan: LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias)?),
            conditions: translated(lifted.conditions, &visible)?,
        }))
    }

    fn join(&mut self, join: Join) -> Result<Option<Lifted>> {
        let keys = join
            .on
            .iter()
            .any(|(left, right)| self.scope.is_used_by(left) || self.scope.is_used_by(right));
        let inner = join.join_type == JoinType::Inner;
        let one_sided = matches!(
            join.join_type,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti
        );
        let in_filter = join.filter.iter().any(|filter| self.scope.is_used_by(filter));
        let in_right = self.scope.is_used_within(&join.right)?;
        if keys || !(inner || one_sided) || (one_sided && (in_filter || in_right)) {
            return Ok(None);
        }
        let outputs = join.schema.columns();
        let Some(left) = self.plan(Arc::unwrap_or_clone(join.left))? else {
            return Ok(None);
        };
        let Some(right) = self.plan(Arc::unwrap_or_clone(join.right))? else {
            return Ok(None);
        };
        let filter = join.filter.map(split_conjunction_owned).unwrap_or_default();
        let (outer, own): (Vec<_>, Vec<_>) = filter
            .into_iter()
            .partition(|condition| self.scope.is_used_by(condition));
        let joined = Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            join.on,
            conjunction(own),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        let mut plan = LogicalPlan::Join(joined);
        let columns = plan.schema().columns();
        if columns != outputs {
            // The output columns come first.
            let added = columns.iter().filter(|column| !outputs.contains(column));
            let exprs = outputs.iter().chain(added).cloned().map(Expr::Column).collect();
            plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        }
        let conditions = left.conditions.into_iter().chain(right.conditions).chain(outer);
        Ok(Some(Lifted {
            plan,
            conditions: conditions.collect(),
        }))
    }
}

fn translated(conditions: Vec<Expr>, by: &HashMap<Column, Expr>) -> Result<Vec<Expr>> {
    let conditions = conditions.into_iter();
    conditions.map(|condition| substitute(condition, by)).collect()
}
