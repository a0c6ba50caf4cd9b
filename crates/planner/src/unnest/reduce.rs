//! Reduces the other side of a semi, anti or mark join to what decides it.
//!
//! A hash join looks at all partners of a row, which takes long where many rows have few keys. Without
//! further conditions one partner for each key is enough; of a condition `l < r` or `l <> r`, the least and
//! the greatest `r` of each key decide, so that the first partner would be found among them.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, Result, TableReference};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, SubqueryAlias,
    binary_expr,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use halocline_catalog::settings::SessionSettings;
use halocline_sql::semantics;

use super::correlation::columns_of;
use super::push_aggregate::distinct;
use crate::plan_estimate::Estimator;

/// Rows for each distinct key from which on it pays to reduce them.
const ROWS_PER_KEY: f64 = 64.0;
/// Rows below which it does not.
const MIN_ROWS: f64 = 4096.0;

/// The rule.
#[derive(Debug)]
pub struct ReducePartners;

impl OptimizerRule for ReducePartners {
    fn name(&self) -> &'static str {
        "reduce_partners"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let applies = matches!(
            join.join_type,
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
        );
        if !applies || join.null_aware || is_reduced(&join.right) {
            return Ok(Transformed::no(plan));
        }
        let compared = match &join.filter {
            None => None,
            Some(filter) => match compared(filter, join) {
                Some(compared) => Some(compared),
                None => return Ok(Transformed::no(plan)),
            },
        };
        // Without a key, one row is left of what is compared.
        let is_worthwhile = !join.on.is_empty() || compared.is_some();
        let Some(relation) = relation_of(join).filter(|_| is_worthwhile) else {
            return Ok(Transformed::no(plan));
        };
        let options = config.options();
        let Some(settings) = options.extensions.get::<SessionSettings>() else {
            return Ok(Transformed::no(plan));
        };
        let estimator = Estimator { mode: settings.index };
        if !join.on.is_empty() && !has_few_keys(join, estimator).unwrap_or(compared.is_some()) {
            return Ok(Transformed::no(plan));
        }
        reduced(join, compared, &relation).map(Transformed::yes)
    }
}

/// A condition that compares an expression of either side.
struct ComparedSides {
    left: Expr,
    op: Operator,
    right: Expr,
}

/// Returns true for a side that has one row for each key already.
fn is_reduced(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_reduced(&alias.input),
        LogicalPlan::Projection(projection) => is_reduced(&projection.input),
        LogicalPlan::Distinct(_) | LogicalPlan::Aggregate(_) => true,
        _ => false,
    }
}

/// Returns the relation of all columns of the other side.
fn relation_of(join: &Join) -> Option<TableReference> {
    let mut relations = join.right.schema().iter().map(|(relation, _)| relation);
    let first = relations.next()??.clone();
    relations
        .all(|relation| relation == Some(&first))
        .then_some(first)
}

/// Returns the sides of a condition that the least or greatest value of the right one decides.
fn compared(filter: &Expr, join: &Join) -> Option<ComparedSides> {
    use Operator as O;
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else {
        return None;
    };
    if !matches!(op, O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq) || filter.is_volatile() {
        return None;
    }
    let is_of = |expr: &Expr, side: &LogicalPlan| {
        let columns = columns_of(expr);
        !columns.is_empty() && columns.iter().all(|column| side.schema().has_column(column))
    };
    if is_of(left, &join.left) && is_of(right, &join.right) {
        return Some(ComparedSides {
            left: (**left).clone(),
            op: *op,
            right: (**right).clone(),
        });
    }
    (is_of(right, &join.left) && is_of(left, &join.right)).then(|| ComparedSides {
        left: (**right).clone(),
        op: op.swap().unwrap_or(*op),
        right: (**left).clone(),
    })
}

/// Returns true if the other side has many rows for each key; `None` if that is not known. A condition may
/// then have to be tested for all pairs of rows, which is worse than an aggregate that leaves them all.
fn has_few_keys(join: &Join, estimator: Estimator) -> Option<bool> {
    let estimate = estimator.estimate(&join.right);
    if !estimate.is_known {
        return None;
    }
    if estimate.rows < MIN_ROWS {
        return Some(false);
    }
    let schema = join.right.schema();
    let mut keys = 1.0;
    for (_, key) in &join.on {
        let Expr::Column(column) = key else {
            return None;
        };
        let at = schema.maybe_index_of_column(column)?;
        keys *= estimate.columns.get(at)?.distinct + 1.0;
    }
    Some(keys * ROWS_PER_KEY <= estimate.rows)
}

fn reduced(join: &Join, compared: Option<ComparedSides>, relation: &TableReference) -> Result<LogicalPlan> {
    let keys = distinct(join.on.iter().map(|(_, key)| key.clone()));
    let named = |at: usize| format!("{relation}_key_{at}");
    let alias = |plan: LogicalPlan| SubqueryAlias::try_new(Arc::new(plan), relation.clone());
    let (right, filter) = match compared {
        None => {
            let aggregate = Aggregate::try_new(Arc::clone(&join.right), keys.clone(), Vec::new())?;
            let outputs = aggregate.schema.columns().into_iter().enumerate();
            let outputs = outputs
                .map(|(at, column)| Expr::Column(column).alias(named(at)))
                .collect();
            let plan = Projection::try_new(outputs, Arc::new(LogicalPlan::Aggregate(aggregate)))?;
            (alias(LogicalPlan::Projection(plan))?, None)
        }
        Some(ComparedSides { left, op, right }) => {
            use Operator as O;
            let (least, greatest) = (format!("{relation}_least"), format!("{relation}_greatest"));
            let column = |name: &str| Expr::Column(Column::new(Some(relation.clone()), name));
            let filter = match op {
                O::Lt | O::LtEq => binary_expr(left, op, column(&greatest)),
                O::Gt | O::GtEq => binary_expr(left, op, column(&least)),
                _ => {
                    let differs = binary_expr(left.clone(), op, column(&least));
                    differs.or(binary_expr(left, op, column(&greatest)))
                }
            };
            let data_type = right.get_type(join.right.schema())?;
            let aggregates = vec![
                semantics::least(&data_type)
                    .call(vec![right.clone()])
                    .alias(&least),
                semantics::greatest(&data_type).call(vec![right]).alias(&greatest),
            ];
            let aggregate = Aggregate::try_new(Arc::clone(&join.right), keys.clone(), aggregates)?;
            let outputs = aggregate.schema.columns();
            let outputs = outputs.into_iter().enumerate().map(|(at, column)| {
                if at < keys.len() {
                    Expr::Column(column).alias(named(at))
                } else {
                    Expr::Column(column)
                }
            });
            let outputs = outputs.collect();
            let plan = Projection::try_new(outputs, Arc::new(LogicalPlan::Aggregate(aggregate)))?;
            (alias(LogicalPlan::Projection(plan))?, Some(filter))
        }
    };
    let on = join.on.iter().filter_map(|(left, key)| {
        let at = keys.iter().position(|other| other == key)?;
        let key = Column::new(Some(relation.clone()), named(at));
        Some((left.clone(), Expr::Column(key)))
    });
    let join = Join::try_new(
        Arc::clone(&join.left),
        Arc::new(LogicalPlan::SubqueryAlias(right)),
        on.collect(),
        filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    Ok(LogicalPlan::Join(join))
}
