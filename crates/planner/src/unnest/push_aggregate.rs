//! Pushes a domain into aggregates.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::enumerate_grouping_sets;
use datafusion::logical_expr::{
    Aggregate, Cast, Expr, ExprSchemable, LogicalPlan, Projection, Union, lit, when,
};

use super::correlation::by_output;
use super::join_conditions::{joined, same};
use super::push::{Equalities, PushDown, Pushed, mapped, named, retained};

/// A global aggregate, grouped by the attributes.
pub(super) struct GroupedByDomain {
    pub(super) pushed: Pushed,
    /// For each output column of the aggregate, its value over the groups, if a row has a group.
    pub(super) values: HashMap<Column, Expr>,
}

impl PushDown<'_> {
    /// Groups by the attributes too. An aggregate without groups has a row for each value of the domain.
    ///
    /// # Errors
    /// A domain cannot be pushed into the input.
    pub(super) fn aggregate(&mut self, aggregate: Aggregate, equalities: &Equalities) -> Result<Pushed> {
        let sets = match aggregate.group_expr.as_slice() {
            [] => {
                let outputs = aggregate.schema.columns();
                let grouped = self.global(aggregate)?;
                return self.for_each_value(grouped, &outputs);
            }
            [Expr::GroupingSet(_)] => Some(grouping_sets(&aggregate.group_expr)?),
            _ => None,
        };
        if let Some(sets) = sets {
            if sets.iter().any(Vec::is_empty) {
                return self.with_grand_total(aggregate, sets, equalities);
            }
            return self.grouping_sets(aggregate, sets);
        }
        let keys = by_output(&aggregate.schema, &aggregate.group_expr);
        let width = aggregate.group_expr.len();
        let is_key = |expr: &Expr| {
            super::correlation::columns_of(expr)
                .iter()
                .all(|column| keys.contains_key(column))
        };
        let below = mapped(&retained(equalities, &is_key), &keys)?;
        let outputs = aggregate.schema.columns();
        let pushed = self.plan(Arc::unwrap_or_clone(aggregate.input), &below)?;
        let mut groups = Vec::with_capacity(width + pushed.representatives.len());
        for (expr, output) in aggregate.group_expr.into_iter().zip(&outputs) {
            groups.push(named(self.domain.replace(expr, &pushed.representatives)?, output));
        }
        let mut representatives = Vec::with_capacity(pushed.representatives.len());
        for column in &pushed.representatives {
            let group = Expr::Column(column.clone());
            if !groups.contains(&group) {
                groups.push(group);
            }
            representatives.push(column.clone());
        }
        let aggregates = aggregate.aggr_expr.into_iter().zip(outputs.iter().skip(width));
        let aggregates = aggregates
            .map(|(expr, output)| Ok(named(self.domain.replace(expr, &pushed.representatives)?, output)));
        let aggregates = aggregates.collect::<Result<Vec<_>>>()?;
        let aggregate = Aggregate::try_new(Arc::new(pushed.plan), groups, aggregates)?;
        Ok(Pushed {
            plan: LogicalPlan::Aggregate(aggregate),
            representatives,
            strict: pushed.strict,
        })
    }

    /// Groups an aggregate without groups by the attributes. There is no row for a value that has none in the
    /// input.
    ///
    /// # Errors
    /// A domain cannot be pushed into the input.
    pub(super) fn global(&mut self, aggregate: Aggregate) -> Result<GroupedByDomain> {
        let outputs = aggregate.schema.columns();
        let none = self.none();
        let pushed = self.plan(Arc::unwrap_or_clone(aggregate.input), &none)?;
        let groups = distinct(pushed.representatives.iter().cloned().map(Expr::Column));
        let keys = groups.len();
        let mut aggregates = Vec::with_capacity(aggregate.aggr_expr.len());
        let mut empties = Vec::with_capacity(aggregate.aggr_expr.len());
        for expr in aggregate.aggr_expr {
            empties.push(of_nothing(&expr, &pushed.plan)?);
            let replaced = self.domain.replace(expr.clone(), &pushed.representatives)?;
            aggregates.push(if replaced == expr {
                expr
            } else {
                replaced.unalias().alias(self.names.next())
            });
        }
        let aggregate = Aggregate::try_new(Arc::new(pushed.plan), groups, aggregates)?;
        let mut values = HashMap::new();
        let columns = aggregate.schema.columns().into_iter().skip(keys);
        for ((output, column), empty) in outputs.into_iter().zip(columns).zip(empties) {
            let value = Expr::Column(column);
            let value = if empty.is_null() {
                value
            } else {
                when(value.clone().is_null(), lit(empty)).otherwise(value)?
            };
            values.insert(output, value);
        }
        Ok(GroupedByDomain {
            pushed: Pushed {
                plan: LogicalPlan::Aggregate(aggregate),
                representatives: pushed.representatives,
                strict: pushed.strict,
            },
            values,
        })
    }

    /// Adds the row of values of the domain for which there is no group.
    fn for_each_value(&mut self, grouped: GroupedByDomain, outputs: &[Column]) -> Result<Pushed> {
        let domain = self.domain.instance(self.names)?;
        let GroupedByDomain { pushed, values } = grouped;
        let strict = |at: usize| pushed.strict.get(at).copied().unwrap_or(false);
        let conditions = same(&domain.columns, &pushed.representatives, strict);
        let plan = joined(domain.plan, pushed.plan, JoinType::Left, conditions)?;
        let exprs = outputs.iter().map(|output| {
            let value = values.get(output).cloned();
            named(value.unwrap_or_else(|| Expr::Column(output.clone())), output)
        });
        let exprs = exprs
            .chain(domain.columns.iter().cloned().map(Expr::Column))
            .collect();
        let nullable = self.domain.attributes.iter().map(|attribute| !attribute.nullable);
        Ok(Pushed {
            plan: LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?),
            strict: nullable.collect(),
            representatives: domain.columns,
        })
    }

    /// Adds the attributes to each grouping set.
    fn grouping_sets(&mut self, aggregate: Aggregate, sets: Vec<Vec<Expr>>) -> Result<Pushed> {
        let outputs = aggregate.schema.columns();
        let fields: Vec<_> = aggregate.schema.fields().iter().cloned().collect();
        let width = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let none = self.none();
        let pushed = self.plan(Arc::unwrap_or_clone(aggregate.input), &none)?;
        // Attributes come first, as the bits of the grouping number count from the last expression. They are
        // new columns, as one that is a key itself must not become NULL.
        let columns: Vec<Expr> = pushed.representatives.iter().cloned().map(Expr::Column).collect();
        let mut outer: Vec<Expr> = pushed
            .plan
            .schema()
            .columns()
            .into_iter()
            .map(Expr::Column)
            .collect();
        let mut fresh = Vec::with_capacity(columns.len());
        for column in columns {
            let name = self.names.column();
            outer.push(column.alias(name.name()));
            fresh.push(name);
        }
        let input = LogicalPlan::Projection(Projection::try_new(outer, Arc::new(pushed.plan))?);
        let replace = |expr: Expr| self.domain.replace(expr, &fresh);
        let sets = sets.into_iter().map(|set| {
            let keys = set.into_iter().map(replace);
            let attributes = fresh.iter().cloned().map(Expr::Column).map(Ok);
            attributes.chain(keys).collect::<Result<Vec<_>>>()
        });
        let sets = GroupingSet::GroupingSets(sets.collect::<Result<_>>()?);
        let mut aggregates = Vec::with_capacity(aggregate.aggr_expr.len());
        for (expr, output) in aggregate.aggr_expr.into_iter().zip(outputs.iter().skip(width)) {
            aggregates.push(named(replace(expr)?, output));
        }
        let grouped = Aggregate::try_new(Arc::new(input), vec![Expr::GroupingSet(sets)], aggregates)?;
        let produced = grouped.schema.columns().into_iter().skip(fresh.len());
        let schema = Arc::clone(&grouped.schema);
        let mut exprs = Vec::with_capacity(outputs.len() + fresh.len());
        for ((column, output), field) in produced.zip(&outputs).zip(fields) {
            let column = Expr::Column(column);
            let expr = if column.get_type(&schema)? == *field.data_type() {
                column
            } else {
                // More groups can make the grouping number wider.
                Expr::Cast(Cast::new(Box::new(column), field.data_type().clone()))
            };
            exprs.push(named(expr, output));
        }
        exprs.extend(fresh.iter().cloned().map(Expr::Column));
        let plan = Projection::try_new(exprs, Arc::new(LogicalPlan::Aggregate(grouped)))?;
        Ok(Pushed {
            plan: LogicalPlan::Projection(plan),
            representatives: fresh,
            strict: pushed.strict,
        })
    }

    /// Computes the empty grouping set, which has a row even of nothing, as an aggregate of its own.
    fn with_grand_total(
        &mut self,
        aggregate: Aggregate,
        sets: Vec<Vec<Expr>>,
        equalities: &Equalities,
    ) -> Result<Pushed> {
        let parts = split_grand_total(aggregate, sets)?;
        match parts.len() {
            1 => match parts.into_iter().next() {
                Some(part) => self.plan(part, equalities),
                None => unreachable!("there is one part"),
            },
            _ => {
                let schema = parts.first().map(|part| Arc::clone(part.schema()));
                let inputs: Vec<_> = parts.into_iter().map(Arc::new).collect();
                let mut union = Union::try_new_with_loose_types(inputs)?;
                if let Some(schema) = schema {
                    union.schema = schema;
                }
                self.plan(LogicalPlan::Union(union), equalities)
            }
        }
    }
}

/// Returns each of the expressions once.
pub(super) fn distinct(exprs: impl Iterator<Item = Expr>) -> Vec<Expr> {
    let mut kept: Vec<Expr> = Vec::new();
    for expr in exprs {
        if !kept.contains(&expr) {
            kept.push(expr);
        }
    }
    kept
}

/// Returns the grouping sets of a GROUP BY that has nothing else.
fn grouping_sets(groups: &[Expr]) -> Result<Vec<Vec<Expr>>> {
    // Beside a set of nothing, other forms are written out.
    let nothing = Expr::GroupingSet(GroupingSet::GroupingSets(vec![vec![]]));
    let expanded = enumerate_grouping_sets(groups.iter().cloned().chain([nothing]).collect())?;
    match expanded.into_iter().next() {
        Some(Expr::GroupingSet(GroupingSet::GroupingSets(sets))) => Ok(sets),
        _ => Ok(Vec::new()),
    }
}

/// Returns the value of an aggregate over no rows.
fn of_nothing(expr: &Expr, input: &LogicalPlan) -> Result<ScalarValue> {
    match expr {
        Expr::Alias(alias) => of_nothing(&alias.expr, input),
        Expr::AggregateFunction(function) => {
            let data_type = expr.get_type(input.schema());
            match data_type {
                Ok(data_type) => function.func.default_value(&data_type),
                Err(_) => Ok(ScalarValue::Null),
            }
        }
        _ => Ok(ScalarValue::Null),
    }
}

/// Splits an aggregate with grouping sets, some of which are empty, into one of the other sets and one
/// without groups for each of the empty ones, all with the columns of the first.
fn split_grand_total(aggregate: Aggregate, sets: Vec<Vec<Expr>>) -> Result<Vec<LogicalPlan>> {
    let Aggregate {
        input,
        aggr_expr,
        schema,
        ..
    } = aggregate;
    let outputs = schema.columns();
    let width = outputs.len() - aggr_expr.len();
    let (empty, others): (Vec<_>, Vec<_>) = sets.into_iter().partition(Vec::is_empty);
    let mut parts = Vec::new();
    let named_aggregates: Vec<Expr> = aggr_expr
        .iter()
        .zip(outputs.iter().skip(width))
        .map(|(expr, output)| named(expr.clone(), output))
        .collect();
    if !others.is_empty() {
        let groups = vec![Expr::GroupingSet(GroupingSet::GroupingSets(others))];
        let grouped = Aggregate::try_new(Arc::clone(&input), groups, named_aggregates.clone())?;
        // A key that only the full list had is NULL in all of these sets.
        let produced = Arc::clone(&grouped.schema);
        let plan = Arc::new(LogicalPlan::Aggregate(grouped));
        let mut exprs = Vec::with_capacity(outputs.len());
        for (output, field) in outputs.iter().zip(schema.fields()) {
            let expr = if produced.has_column(output) {
                let column = Expr::Column(output.clone());
                if column.get_type(&produced)? == *field.data_type() {
                    column
                } else {
                    Expr::Cast(Cast::new(Box::new(column), field.data_type().clone()))
                }
            } else {
                lit(ScalarValue::try_from(field.data_type())?)
            };
            exprs.push(named(expr, output));
        }
        parts.push(LogicalPlan::Projection(Projection::try_new(exprs, plan)?));
    }
    for _ in empty {
        let aggregates = if named_aggregates.is_empty() {
            // There has to be something to compute.
            vec![datafusion::functions_aggregate::count::count_udaf().call(vec![lit(1_i64)])]
        } else {
            named_aggregates.clone()
        };
        let total = Aggregate::try_new(Arc::clone(&input), Vec::new(), aggregates)?;
        let plan = Arc::new(LogicalPlan::Aggregate(total));
        let mut exprs = Vec::with_capacity(outputs.len());
        for (at, (output, field)) in outputs.iter().zip(schema.fields()).enumerate() {
            let expr = if at >= width {
                Expr::Column(output.clone())
            } else if at + 1 == width {
                // All keys are missing: every bit of the grouping number is set.
                let all = (1_u64 << (width - 1).min(63)) - 1;
                lit(ScalarValue::UInt64(Some(all)).cast_to(field.data_type())?)
            } else {
                lit(ScalarValue::try_from(field.data_type())?)
            };
            exprs.push(named(expr, output));
        }
        parts.push(LogicalPlan::Projection(Projection::try_new(exprs, plan)?));
    }
    Ok(parts)
}
