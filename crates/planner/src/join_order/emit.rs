//! The plan of an order of joins.
//!
//! Invariants: every join has an equality for each class that both sides have members of, so that all members
//! of a class within a plan are equal; a condition is applied by the lowest join that has all of its leaves;
//! a column is left out as soon as nothing above needs it; the result has the columns of the query in their
//! order.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{Column, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Operator, Projection, binary_expr};

use super::graph::{Attachment, AttachmentKind, Class, JoinGraph, JoinTree};
use crate::equi_keys::{self, EquiKey};

/// Builds the plan of an order.
///
/// # Errors
/// DataFusion cannot make an operator.
pub(super) fn plan(graph: &JoinGraph, tree: &JoinTree) -> Result<LogicalPlan> {
    let emitter = Emitter { graph };
    let outputs: HashSet<Column> = graph.schema.columns().into_iter().collect();
    let joined = emitter.tree(tree, &outputs)?;
    let constant = graph.conditions.iter().filter(|condition| condition.leaves == 0);
    let joined = match conjunction(constant.map(|condition| condition.expr.clone())) {
        Some(constant) => LogicalPlan::Filter(Filter::try_new(constant, Arc::new(joined))?),
        None => joined,
    };
    let columns = graph.schema.columns();
    if joined.schema().columns() == columns {
        return Ok(joined);
    }
    let columns = columns.into_iter().map(Expr::Column).collect();
    // Qualifiers and metadata are those that the plans above expect.
    let projection = Projection::try_new_with_schema(columns, Arc::new(joined), Arc::clone(&graph.schema))?;
    Ok(LogicalPlan::Projection(projection))
}

struct Emitter<'g> {
    graph: &'g JoinGraph,
}

impl Emitter<'_> {
    /// Builds a part that has at least the columns of `needed` that it can have.
    fn tree(&self, tree: &JoinTree, needed: &HashSet<Column>) -> Result<LogicalPlan> {
        let (build, probe) = match tree {
            JoinTree::Relation(number) => return self.relation(*number),
            JoinTree::Join(build, probe) => (build, probe),
        };
        let (of_build, of_probe) = (build.relations(), probe.relations());
        let (keys, filter, join_type) = match (self.attached(build), self.attached(probe)) {
            (_, Some(attached)) => {
                let join_type = match attached.kind {
                    AttachmentKind::Semi => JoinType::LeftSemi,
                    AttachmentKind::Anti => JoinType::LeftAnti,
                    AttachmentKind::Outer => JoinType::Left,
                };
                (keys_of(attached), attached.filter.clone(), join_type)
            }
            (Some(attached), None) => {
                let join_type = match attached.kind {
                    AttachmentKind::Semi => JoinType::RightSemi,
                    AttachmentKind::Anti => JoinType::RightAnti,
                    AttachmentKind::Outer => JoinType::Right,
                };
                let keys = keys_of(attached).into_iter().map(EquiKey::swapped);
                (keys.collect(), attached.filter.clone(), join_type)
            }
            (None, None) => (
                self.equalities(of_build, of_probe),
                self.conditions(of_build, of_probe),
                JoinType::Inner,
            ),
        };
        let mut of_inputs = needed.clone();
        let used = keys.iter().flat_map(|key| [&key.left, &key.right]).chain(&filter);
        of_inputs.extend(used.flat_map(|expr| expr.column_refs().into_iter().cloned()));
        let inputs = (
            Arc::new(self.tree(build, &of_inputs)?),
            Arc::new(self.tree(probe, &of_inputs)?),
        );
        let joined = equi_keys::join(inputs, keys, filter, join_type)?;
        let joined = LogicalPlan::Join(joined);
        let columns = joined.schema().columns();
        let left: Vec<Column> = columns
            .iter()
            .filter(|column| needed.contains(column))
            .cloned()
            .collect();
        if left.len() == columns.len() {
            return Ok(joined);
        }
        let left = left.into_iter().map(Expr::Column).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(
            left,
            Arc::new(joined),
        )?))
    }

    /// Builds a relation. A leaf gets the conditions that concern it alone.
    fn relation(&self, number: usize) -> Result<LogicalPlan> {
        let relation = &self.graph.relations[number];
        let own = self.graph.conditions.iter();
        let own = own.filter(|condition| condition.leaves == 1 << number);
        let mut conditions: Vec<Expr> = own.map(|condition| condition.expr.clone()).collect();
        for class in &self.graph.classes {
            let mut members = class.members.iter().filter(|member| member.leaf == number);
            if let Some(first) = members.next() {
                let equal = |other: Expr| binary_expr(first.expr.clone(), equality(class), other);
                conditions.extend(members.map(|other| equal(other.expr.clone())));
            }
        }
        match conjunction(conditions) {
            Some(condition) if relation.attached.is_none() => Ok(LogicalPlan::Filter(Filter::try_new(
                condition,
                Arc::new(relation.plan.clone()),
            )?)),
            _ => Ok(relation.plan.clone()),
        }
    }

    fn attached(&self, tree: &JoinTree) -> Option<&Attachment> {
        match tree {
            JoinTree::Relation(number) => self.graph.relations[*number].attached.as_ref(),
            JoinTree::Join(..) => None,
        }
    }

    /// Returns an equality for each class that both sides have members of.
    fn equalities(&self, left: u64, right: u64) -> Vec<EquiKey> {
        let classes = self.graph.classes.iter();
        let of_class = classes.filter_map(|class| {
            let member = |side: u64| {
                let mut members = class.members.iter();
                members.find(|member| side & 1 << member.leaf != 0)
            };
            Some(EquiKey {
                left: member(left)?.expr.clone(),
                right: member(right)?.expr.clone(),
                null_safe: class.null_safe,
            })
        });
        of_class.collect()
    }

    /// Returns the conditions that the join of two sides is the first to have all leaves of.
    fn conditions(&self, left: u64, right: u64) -> Option<Expr> {
        let conditions = self.graph.conditions.iter().filter(|condition| {
            let within = |side: u64| condition.leaves & !side == 0;
            within(left | right) && !within(left) && !within(right)
        });
        conjunction(conditions.map(|condition| condition.expr.clone()))
    }
}

fn keys_of(attached: &Attachment) -> Vec<EquiKey> {
    EquiKey::from_join(&attached.on, attached.null_equality)
}

/// Returns the operator that compares the members of a class.
fn equality(class: &Class) -> Operator {
    if class.null_safe {
        Operator::IsNotDistinctFrom
    } else {
        Operator::Eq
    }
}
