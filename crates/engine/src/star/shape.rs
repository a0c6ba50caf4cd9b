//! The shape of a star query, recognised from an aggregate.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use halocline_columns::CodePredicate;

use super::aggregates::Aggregates;
use super::branches::{Branch, Branches};
use super::fact::FactTable;
use super::join_graph::JoinGraph;
use crate::catalog::OpenTable;
use crate::plan::PoolTable;

/// The shape of a star query.
#[derive(Debug)]
pub(super) struct StarShape {
    pub(super) fact: Arc<OpenTable>,
    /// The fact table's own conditions.
    pub(super) filters: Vec<Expr>,
    /// The same conditions as predicates on codes, per segment; those on strings without codes are part of the
    /// segments.
    pub(super) conditions: Vec<Vec<(usize, CodePredicate)>>,
    pub(super) branches: Vec<Branch>,
    /// For each grouping expression, the branch and the attribute of the branch.
    pub(super) groups: Vec<(usize, usize)>,
    pub(super) aggregates: Aggregates,
}

impl StarShape {
    /// Recognises a star query; none if the query has any part that the star join cannot run.
    pub(super) fn of(aggregate: &Aggregate) -> Option<StarShape> {
        if has_subqueries(&aggregate.input) {
            return None;
        }
        let graph = JoinGraph::of(&aggregate.input);
        let fact = FactTable::of(&graph)?;
        let mut branches = Branches::of(&graph, &fact)?;
        let mut groups = Vec::with_capacity(aggregate.group_expr.len());
        for expr in &aggregate.group_expr {
            groups.push(branches.attribute(graph.resolve(expr.clone().unalias())?)?);
        }
        let mut aggregates = Aggregates::default();
        let fields =
            &aggregate.schema.fields()[aggregate.schema.fields().len() - aggregate.aggr_expr.len()..];
        for (expr, field) in aggregate.aggr_expr.iter().zip(fields) {
            let expr = graph.resolve(expr.clone().unalias())?;
            let of_fact = graph.parts_of(&expr)?.iter().all(|part| *part == fact.part);
            if !of_fact || !aggregates.add(&expr, field.data_type(), &fact.open) {
                return None;
            }
        }
        let (branches, filters) = branches.finish()?;
        if branches.is_empty() || !fact.is_readable(&branches, &aggregates) {
            return None;
        }
        let (fact, conditions) = PoolTable::selection(&fact.open, &filters)?;
        Some(StarShape {
            conditions,
            fact,
            filters,
            branches,
            groups,
            aggregates,
        })
    }
}

/// Returns true if an expression of a plan contains a subquery, whose result DataFusion passes to the plan
/// that contains it.
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
