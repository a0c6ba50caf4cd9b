//! Pushes the domain of a dependent join down into the plan of a subquery.
//!
//! The result has the output columns of the plan, and for each attribute of the domain a column that
//! represents it: for each value of the attributes, the rows with that value are what the subquery returns
//! for it. It may have rows for values that are not in the domain, which the join with the outer plan drops.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinType, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionDefinition};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, ExprSchemable, Filter, Limit, LogicalPlan, Projection, SortExpr,
    SubqueryAlias, Union, Window, WindowFrame, lit,
};

use super::correlation::{by_output, by_position, substitute};
use super::domain::Domain;
use super::names::FreshNames;
use super::rule::unsupported;

/// An expression of a plan that conditions above it equate with an attribute.
#[derive(Debug, Clone)]
pub(super) struct Equated {
    pub(super) expr: Expr,
    /// NULL equals nothing.
    pub(super) strict: bool,
}

/// For each attribute, the expressions that equal it.
pub(super) type Equalities = Vec<Vec<Equated>>;

/// A plan that has the attributes of the domain among its columns.
#[derive(Debug)]
pub(super) struct Pushed {
    pub(super) plan: LogicalPlan,
    /// The column that represents each attribute.
    pub(super) representatives: Vec<Column>,
    /// For each attribute, whether rows in which it is NULL have no partner in the outer plan.
    pub(super) strict: Vec<bool>,
}

/// Pushes one domain into plans.
pub(super) struct PushDown<'a> {
    pub(super) domain: &'a Domain,
    pub(super) names: &'a mut FreshNames,
}

impl PushDown<'_> {
    /// Pushes the domain into a plan.
    ///
    /// # Errors
    /// The plan has a node that a domain cannot be pushed into.
    pub(super) fn plan(&mut self, plan: LogicalPlan, equalities: &Equalities) -> Result<Pushed> {
        if !self.domain.scope().is_used_within(&plan)? {
            return self.independent(plan, equalities);
        }
        match plan {
            LogicalPlan::Projection(projection) => self.projection(projection, equalities),
            LogicalPlan::Filter(filter) => self.filter(filter, equalities),
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias, equalities),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, equalities),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let mut pushed = self.plan(Arc::unwrap_or_clone(input), equalities)?;
                pushed.plan = LogicalPlan::Distinct(Distinct::All(Arc::new(pushed.plan)));
                Ok(pushed)
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct),
            LogicalPlan::Sort(sort) => {
                if let Some(fetch) = sort.fetch {
                    return self.limited(Arc::unwrap_or_clone(sort.input), sort.expr, 0, Some(fetch));
                }
                let pushed = self.plan(Arc::unwrap_or_clone(sort.input), equalities)?;
                let expr = sort.expr.into_iter().map(|key| {
                    let expr = self.domain.replace(key.expr, &pushed.representatives)?;
                    Ok(SortExpr { expr, ..key })
                });
                let sort = datafusion::logical_expr::Sort {
                    expr: expr.collect::<Result<_>>()?,
                    input: Arc::new(pushed.plan),
                    fetch: None,
                };
                Ok(Pushed {
                    plan: LogicalPlan::Sort(sort),
                    ..pushed
                })
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Window(window) => self.window(window, equalities),
            LogicalPlan::Join(join) => self.join(join, equalities),
            LogicalPlan::Union(union) => self.union(union, equalities),
            LogicalPlan::RecursiveQuery(_) => Err(unsupported(
                "a recursive query that refers to columns of the query around it",
                "join with its result",
            )),
            LogicalPlan::Unnest(_) => Err(unsupported(
                "unnest of a column of the query around it",
                "write unnest in the SELECT list of that query",
            )),
            other => Err(unsupported(
                &format!(
                    "a subquery with columns of the query around it in {}",
                    other.display()
                ),
                "write it as a join",
            )),
        }
    }

    /// Adds the attributes to a plan that does not depend on them.
    fn independent(&mut self, plan: LogicalPlan, equalities: &Equalities) -> Result<Pushed> {
        if let Some(pushed) = self.substituted(&plan, equalities)? {
            return Ok(pushed);
        }
        let domain = self.domain.instance(self.names)?;
        let strict = self.domain.attributes.iter().map(|attribute| !attribute.nullable);
        // The conditions that equate attributes with columns of the plan are in a filter above, from where
        // they get into the join.
        let join = super::join_conditions::cross(domain.plan, plan)?;
        Ok(Pushed {
            plan: join,
            representatives: domain.columns,
            strict: strict.collect(),
        })
    }

    /// Represents each attribute by an expression that equals it; `None` unless all have one.
    fn substituted(&mut self, plan: &LogicalPlan, equalities: &Equalities) -> Result<Option<Pushed>> {
        let mut chosen = Vec::with_capacity(self.domain.attributes.len());
        for (at, candidates) in equalities.iter().enumerate() {
            let wanted = self.domain.data_type(at)?;
            let fits = |candidate: &&Equated| {
                candidate
                    .expr
                    .get_type(plan.schema())
                    .is_ok_and(|found| found == wanted)
            };
            // One that is a column adds nothing to the plan.
            let mut fitting: Vec<&Equated> = candidates.iter().filter(fits).collect();
            fitting.sort_by_key(|candidate| !matches!(candidate.expr, Expr::Column(_)));
            match fitting.first() {
                Some(candidate) => chosen.push((*candidate).clone()),
                None => return Ok(None),
            }
        }
        if chosen.len() < self.domain.attributes.len() {
            return Ok(None);
        }
        let strict = chosen.iter().map(|candidate| candidate.strict).collect();
        let (plan, representatives) = self.with_columns(
            plan.clone(),
            chosen.into_iter().map(|candidate| candidate.expr).collect(),
        )?;
        Ok(Some(Pushed {
            plan,
            representatives,
            strict,
        }))
    }

    /// Adds expressions to the columns of a plan, and returns the columns that have their values.
    pub(super) fn with_columns(
        &mut self,
        plan: LogicalPlan,
        exprs: Vec<Expr>,
    ) -> Result<(LogicalPlan, Vec<Column>)> {
        let mut outputs: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let mut columns = Vec::with_capacity(exprs.len());
        let width = outputs.len();
        for expr in exprs {
            columns.push(match expr {
                Expr::Column(column) => column,
                other => {
                    let column = self.names.column();
                    outputs.push(other.alias(column.name()));
                    column
                }
            });
        }
        if outputs.len() == width {
            return Ok((plan, columns));
        }
        let projection = Projection::try_new(outputs, Arc::new(plan))?;
        Ok((LogicalPlan::Projection(projection), columns))
    }

    fn projection(&mut self, projection: Projection, equalities: &Equalities) -> Result<Pushed> {
        let outputs = by_output(&projection.schema, &projection.expr);
        let below = mapped(equalities, &outputs)?;
        let pushed = self.plan(Arc::unwrap_or_clone(projection.input), &below)?;
        let mut exprs = Vec::with_capacity(projection.expr.len() + pushed.representatives.len());
        for (expr, output) in projection.expr.into_iter().zip(projection.schema.columns()) {
            exprs.push(named(
                self.domain.replace(expr, &pushed.representatives)?,
                &output,
            ));
        }
        let mut representatives = Vec::with_capacity(pushed.representatives.len());
        for column in &pushed.representatives {
            let passed = exprs
                .iter()
                .any(|expr| matches!(expr, Expr::Column(other) if other == column));
            if passed {
                representatives.push(column.clone());
                continue;
            }
            let fresh = self.names.column();
            exprs.push(Expr::Column(column.clone()).alias(fresh.name()));
            representatives.push(fresh);
        }
        let projection = Projection::try_new(exprs, Arc::new(pushed.plan))?;
        Ok(Pushed {
            plan: LogicalPlan::Projection(projection),
            representatives,
            strict: pushed.strict,
        })
    }

    fn filter(&mut self, filter: Filter, equalities: &Equalities) -> Result<Pushed> {
        let conditions = split_conjunction_owned(filter.predicate);
        let mut below = equalities.clone();
        for condition in &conditions {
            if let Some((at, expr, strict)) = self.domain.equated(condition)
                && let Some(candidates) = below.get_mut(at)
            {
                candidates.push(Equated { expr, strict });
            }
        }
        let pushed = self.plan(Arc::unwrap_or_clone(filter.input), &below)?;
        let conditions = self.conditions(conditions, &pushed)?;
        Ok(Pushed {
            plan: filtered(pushed.plan, conditions)?,
            ..pushed
        })
    }

    /// Replaces the attributes in conditions. One that equates an expression with itself remains as a test
    /// for NULL, if any.
    pub(super) fn conditions(&self, conditions: Vec<Expr>, pushed: &Pushed) -> Result<Vec<Expr>> {
        let mut replaced = Vec::with_capacity(conditions.len());
        for condition in conditions {
            let equated = self.domain.equated(&condition);
            if let Some((at, Expr::Column(column), strict)) = equated
                && pushed.representatives.get(at) == Some(&column)
            {
                let column = Expr::Column(column);
                if strict && column.nullable(pushed.plan.schema())? {
                    replaced.push(column.is_not_null());
                }
                continue;
            }
            replaced.push(self.domain.replace(condition, &pushed.representatives)?);
        }
        Ok(replaced)
    }

    fn alias(&mut self, alias: SubqueryAlias, equalities: &Equalities) -> Result<Pushed> {
        let input = Arc::unwrap_or_clone(alias.input);
        let before: Vec<Column> = input.schema().columns();
        let below = mapped(equalities, &by_position(&alias.schema, input.schema()))?;
        let pushed = self.plan(input, &below)?;
        // The alias makes all columns its own, whose names have to be unique then.
        let mut outputs: Vec<Expr> = before.iter().cloned().map(Expr::Column).collect();
        let mut representatives = Vec::with_capacity(pushed.representatives.len());
        for column in &pushed.representatives {
            match before.iter().position(|other| other == column) {
                Some(at) => representatives.push(Column::from(alias.schema.qualified_field(at))),
                None => {
                    let name = self.names.next();
                    outputs.push(Expr::Column(column.clone()).alias(&name));
                    representatives.push(Column::new(Some(alias.alias.clone()), name));
                }
            }
        }
        let input = Projection::try_new(outputs, Arc::new(pushed.plan))?;
        let aliased = SubqueryAlias::try_new(Arc::new(LogicalPlan::Projection(input)), alias.alias)?;
        Ok(Pushed {
            plan: LogicalPlan::SubqueryAlias(aliased),
            representatives,
            strict: pushed.strict,
        })
    }

    fn distinct_on(&mut self, distinct: DistinctOn) -> Result<Pushed> {
        let DistinctOn {
            on_expr,
            select_expr,
            sort_expr,
            input,
            schema,
        } = distinct;
        let pushed = self.plan(Arc::unwrap_or_clone(input), &self.none())?;
        let columns = || pushed.representatives.iter().cloned().map(Expr::Column);
        let replace = |expr: Expr| self.domain.replace(expr, &pushed.representatives);
        let on: Vec<Expr> = on_expr.into_iter().map(replace).collect::<Result<_>>()?;
        let selected = select_expr.into_iter().zip(schema.columns());
        let mut select: Vec<Expr> = selected
            .map(|(expr, output)| Ok(named(replace(expr)?, &output)))
            .collect::<Result<_>>()?;
        let mut representatives = Vec::with_capacity(pushed.representatives.len());
        for column in columns() {
            let fresh = self.names.column();
            select.push(column.alias(fresh.name()));
            representatives.push(fresh);
        }
        let sort = sort_expr.map(|keys| {
            let first = columns().map(|column| column.sort(true, false)).map(Ok);
            let keys = keys.into_iter().map(|key| {
                let expr = self.domain.replace(key.expr, &pushed.representatives)?;
                Ok(SortExpr { expr, ..key })
            });
            first.chain(keys).collect::<Result<Vec<SortExpr>>>()
        });
        let on = columns().chain(on).collect();
        let distinct = DistinctOn::try_new(on, select, sort.transpose()?, Arc::new(pushed.plan))?;
        Ok(Pushed {
            plan: LogicalPlan::Distinct(Distinct::On(distinct)),
            representatives,
            strict: pushed.strict,
        })
    }

    fn limit(&mut self, limit: Limit) -> Result<Pushed> {
        let scope = self.domain.scope();
        for expr in [&limit.skip, &limit.fetch].into_iter().flatten() {
            if scope.is_used_by(expr) {
                return Err(outer_limit());
            }
        }
        let (skip, fetch) = literal_limits(&limit)?;
        match Arc::unwrap_or_clone(limit.input) {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                self.limited(Arc::unwrap_or_clone(sort.input), sort.expr, skip, fetch)
            }
            // The order that the limit is about is below.
            LogicalPlan::Projection(projection) => {
                let below = Limit {
                    skip: limit.skip,
                    fetch: limit.fetch,
                    input: projection.input,
                };
                let none = self.none();
                let exprs = projection.expr;
                let above = Projection::try_new(exprs, Arc::new(LogicalPlan::Limit(below)))?;
                self.projection(above, &none)
            }
            input => self.limited(input, Vec::new(), skip, fetch),
        }
    }

    /// Applies LIMIT and OFFSET to the rows for each value of the attributes: numbers them, and keeps those
    /// within the limits.
    fn limited(
        &mut self,
        input: LogicalPlan,
        keys: Vec<SortExpr>,
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Pushed> {
        let outputs = input.schema().columns();
        let pushed = self.plan(input, &self.none())?;
        let keys = keys.into_iter().map(|key| {
            let expr = self.domain.replace(key.expr, &pushed.representatives)?;
            Ok(SortExpr { expr, ..key })
        });
        let keys: Vec<SortExpr> = keys.collect::<Result<_>>()?;
        let number = self.names.column();
        let mut call = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![]);
        call.params.partition_by = pushed.representatives.iter().cloned().map(Expr::Column).collect();
        call.params.window_frame = WindowFrame::new((!keys.is_empty()).then_some(false));
        call.params.order_by = keys;
        let call = Expr::WindowFunction(Box::new(call)).alias(number.name());
        let window = Window::try_new(vec![call], Arc::new(pushed.plan))?;
        let mut conditions = Vec::new();
        let row = Expr::Column(number);
        if skip > 0 {
            conditions.push(row.clone().gt(lit(skip as u64)));
        }
        if let Some(fetch) = fetch {
            conditions.push(row.lt_eq(lit(skip.saturating_add(fetch) as u64)));
        }
        let plan = filtered(LogicalPlan::Window(window), conditions)?;
        let kept = outputs
            .iter()
            .chain(pushed.representatives.iter().filter(|c| !outputs.contains(c)));
        let kept = kept.cloned().map(Expr::Column).collect();
        Ok(Pushed {
            plan: LogicalPlan::Projection(Projection::try_new(kept, Arc::new(plan))?),
            ..pushed
        })
    }

    fn window(&mut self, window: Window, equalities: &Equalities) -> Result<Pushed> {
        // A condition on a column by which all windows are partitioned drops whole partitions.
        let partitioned = |expr: &Expr| {
            window.window_expr.iter().all(|window| match unaliased(window) {
                Expr::WindowFunction(function) => function.params.partition_by.contains(expr),
                _ => false,
            })
        };
        let below = retained(equalities, &partitioned);
        let pushed = self.plan(Arc::unwrap_or_clone(window.input), &below)?;
        let width = window.schema.fields().len() - window.window_expr.len();
        let outputs = window.schema.columns().into_iter().skip(width);
        let exprs = window.window_expr.into_iter().zip(outputs).map(|(expr, output)| {
            let replaced = self.domain.replace(expr, &pushed.representatives)?;
            let partitioned = replaced.transform(|expr| match expr {
                Expr::WindowFunction(mut function) => {
                    for column in &pushed.representatives {
                        let column = Expr::Column(column.clone());
                        if !function.params.partition_by.contains(&column) {
                            function.params.partition_by.push(column);
                        }
                    }
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                other => Ok(Transformed::no(other)),
            });
            Ok(named(partitioned.data()?, &output))
        });
        let exprs = exprs.collect::<Result<_>>()?;
        Ok(Pushed {
            plan: LogicalPlan::Window(Window::try_new(exprs, Arc::new(pushed.plan))?),
            ..pushed
        })
    }

    fn union(&mut self, union: Union, equalities: &Equalities) -> Result<Pushed> {
        let mut strict = vec![true; self.domain.attributes.len()];
        let mut inputs = Vec::with_capacity(union.inputs.len());
        let fresh: Vec<Column> = self
            .domain
            .attributes
            .iter()
            .map(|_| self.names.column())
            .collect();
        for input in union.inputs {
            let outputs = input.schema().columns();
            let below = mapped(equalities, &by_position(&union.schema, input.schema()))?;
            let pushed = self.plan(Arc::unwrap_or_clone(input), &below)?;
            for (all, one) in strict.iter_mut().zip(pushed.strict) {
                *all &= one;
            }
            let mut exprs: Vec<Expr> = outputs.into_iter().map(Expr::Column).collect();
            for (column, fresh) in pushed.representatives.into_iter().zip(&fresh) {
                exprs.push(Expr::Column(column).alias(fresh.name()));
            }
            let input = Projection::try_new(exprs, Arc::new(pushed.plan))?;
            inputs.push(Arc::new(LogicalPlan::Projection(input)));
        }
        let (names, width) = (union.schema.columns(), union.schema.fields().len());
        let union = Union::try_new_with_loose_types(inputs)?;
        let columns = union.schema.columns();
        let mut exprs = Vec::with_capacity(columns.len());
        for (column, name) in columns.iter().zip(&names) {
            exprs.push(named(Expr::Column(column.clone()), name));
        }
        let representatives: Vec<Column> = columns.into_iter().skip(width).collect();
        exprs.extend(representatives.iter().cloned().map(Expr::Column));
        let plan = Projection::try_new(exprs, Arc::new(LogicalPlan::Union(union)))?;
        Ok(Pushed {
            plan: LogicalPlan::Projection(plan),
            representatives,
            strict,
        })
    }

    /// Returns equalities of nothing.
    pub(super) fn none(&self) -> Equalities {
        vec![Vec::new(); self.domain.attributes.len()]
    }
}

/// Gives an expression the name of an output column, unless it has that name.
pub(super) fn named(expr: Expr, output: &Column) -> Expr {
    match &expr {
        Expr::Column(column) if column == output => expr,
        _ => expr
            .unalias()
            .alias_qualified(output.relation.clone(), output.name.clone()),
    }
}

/// Returns equalities about the columns of a plan as those about the columns below it.
pub(super) fn mapped(equalities: &Equalities, by: &HashMap<Column, Expr>) -> Result<Equalities> {
    let each = equalities.iter().map(|candidates| {
        let mut below = Vec::new();
        for candidate in candidates {
            let expr = substitute(candidate.expr.clone(), by)?;
            if !expr.is_volatile() {
                below.push(Equated {
                    expr,
                    strict: candidate.strict,
                });
            }
        }
        Ok(below)
    });
    each.collect()
}

/// Returns the equalities about expressions that are kept.
pub(super) fn retained(equalities: &Equalities, keeps: &dyn Fn(&Expr) -> bool) -> Equalities {
    let each = equalities.iter().map(|candidates| {
        let kept = candidates.iter().filter(|candidate| keeps(&candidate.expr));
        kept.cloned().collect()
    });
    each.collect()
}

/// Returns the plan with a filter of these conditions, if there are any.
pub(super) fn filtered(plan: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(match conjunction(conditions) {
        Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?),
        None => plan,
    })
}

/// Returns the constants of LIMIT and OFFSET.
///
/// # Errors
/// They are no constants.
pub(super) fn literal_limits(limit: &Limit) -> Result<(usize, Option<usize>)> {
    use datafusion::logical_expr::{FetchType, SkipType};
    match (limit.get_skip_type()?, limit.get_fetch_type()?) {
        (SkipType::Literal(skip), FetchType::Literal(fetch)) => Ok((skip, fetch)),
        _ => Err(unsupported(
            "LIMIT or OFFSET of a subquery that is no constant",
            "write a number",
        )),
    }
}

/// Returns the error for a LIMIT or OFFSET that refers to columns of the outer query.
pub(super) fn outer_limit() -> datafusion::error::DataFusionError {
    unsupported(
        "LIMIT or OFFSET by a column of the query around a subquery",
        "number the rows with row_number() OVER (…) and compare the number with the column",
    )
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// Returns true for joins that keep every row of their left side.
pub(super) fn keeps_left(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Left | JoinType::Full)
}
