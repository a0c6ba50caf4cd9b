//! A subquery as the other side of a semi, anti or mark join: its rows, and the conditions under which a row
//! belongs to one of the outer plan.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};

use super::correlation::{OuterScope, columns_of, substitute};
use super::domain::{Domain, equality, is_outer};
use super::expressions::Extended;
use super::join_conditions::equal;
use super::lift::Lift;
use super::push::PushDown;
use super::push_aggregate::distinct;

/// A condition that equates an expression of the outer plan with one of the subquery.
#[derive(Debug, Clone)]
pub(super) struct KeyPair {
    pub(super) outer: Expr,
    pub(super) inner: Expr,
    /// NULL equals nothing.
    pub(super) strict: bool,
}

/// A subquery that has been made independent of the outer plan.
#[derive(Debug, Clone)]
pub(super) struct Partner {
    /// Its columns have names that the outer plan does not have.
    pub(super) plan: LogicalPlan,
    /// The output columns of the subquery.
    pub(super) outputs: Vec<Column>,
    pub(super) pairs: Vec<KeyPair>,
    /// The other conditions, over columns of both.
    pub(super) residual: Vec<Expr>,
}

/// Aggregates of a partner.
pub(super) struct AggregatedPartner {
    pub(super) plan: LogicalPlan,
    /// The columns that equal the outer sides of the pairs.
    pub(super) keys: Vec<Column>,
    /// The columns of the aggregates.
    pub(super) values: Vec<Column>,
}

impl Partner {
    /// Returns all conditions.
    pub(super) fn conditions(&self) -> Vec<Expr> {
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|pair| equal(pair.outer.clone(), pair.inner.clone(), pair.strict));
        pairs.chain(self.residual.iter().cloned()).collect()
    }

    /// Returns the aggregates of the rows that belong to the same rows of the outer plan.
    ///
    /// # Errors
    /// The plan cannot be built.
    pub(super) fn aggregated(
        &self,
        aggregates: Vec<Expr>,
        extended: &mut Extended<'_>,
    ) -> Result<AggregatedPartner> {
        let groups = distinct(self.pairs.iter().map(|pair| pair.inner.clone()));
        let keys = groups.len();
        let aggregate = Aggregate::try_new(Arc::new(self.plan.clone()), groups.clone(), aggregates)?;
        let (plan, _) = extended.as_relation(LogicalPlan::Aggregate(aggregate))?;
        let mut columns = plan.schema().columns();
        let values = columns.split_off(keys);
        let position = |pair: &KeyPair| groups.iter().position(|group| *group == pair.inner);
        let keys = self
            .pairs
            .iter()
            .filter_map(|pair| columns.get(position(pair)?).cloned());
        let keys = keys.collect();
        Ok(AggregatedPartner { plan, keys, values })
    }
}

impl Extended<'_> {
    /// Makes a subquery independent of the outer plan. With `only_pairs`, all conditions are pairs.
    ///
    /// # Errors
    /// It has a node that the domain cannot be pushed into.
    pub(super) fn partner(&mut self, subquery: LogicalPlan, only_pairs: bool) -> Result<Partner> {
        let outputs = subquery.schema().columns();
        let scope = OuterScope::new(self.base.schema());
        let row = self.row_for(&subquery)?;
        let mut lift = Lift {
            scope,
            names: self.names,
            as_set: true,
        };
        let lifted = match row {
            Some(_) => None,
            None => lift.plan(subquery.clone())?,
        };
        if let Some(lifted) = lifted {
            let (mut pairs, mut residual) = (Vec::new(), Vec::new());
            for condition in lifted.conditions {
                match pair(&condition, scope) {
                    Some((outer, inner, strict)) => pairs.push((outer, inner, strict)),
                    None => residual.push(condition),
                }
            }
            if !only_pairs || residual.is_empty() {
                return self.renamed(lifted.plan, &outputs, pairs, residual);
            }
        }
        let base = Arc::clone(&self.base);
        let domain = Domain::for_subquery(&subquery, &base, row.as_ref())?;
        let mut push = PushDown {
            domain: &domain,
            names: self.names,
        };
        let none = push.none();
        let pushed = push.plan(subquery, &none)?;
        let columns = pushed.representatives.iter().zip(&pushed.strict);
        let pairs = domain
            .attributes
            .iter()
            .zip(columns)
            .map(|(attribute, (column, strict))| {
                let strict = *strict || !attribute.nullable;
                (attribute.referred.clone(), Expr::Column(column.clone()), strict)
            });
        self.renamed(pushed.plan, &outputs, pairs.collect(), Vec::new())
    }

    /// Gives the columns that are needed names that the outer plan does not have.
    fn renamed(
        &mut self,
        plan: LogicalPlan,
        outputs: &[Column],
        pairs: Vec<Sides>,
        residual: Vec<Expr>,
    ) -> Result<Partner> {
        let (plan, pairs) = self.with_names(plan, pairs)?;
        let (plan, by) = self.as_relation(plan)?;
        let base = Arc::clone(&self.base);
        let scope = OuterScope::new(base.schema());
        let bind = |expr: Expr| scope.bind(substitute(expr, &by)?);
        let pairs = pairs.into_iter().map(|(outer, inner, strict)| {
            let (outer, inner) = (bind(outer)?, bind(inner)?);
            Ok(KeyPair { outer, inner, strict })
        });
        let named = |column: &Column| match by.get(column) {
            Some(Expr::Column(column)) => column.clone(),
            _ => column.clone(),
        };
        let (pairs, outputs) = (pairs.collect::<Result<_>>()?, outputs.iter().map(named).collect());
        let residual = residual.into_iter().map(bind).collect::<Result<_>>()?;
        Ok(Partner {
            plan,
            outputs,
            pairs,
            residual,
        })
    }
}

/// The sides of an equality, that of the outer plan first, and whether NULL equals nothing.
type Sides = (Expr, Expr, bool);

impl Extended<'_> {
    /// Computes expressions of the subquery that have the name of another one, as a column and a cast of it
    /// do, in columns of their own.
    fn with_names(&mut self, plan: LogicalPlan, pairs: Vec<Sides>) -> Result<(LogicalPlan, Vec<Sides>)> {
        let mut named: HashMap<String, Expr> = HashMap::new();
        let mut computed: Vec<(Expr, Expr)> = Vec::new();
        let mut renamed = pairs;
        // Columns keep their names.
        for (_, inner, _) in &renamed {
            if let Expr::Column(_) = inner {
                named.insert(inner.schema_name().to_string(), inner.clone());
            }
        }
        for (_, inner, _) in &mut renamed {
            let first = named
                .entry(inner.schema_name().to_string())
                .or_insert_with(|| inner.clone());
            if first == inner {
                continue;
            }
            let known = computed.iter().find(|(expr, _)| expr == inner);
            let column = match known {
                Some((_, column)) => column.clone(),
                None => {
                    let column = Expr::Column(Column::new_unqualified(self.names.next()));
                    computed.push((inner.clone(), column.clone()));
                    column
                }
            };
            *inner = column;
        }
        if computed.is_empty() {
            return Ok((plan, renamed));
        }
        let mut outputs: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        outputs.extend(
            computed
                .into_iter()
                .map(|(expr, column)| expr.alias(column.schema_name().to_string())),
        );
        let plan = Projection::try_new(outputs, Arc::new(plan))?;
        Ok((LogicalPlan::Projection(plan), renamed))
    }
}

/// Returns the sides of a condition that equates an expression of the outer plan with one of the subquery.
fn pair(condition: &Expr, scope: OuterScope<'_>) -> Option<Sides> {
    let (left, right, strict) = equality(condition)?;
    let inner = |expr: &Expr| !scope.is_used_by(expr) && !columns_of(expr).is_empty();
    if is_outer(left, scope) && inner(right) {
        return Some((left.clone(), right.clone(), strict));
    }
    (is_outer(right, scope) && inner(left)).then(|| (right.clone(), left.clone(), strict))
}
