//! Replaces the subqueries in the nodes of a plan, innermost first.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, JoinType, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Distinct, EmptyRelation, Expr, Filter, Join, LogicalPlan, Projection, SortExpr, Union, Values,
};

use super::both_sides::meet_conditions;
use super::correlation::{OuterScope, columns_of, has_subquery, is_correlated, subplan};
use super::expressions::Extended;
use super::lateral;
use super::names::FreshNames;
use super::push::{filtered, named, outer_limit};
use super::repeat::{is_repeatable, numbered, once, runs_for_each_row};
use super::rule::unsupported;

/// The rewriting of one plan.
#[derive(Default)]
pub(super) struct Unnesting {
    names: FreshNames,
}

impl Unnesting {
    /// Continues the names of another rewriting.
    pub(super) fn with(names: &mut FreshNames) -> UnnestingPart<'_> {
        UnnestingPart { names }
    }

    /// Replaces all subqueries and lateral joins of a plan.
    ///
    /// # Errors
    /// There is one that cannot be replaced.
    pub(super) fn plan(mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        Self::with(&mut self.names).plan(plan)
    }
}

/// The rewriting of a plan or subquery with the names of its statement.
pub(super) struct UnnestingPart<'a> {
    pub(super) names: &'a mut FreshNames,
}

impl UnnestingPart<'_> {
    /// Replaces all subqueries and lateral joins of a plan.
    ///
    /// # Errors
    /// There is one that cannot be replaced.
    pub(super) fn plan(mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.transform_down(lateral::marked).data()?;
        plan.transform_up(|node| self.node(node)).data()
    }

    pub(super) fn node(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Join(join) = &node
            && (lateral::is_lateral(&join.left) || lateral::is_lateral(&join.right))
        {
            let LogicalPlan::Join(join) = node else {
                return Ok(Transformed::no(node));
            };
            return self.lateral(join).map(Transformed::yes);
        }
        refuse_outer_aggregates(&node)?;
        let mut found = false;
        node.apply_expressions(|expr| {
            found = found || has_subquery(expr);
            Ok(if found {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if !found {
            // What only was below a subquery may have new columns.
            return Ok(Transformed::no(node));
        }
        match node {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Limit(limit) => {
                let within = [&limit.skip, &limit.fetch].into_iter().flatten();
                for expr in within.filter_map(|expr| subplan(expr)) {
                    if is_correlated(expr)? {
                        return Err(outer_limit());
                    }
                }
                Err(unsupported("LIMIT or OFFSET by a subquery", "write a number"))
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Distinct(Distinct::On(_)) => self.expressions(node),
            // Subqueries that remain in scans and the like are those that were there before.
            other => Ok(other),
        }
        .map(Transformed::yes)
    }

    /// Replaces the subqueries of a filter.
    ///
    /// # Errors
    /// One of them cannot be joined.
    pub(super) fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        let columns = filter.input.schema().columns();
        let conditions = split_conjunction_owned(filter.predicate).into_iter();
        let (with, without): (Vec<_>, Vec<_>) = conditions.partition(has_subquery);
        let input = filtered(Arc::unwrap_or_clone(filter.input), without)?;
        let (plan, remaining) = self.extended(input, &with, |extended| {
            let mut remaining = Vec::new();
            for condition in &with {
                remaining.extend(extended.condition(condition.clone())?);
            }
            Ok(remaining)
        })?;
        only(filtered(plan, remaining)?, columns)
    }

    /// Joins subqueries to a plan by `work`, which replaces those of the expressions. A plan whose rows
    /// differ from one evaluation to the next is evaluated once.
    fn extended<T>(
        &mut self,
        input: LogicalPlan,
        exprs: &[Expr],
        work: impl Fn(&mut Extended<'_>) -> Result<T>,
    ) -> Result<(LogicalPlan, T)> {
        if runs_for_each_row(exprs)? {
            let (numbered, row) = numbered(input, self.names)?;
            let mut extended = Extended::new(once(numbered, self.names), self.names);
            extended.row = Some(row);
            let done = work(&mut extended)?;
            return Ok((extended.plan, done));
        }
        let before = self.names.instances;
        let mut extended = Extended::new(input, self.names);
        let done = work(&mut extended)?;
        let Extended { base, plan, .. } = extended;
        if self.names.instances == before || is_repeatable(&base)? {
            return Ok((plan, done));
        }
        let input = once(Arc::unwrap_or_clone(base), self.names);
        let mut extended = Extended::new(input, self.names);
        let done = work(&mut extended)?;
        Ok((extended.plan, done))
    }

    /// Joins the subqueries of the expressions of a node to its input.
    fn expressions(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let outputs = node.schema().columns();
        let input = match &node {
            LogicalPlan::Sort(sort) => sortable((*sort.input).clone(), &sort.expr)?,
            other => match other.inputs().first() {
                Some(input) => (*input).clone(),
                None => return Ok(node),
            },
        };
        let own = node.expressions();
        let names = match &node {
            // Each expression makes an output column.
            LogicalPlan::Projection(_) => outputs.clone(),
            _ => Vec::new(),
        };
        let (input, exprs) = self.extended(input, &own, |extended| {
            let mut exprs = Vec::with_capacity(own.len());
            for (at, expr) in own.iter().enumerate() {
                let rewritten = extended.expression(expr.clone())?;
                exprs.push(match names.get(at) {
                    Some(output) if has_subquery(expr) => named(rewritten, output),
                    _ => rewritten,
                });
            }
            Ok(exprs)
        })?;
        let rewritten = match node {
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
                self::renamed(node, exprs, input, &outputs)?
            }
            node => node.with_new_exprs(exprs, vec![input])?,
        };
        if rewritten.schema().columns() == outputs {
            return Ok(rewritten);
        }
        only(rewritten, outputs)
    }

    fn values(&mut self, values: Values) -> Result<LogicalPlan> {
        let schema = Arc::clone(&values.schema);
        let mut rows = Vec::with_capacity(values.values.len());
        for row in values.values {
            let one = LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: true,
                schema: Arc::new(datafusion::common::DFSchema::empty()),
            });
            let mut extended = Extended::new(one, self.names);
            let mut exprs = Vec::with_capacity(row.len());
            for (cell, column) in row.into_iter().zip(schema.columns()) {
                exprs.push(named(extended.expression(cell)?, &column));
            }
            let row = Projection::try_new(exprs, Arc::new(extended.plan))?;
            rows.push(Arc::new(LogicalPlan::Projection(row)));
        }
        match rows.len() {
            1 => Ok(rows
                .into_iter()
                .next()
                .map_or(empty(schema), Arc::unwrap_or_clone)),
            _ => Ok(LogicalPlan::Union(Union { inputs: rows, schema })),
        }
    }

    fn join(&mut self, join: Join) -> Result<LogicalPlan> {
        let outputs = join.schema.columns();
        let conditions = join
            .filter
            .map(split_conjunction_owned)
            .unwrap_or_default()
            .into_iter();
        let (with, without): (Vec<_>, Vec<_>) = conditions.partition(has_subquery);
        if join
            .on
            .iter()
            .any(|(left, right)| has_subquery(left) || has_subquery(right))
        {
            return Err(unsupported("a subquery as a key of a join", "write it in WHERE"));
        }
        if join.join_type == JoinType::Inner {
            let joined = Join::try_new(
                join.left,
                join.right,
                join.on,
                conjunction(without),
                JoinType::Inner,
                join.join_constraint,
                join.null_equality,
                false,
            )?;
            let Some(predicate) = conjunction(with) else {
                return Ok(LogicalPlan::Join(joined));
            };
            return self.filter(Filter::try_new(predicate, Arc::new(LogicalPlan::Join(joined)))?);
        }
        // A subquery over one side alone becomes columns of that side.
        let (left_schema, right_schema) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
        let mut left = Extended::new(Arc::unwrap_or_clone(join.left), self.names);
        let mut on_left = Vec::new();
        let mut others = Vec::new();
        for condition in with {
            match replaced_over(condition, &left_schema, &right_schema, &mut left)? {
                (true, condition) => on_left.push(condition),
                (false, condition) => others.push(condition),
            }
        }
        let left = left.plan;
        let mut right = Extended::new(Arc::unwrap_or_clone(join.right), self.names);
        let mut on_right = Vec::new();
        let mut on_both = Vec::new();
        for condition in others {
            match replaced_over(condition, &right_schema, &left_schema, &mut right)? {
                (true, condition) => on_right.push(condition),
                (false, condition) => on_both.push(condition),
            }
        }
        let (mut left, mut right) = (left, right.plan);
        if !on_both.is_empty() {
            if !is_repeatable(&left)? {
                left = once(left, self.names);
            }
            if !is_repeatable(&right)? {
                right = once(right, self.names);
            }
        }
        let on_both = match join.join_type {
            _ if on_both.is_empty() => Vec::new(),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => {
                let (with_pairs, conditions) = meet_conditions(self, &left, right, on_both)?;
                right = with_pairs;
                conditions
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => {
                let (with_pairs, conditions) = meet_conditions(self, &right, left, on_both)?;
                left = with_pairs;
                conditions
            }
            _ => {
                return Err(unsupported(
                    "a subquery in ON of a full join that refers to both sides",
                    "write the join as the UNION ALL of a left join and of the rows without a partner",
                ));
            }
        };
        let filter = conjunction(without.into_iter().chain(on_left).chain(on_right).chain(on_both));
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            join.on,
            filter,
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        only(LogicalPlan::Join(joined), outputs)
    }
}

/// Adds columns below a projection to it that subqueries in ORDER BY refer to.
fn sortable(input: LogicalPlan, keys: &[SortExpr]) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = &input else {
        return Ok(input);
    };
    let (within, below) = (
        OuterScope::new(&projection.schema),
        OuterScope::new(projection.input.schema()),
    );
    let mut added: Vec<Expr> = Vec::new();
    for plan in keys.iter().flat_map(|key| subplans(&key.expr)) {
        for column in outer_columns(&plan)? {
            if within.resolve(&column).is_none()
                && let Some(column) = below.resolve(&column)
                && !added.contains(&Expr::Column(column.clone()))
            {
                added.push(Expr::Column(column));
            }
        }
    }
    if added.is_empty() {
        return Ok(input);
    }
    let exprs = projection.expr.iter().cloned().chain(added).collect();
    let wider = Projection::try_new(exprs, Arc::clone(&projection.input))?;
    Ok(LogicalPlan::Projection(wider))
}

/// Returns the plans of the subqueries of an expression.
fn subplans(expr: &Expr) -> Vec<LogicalPlan> {
    let mut plans = Vec::new();
    let _ = expr.apply(|expr| {
        plans.extend(subplan(expr).cloned());
        Ok(TreeNodeRecursion::Continue)
    });
    plans
}

/// Returns the columns of outer queries that a plan and its subqueries refer to.
fn outer_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    columns.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(columns)
}

/// Replaces the subqueries of a condition of an outer join if they need one side alone; returns whether they
/// do.
fn replaced_over(
    condition: Expr,
    side: &DFSchemaRef,
    other: &DFSchemaRef,
    extended: &mut Extended<'_>,
) -> Result<(bool, Expr)> {
    let other = OuterScope::new(other);
    let mut over_side = true;
    condition.apply(|expr| {
        if let Some(plan) = subplan(expr) {
            let operand = match expr {
                Expr::InSubquery(within) => columns_of(&within.expr),
                Expr::SetComparison(comparison) => columns_of(&comparison.expr),
                _ => Vec::new(),
            };
            let operand = operand.iter().all(|column| side.has_column(column));
            over_side &= operand && !refers_to(plan, other)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if over_side {
        Ok((true, extended.expression(condition)?))
    } else {
        Ok((false, condition))
    }
}

/// Returns true if a plan or one of its subqueries refers to a scope.
fn refers_to(plan: &LogicalPlan, scope: OuterScope<'_>) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = found || scope.is_used_by(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// Gives the outputs of an aggregate or window of rewritten expressions the names that they had.
fn renamed(
    node: LogicalPlan,
    exprs: Vec<Expr>,
    input: LogicalPlan,
    outputs: &[Column],
) -> Result<LogicalPlan> {
    let added = input.schema().fields().len();
    let is_window = matches!(node, LogicalPlan::Window(_));
    let before = node
        .inputs()
        .first()
        .map_or(0, |input| input.schema().fields().len());
    let rewritten = node.with_new_exprs(exprs, vec![input])?;
    // The columns of its input come first in a window, those that were added among them.
    let columns = rewritten.schema().columns();
    let kept = columns
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !is_window || *at < before || *at >= added);
    let exprs = kept
        .zip(outputs)
        .map(|((_, column), output)| named(Expr::Column(column), output));
    let exprs = exprs.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        exprs,
        Arc::new(rewritten),
    )?))
}

/// Returns the plan with these columns alone.
pub(super) fn only(plan: LogicalPlan, columns: Vec<Column>) -> Result<LogicalPlan> {
    if plan.schema().columns() == columns {
        return Ok(plan);
    }
    let exprs = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        exprs,
        Arc::new(plan),
    )?))
}

fn empty(schema: DFSchemaRef) -> LogicalPlan {
    LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema,
    })
}

/// Refuses aggregates of nothing but outer columns: by the standard they belong to the outer query.
fn refuse_outer_aggregates(node: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Aggregate(aggregate) = node else {
        return Ok(());
    };
    for expr in &aggregate.aggr_expr {
        expr.apply(|expr| {
            if let Expr::AggregateFunction(AggregateFunction { params, .. }) = expr {
                let outer = params.args.iter().any(Expr::contains_outer);
                let own = params.args.iter().any(|arg| !columns_of(arg).is_empty());
                if outer && !own {
                    return Err(unsupported(
                        &format!("{expr} in a subquery, an aggregate of columns of the query around it"),
                        "compute it in that query, in a subquery in its FROM clause",
                    ));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(())
}
