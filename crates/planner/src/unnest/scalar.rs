//! Scalar subqueries: the value of one column of at most one row, NULL if there is none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, SubqueryAlias, lit, when,
};

use super::correlation::{
    OuterScope, by_output, by_position, columns_of, is_correlated, substitute, uncorrelated,
};
use super::domain::Domain;
use super::expressions::Extended;
use super::join_conditions::{equal, joined};
use super::push::{PushDown, Pushed, literal_limits};
use super::push_aggregate::{GroupedByDomain, distinct};
use super::single_row::single_row;

/// A scalar subquery, of which the projections at the top and the condition of HAVING are taken off.
struct PeeledScalar {
    plan: LogicalPlan,
    /// The value over the columns of the plan.
    value: Expr,
    /// Conditions without which there is no row.
    conditions: Vec<Expr>,
}

/// The value of a scalar subquery over the plan that it has been joined to.
pub(super) struct ScalarValueOf {
    pub(super) value: Expr,
    /// The condition without which the subquery has no row; `None` if it always has one.
    pub(super) has_row: Option<Expr>,
}

impl ScalarValueOf {
    /// Returns the value, or NULL if there is no row.
    fn or_null(self) -> Result<Expr> {
        match self.has_row {
            Some(condition) => when(condition, self.value).end(),
            None => Ok(self.value),
        }
    }
}

impl Extended<'_> {
    /// Joins a scalar subquery and returns its value.
    ///
    /// # Errors
    /// It has a node that the domain cannot be pushed into.
    pub(super) fn scalar(&mut self, subquery: LogicalPlan) -> Result<Expr> {
        if !is_correlated(&subquery)? && is_single_row(&subquery) {
            // DataFusion takes the value for one that is never NULL if the column is.
            let fields = subquery.schema().fields();
            let may_be_missing =
                !always_has_row(&subquery) && fields.iter().any(|field| !field.is_nullable());
            let value = Expr::ScalarSubquery(uncorrelated(subquery));
            return Ok(if may_be_missing {
                single_row(lit(1_i64), value)
            } else {
                value
            });
        }
        let peeled = peel(subquery)?;
        let aggregate = match peeled.plan {
            // Without FROM there is one row, for each row of the outer plan.
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                let found = self.of_nothing(peeled.value, peeled.conditions)?;
                return found.or_null();
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => aggregate,
            plan => {
                let PeeledScalar {
                    value, conditions, ..
                } = peeled;
                return self.of_rows(PeeledScalar {
                    plan,
                    value,
                    conditions,
                });
            }
        };
        let found = self.of_aggregate(aggregate, peeled.value, peeled.conditions)?;
        found.or_null()
    }

    /// Returns the value of a subquery without FROM.
    fn of_nothing(&self, value: Expr, conditions: Vec<Expr>) -> Result<ScalarValueOf> {
        let scope = OuterScope::new(self.base.schema());
        let conditions = conditions.into_iter().map(|condition| scope.bind(condition));
        Ok(ScalarValueOf {
            value: scope.bind(value)?,
            has_row: conjunction(conditions.collect::<Result<Vec<_>>>()?),
        })
    }

    /// Joins a subquery that has one row, or none because of HAVING; `None` if it is no such subquery.
    ///
    /// # Errors
    /// It has a node that the domain cannot be pushed into.
    pub(super) fn of_single_row(&mut self, subquery: &LogicalPlan) -> Result<Option<ScalarValueOf>> {
        let peeled = peel(subquery.clone())?;
        match peeled.plan {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                self.of_nothing(peeled.value, peeled.conditions).map(Some)
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => self
                .of_aggregate(aggregate, peeled.value, peeled.conditions)
                .map(Some),
            _ => Ok(None),
        }
    }

    /// Joins an aggregate without groups, which has one row.
    fn of_aggregate(
        &mut self,
        aggregate: Aggregate,
        value: Expr,
        conditions: Vec<Expr>,
    ) -> Result<ScalarValueOf> {
        let plan = LogicalPlan::Aggregate(aggregate.clone());
        let row = self.row_for(&plan)?;
        let domain = Domain::for_subquery(&plan, &self.base, row.as_ref())?;
        let grouped = PushDown {
            domain: &domain,
            names: self.names,
        }
        .global(aggregate)?;
        let scope = domain.scope();
        let GroupedByDomain { pushed, values } = grouped;
        let (pushed, by) = self.qualified(pushed)?;
        let values = values
            .into_iter()
            .map(|(output, value)| Ok((output, substitute(value, &by)?)));
        let values: HashMap<Column, Expr> = values.collect::<Result<_>>()?;
        // Columns of the outer plan may have the names of replaced ones.
        let bound = |expr: Expr| scope.bind(substitute(expr, &values)?);
        let value = bound(value)?;
        let conditions = conditions.into_iter().map(bound).collect::<Result<Vec<_>>>()?;
        self.join_values(&domain, pushed)?;
        Ok(ScalarValueOf {
            value,
            has_row: conjunction(conditions),
        })
    }

    /// Joins a subquery that may have several rows. The value fails where it is used if there are.
    fn of_rows(&mut self, peeled: PeeledScalar) -> Result<Expr> {
        let PeeledScalar {
            plan,
            value,
            conditions,
        } = peeled;
        let plan = match conjunction(conditions) {
            Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?),
            None => plan,
        };
        let plan = if is_correlated(&plan)? {
            plan
        } else {
            // The second row is enough to know.
            LogicalPlan::Limit(Limit {
                skip: None,
                fetch: Some(Box::new(lit(2_i64))),
                input: Arc::new(plan),
            })
        };
        let row = self.row_for(&plan)?;
        let domain = Domain::for_subquery(&plan, &self.base, row.as_ref())?;
        let mut push = PushDown {
            domain: &domain,
            names: self.names,
        };
        let none = push.none();
        let pushed = push.plan(plan, &none)?;
        let needed = columns_of(&value);
        let mut aggregates = vec![count_udaf().call(vec![lit(1_i64)])];
        for column in &needed {
            aggregates.push(first_value_udaf().call(vec![Expr::Column(column.clone())]));
        }
        let groups = distinct(pushed.representatives.iter().cloned().map(Expr::Column));
        let keys = groups.len();
        let grouped = Aggregate::try_new(Arc::new(pushed.plan), groups, aggregates)?;
        let (pushed, _) = self.qualified(Pushed {
            plan: LogicalPlan::Aggregate(grouped),
            ..pushed
        })?;
        let mut columns = pushed
            .plan
            .schema()
            .columns()
            .into_iter()
            .skip(keys)
            .map(Expr::Column);
        let rows = columns.next().unwrap_or(lit(1_i64));
        let firsts: HashMap<Column, Expr> = needed.into_iter().zip(columns).collect();
        // What is no column may have a value even if there is no row.
        let value = match &value {
            Expr::Column(_) => substitute(value, &firsts)?,
            _ => when(rows.clone().gt(lit(0_i64)), substitute(value, &firsts)?).end()?,
        };
        let value = domain.scope().bind(value)?;
        self.join_values(&domain, pushed)?;
        Ok(single_row(rows, value))
    }

    /// Adds the columns of a plan with at most one row for each value of the domain.
    fn join_values(&mut self, domain: &Domain, pushed: Pushed) -> Result<()> {
        let columns = pushed.representatives.into_iter().zip(pushed.strict);
        let pairs = domain
            .attributes
            .iter()
            .zip(columns)
            .map(|(attribute, (column, strict))| {
                (attribute.outer.clone(), column, strict || !attribute.nullable)
            });
        self.join_groups(pushed.plan, pairs.collect())
    }

    /// Adds the columns of a plan that has at most one row for each value of the pairs of an outer expression
    /// and a column, of which the third says if NULL equals nothing. Without pairs it has one row.
    ///
    /// # Errors
    /// The join cannot be built.
    pub(super) fn join_groups(&mut self, plan: LogicalPlan, pairs: Vec<(Expr, Column, bool)>) -> Result<()> {
        let join_type = if pairs.is_empty() {
            JoinType::Inner
        } else {
            JoinType::Left
        };
        let pairs = pairs.into_iter();
        let conditions = pairs.map(|(outer, column, strict)| equal(outer, Expr::Column(column), strict));
        let outer = self.take_plan();
        self.plan = joined(outer, plan, join_type, conditions.collect())?;
        Ok(())
    }

    /// Makes all columns of a plan those of a new relation, so that none has the name of an outer one;
    /// returns what they have been with it.
    fn qualified(&mut self, pushed: Pushed) -> Result<(Pushed, HashMap<Column, Expr>)> {
        let (plan, by) = self.as_relation(pushed.plan)?;
        let representatives = pushed
            .representatives
            .into_iter()
            .map(|column| match by.get(&column) {
                Some(Expr::Column(now)) => now.clone(),
                _ => column,
            });
        let pushed = Pushed {
            representatives: representatives.collect(),
            plan,
            strict: pushed.strict,
        };
        Ok((pushed, by))
    }

    /// Makes all columns of a plan those of a new relation, and returns the column for each former one.
    ///
    /// # Errors
    /// The plan cannot be built.
    pub(super) fn as_relation(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, HashMap<Column, Expr>)> {
        let relation = self.names.relation();
        let before = plan.schema().columns();
        let mut names = HashSet::new();
        if before.is_empty() {
            // A relation has a column at least.
            let exprs = vec![lit(1_i64).alias(self.names.next())];
            let plan = Projection::try_new(exprs, Arc::new(plan))?;
            let alias = SubqueryAlias::try_new(Arc::new(LogicalPlan::Projection(plan)), relation)?;
            return Ok((LogicalPlan::SubqueryAlias(alias), HashMap::new()));
        }
        // A name without a relation in the outer plan would be ambiguous beside the same one with a relation.
        let outer = Arc::clone(self.plan.schema());
        let is_taken = |name: &str| {
            outer
                .iter()
                .any(|(relation, field)| relation.is_none() && field.name() == name)
        };
        let plan = if before
            .iter()
            .all(|column| names.insert(&column.name) && !is_taken(&column.name))
        {
            plan
        } else {
            let exprs = before
                .iter()
                .map(|column| Expr::Column(column.clone()).alias(self.names.next()));
            LogicalPlan::Projection(Projection::try_new(exprs.collect(), Arc::new(plan))?)
        };
        let alias = SubqueryAlias::try_new(Arc::new(plan), relation)?;
        let by = before.into_iter().zip(alias.schema.columns());
        let by = by.map(|(before, now)| (before, Expr::Column(now))).collect();
        Ok((LogicalPlan::SubqueryAlias(alias), by))
    }
}

/// Takes off what can be computed after the join with the outer plan: only where the value is used, that is.
fn peel(plan: LogicalPlan) -> Result<PeeledScalar> {
    let first = plan.schema().columns().into_iter().next();
    let value = first.map_or(lit(ScalarValue::Null), Expr::Column);
    let mut peeled = PeeledScalar {
        plan,
        value,
        conditions: Vec::new(),
    };
    loop {
        let (plan, by) = match peeled.plan {
            LogicalPlan::Projection(projection)
                if !projection.expr.iter().any(Expr::is_volatile) || is_row(&projection.input) =>
            {
                let by = by_output(&projection.schema, &projection.expr);
                (Arc::unwrap_or_clone(projection.input), by)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let by = by_position(&alias.schema, alias.input.schema());
                (Arc::unwrap_or_clone(alias.input), by)
            }
            LogicalPlan::Filter(filter) if is_aggregate(&filter.input) || is_row(&filter.input) => {
                peeled.conditions.push(filter.predicate);
                (Arc::unwrap_or_clone(filter.input), HashMap::new())
            }
            LogicalPlan::Sort(sort) if is_aggregate(&sort.input) && sort.fetch != Some(0) => {
                (Arc::unwrap_or_clone(sort.input), HashMap::new())
            }
            LogicalPlan::Limit(limit) if is_aggregate(&limit.input) => match literal_limits(&limit) {
                Ok((0, None | Some(1..))) => (Arc::unwrap_or_clone(limit.input), HashMap::new()),
                _ => {
                    peeled.plan = LogicalPlan::Limit(limit);
                    return Ok(peeled);
                }
            },
            plan => {
                peeled.plan = plan;
                return Ok(peeled);
            }
        };
        peeled.value = substitute(peeled.value, &by)?;
        let conditions = std::mem::take(&mut peeled.conditions).into_iter();
        peeled.conditions = conditions
            .map(|condition| substitute(condition, &by))
            .collect::<Result<_>>()?;
        peeled.plan = plan;
    }
}

/// Returns true for what a query without FROM begins with.
fn is_row(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row)
}

/// Returns true for an aggregate without groups, below what is taken off a scalar subquery.
fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => {
            is_aggregate(&projection.input) && !projection.expr.iter().any(Expr::is_volatile)
        }
        LogicalPlan::SubqueryAlias(alias) => is_aggregate(&alias.input),
        LogicalPlan::Sort(sort) => is_aggregate(&sort.input),
        LogicalPlan::Filter(filter) => is_aggregate(&filter.input),
        _ => false,
    }
}

/// Returns true for a plan that has at most one row whatever its tables hold.
pub(super) fn is_single_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            matches!(literal_limits(limit), Ok((_, Some(0..=1)))) || is_single_row(&limit.input)
        }
        LogicalPlan::Projection(projection) => is_single_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_single_row(&alias.input),
        LogicalPlan::Filter(filter) => is_single_row(&filter.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_some_and(|fetch| fetch <= 1) || is_single_row(&sort.input),
        LogicalPlan::Window(window) => is_single_row(&window.input),
        LogicalPlan::Distinct(distinct) => is_single_row(distinct.input()),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.len() <= 1,
        _ => false,
    }
}

/// Returns true for a plan of which it is known that it has a row.
fn always_has_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => always_has_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => always_has_row(&alias.input),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// Returns true for a plan that has one row, or none because of HAVING.
pub(super) fn has_single_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_single_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_single_row(&alias.input),
        LogicalPlan::Filter(filter) => is_row(&filter.input) || is_aggregate(plan),
        other => is_row(other) || is_aggregate(other),
    }
}
