//! What a star query consists of: recognised from an aggregate.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use halocline_columns::CodePredicate;

use super::aggregates::Aggregates;
use super::arms::{Arm, Arms};
use super::fact::Fact;
use super::flat::Flat;
use crate::catalog::OpenTable;
use crate::plan::PoolTable;

/// A star query.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) fact: Arc<OpenTable>,
    /// The fact table's own conditions.
    pub(super) filters: Vec<Expr>,
    /// The same on codes, by segment.
    pub(super) conditions: Vec<Vec<(usize, CodePredicate)>>,
    pub(super) arms: Vec<Arm>,
    /// For each expression that is grouped by: which arm, and which of its attributes.
    pub(super) groups: Vec<(usize, usize)>,
    pub(super) aggregates: Aggregates,
}

impl Shape {
    /// Recognises a star query; none if it is another one, or not understood to the last detail.
    pub(super) fn of(aggregate: &Aggregate) -> Option<Shape> {
        if has_subqueries(&aggregate.input) {
            return None;
        }
        let flat = Flat::of(&aggregate.input);
        let fact = Fact::of(&flat)?;
        let mut arms = Arms::of(&flat, &fact)?;
        let mut groups = Vec::with_capacity(aggregate.group_expr.len());
        for expr in &aggregate.group_expr {
            groups.push(arms.attribute(flat.resolve(expr.clone().unalias())?)?);
        }
        let mut aggregates = Aggregates::default();
        let fields =
            &aggregate.schema.fields()[aggregate.schema.fields().len() - aggregate.aggr_expr.len()..];
        for (expr, field) in aggregate.aggr_expr.iter().zip(fields) {
            let expr = flat.resolve(expr.clone().unalias())?;
            let of_fact = flat.parts_of(&expr)?.iter().all(|part| *part == fact.part);
            if !of_fact || !aggregates.add(&expr, field.data_type(), &fact.open) {
                return None;
            }
        }
        let (arms, filters) = arms.finish()?;
        if arms.is_empty() || !fact.is_readable(&arms, &aggregates) {
            return None;
        }
        Some(Shape {
            conditions: PoolTable::conditions(&fact.open, &filters)?,
            fact: fact.open,
            filters,
            arms,
            groups,
            aggregates,
        })
    }
}

/// Whether an expression of a plan has a query in it, whose answer DataFusion hands to the plan that it belongs to.
fn has_subqueries(plan: &LogicalPlan) -> bool {
    let within = |expr: &Expr| {
        expr.exists(|node| {
            Ok(matches!(
                node,
                Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::OuterReferenceColumn(..)
            ))
        })
    };
    let found = plan.exists(|node| Ok(node.expressions().iter().any(|expr| within(expr).unwrap_or(true))));
    found.unwrap_or(true)
}
