//! Estimated rows of each part of a join graph.
//!
//! The estimate depends on the relations of the part only, not on the order in which they are joined: the
//! product of their rows, divided by the domain of the keys of each pair of relations along a spanning tree
//! of the equalities, times the selectivity of conditions and of semi joins. The tree takes pairs with large
//! domains first, so that a key of several columns is not split into independent parts.

use std::cell::RefCell;
use std::collections::HashMap;

use datafusion::common::Column;
use halocline_catalog::estimate::{ColumnEstimate, PlanEstimate};
use halocline_scan::estimate::{ColumnLookup, of_expression, selectivity};

use super::graph::{Attachment, AttachmentKind, JoinGraph, Member, Relation};
use crate::plan_estimate::{Estimator, key_domain, semi_selectivity};

/// Estimates of the parts of a graph.
pub(super) struct Cardinality {
    relations: Vec<PlanEstimate>,
    /// Pairs of leaves with equal expressions, those with large domains first.
    edges: Vec<Edge>,
    /// Leaves and selectivity of each condition.
    conditions: Vec<(u64, f64)>,
    /// Number of rows that each attached relation makes of one; `None` for leaves.
    attached: Vec<Option<f64>>,
    classes: usize,
    known: RefCell<HashMap<u64, f64>>,
}

/// Two leaves with equal expressions.
#[derive(Debug)]
struct Edge {
    leaves: (usize, usize),
    /// The keys of both leaves in each class that they share.
    keys: Vec<(usize, ColumnEstimate, ColumnEstimate)>,
    domain: f64,
}

/// The columns of all leaves, and of one more relation.
struct GraphColumns<'g> {
    relations: &'g [Relation],
    estimates: &'g [PlanEstimate],
    also: Option<usize>,
}

impl ColumnLookup for GraphColumns<'_> {
    fn column(&self, column: &Column) -> Option<&ColumnEstimate> {
        let mut relations = self.relations.iter().enumerate();
        relations.find_map(|(number, relation)| {
            let is_seen = relation.attached.is_none() || relation.is_optional() || self.also == Some(number);
            let at = relation.plan.schema().maybe_index_of_column(column);
            at.filter(|_| is_seen)
                .and_then(|at| self.estimates[number].columns.get(at))
        })
    }
}

impl Cardinality {
    /// Estimates the relations of a graph and what joins them; `None` if the size of a relation is not known.
    pub(super) fn estimate(graph: &JoinGraph, estimator: Estimator) -> Option<Self> {
        let relations: Vec<PlanEstimate> = graph
            .relations
            .iter()
            .map(|relation| estimator.estimate(&relation.plan))
            .collect();
        if relations.iter().any(|relation| !relation.is_known) {
            return None;
        }
        let columns = GraphColumns {
            relations: &graph.relations,
            estimates: &relations,
            also: None,
        };
        let conditions = graph.conditions.iter();
        let conditions =
            conditions.map(|condition| (condition.leaves, selectivity(&condition.expr, &columns)));
        let attached = graph.relations.iter().enumerate().map(|(number, relation)| {
            let attached = relation.attached.as_ref()?;
            Some(of_attachment(&columns, number, attached))
        });
        Some(Self {
            conditions: conditions.collect(),
            attached: attached.collect(),
            edges: edges(graph, &columns),
            classes: graph.classes.len(),
            known: RefCell::default(),
            relations,
        })
    }

    /// Estimates the rows of a part, at least 1.
    pub(super) fn rows(&self, part: u64) -> f64 {
        if let Some(rows) = self.known.borrow().get(&part) {
            return *rows;
        }
        let rows = self.compute(part);
        self.known.borrow_mut().insert(part, rows);
        rows
    }

    fn compute(&self, part: u64) -> f64 {
        let within = |number: usize| part & 1 << number != 0;
        // The inner side of a semi join on its own.
        if part.is_power_of_two() {
            return self.relations[part.trailing_zeros() as usize].rows.max(1.0);
        }
        let mut rows = 1.0;
        for (number, relation) in self
            .relations
            .iter()
            .enumerate()
            .filter(|(number, _)| within(*number))
        {
            rows *= self.attached[number].unwrap_or(relation.rows);
        }
        // For each class, the leaves that are known to have equal values, as the smallest of them.
        let mut united = vec![[u8::MAX; 64]; self.classes];
        for edge in &self.edges {
            let (a, b) = edge.leaves;
            if !within(a) || !within(b) {
                continue;
            }
            let is_new = |(class, _, _): &&(usize, ColumnEstimate, ColumnEstimate)| {
                root(&united[*class], a) != root(&united[*class], b)
            };
            let keys: Vec<_> = edge.keys.iter().filter(is_new).collect();
            if keys.is_empty() {
                continue;
            }
            rows /= match keys.len() == edge.keys.len() {
                true => edge.domain,
                false => self.domain(edge.leaves, keys.iter().copied()),
            };
            for class in keys.iter().map(|(class, _, _)| *class).collect::<Vec<_>>() {
                let (a, b) = (root(&united[class], a), root(&united[class], b));
                united[class][a.max(b)] = a.min(b) as u8;
            }
        }
        for (leaves, share) in &self.conditions {
            if leaves & part == *leaves {
                rows *= share;
            }
        }
        rows.max(1.0)
    }

    fn domain<'k>(
        &self,
        (a, b): (usize, usize),
        keys: impl Iterator<Item = &'k (usize, ColumnEstimate, ColumnEstimate)>,
    ) -> f64 {
        domain_of((&self.relations[a], &self.relations[b]), keys)
    }
}

/// Returns the representative of a leaf.
fn root(united: &[u8; 64], mut leaf: usize) -> usize {
    while united[leaf] != u8::MAX {
        leaf = united[leaf].into();
    }
    leaf
}

fn domain_of<'k>(
    (a, b): (&PlanEstimate, &PlanEstimate),
    keys: impl Iterator<Item = &'k (usize, ColumnEstimate, ColumnEstimate)>,
) -> f64 {
    let (of_a, of_b): (Vec<_>, Vec<_>) = keys.map(|(_, a, b)| (a.clone(), b.clone())).unzip();
    key_domain((&of_a, a.base_rows), (&of_b, b.base_rows))
}

fn edges(graph: &JoinGraph, columns: &GraphColumns<'_>) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for (class, members) in graph.classes.iter().map(|class| &class.members).enumerate() {
        let key = |member: &Member| of_expression(&member.expr, columns, columns.estimates[member.leaf].rows);
        for (at, first) in members.iter().enumerate() {
            for second in &members[at + 1..] {
                let (first, second) = match first.leaf <= second.leaf {
                    true => (first, second),
                    false => (second, first),
                };
                let leaves = (first.leaf, second.leaf);
                if leaves.0 == leaves.1 {
                    continue;
                }
                let known = edges.iter_mut().find(|edge| edge.leaves == leaves);
                match known {
                    // A second pair of members of the same class says nothing new.
                    Some(edge) if edge.keys.iter().any(|(known, _, _)| *known == class) => {}
                    Some(edge) => edge.keys.push((class, key(first), key(second))),
                    None => edges.push(Edge {
                        leaves,
                        keys: vec![(class, key(first), key(second))],
                        domain: 1.0,
                    }),
                }
            }
        }
    }
    for edge in &mut edges {
        let (a, b) = edge.leaves;
        edge.domain = domain_of((&columns.estimates[a], &columns.estimates[b]), edge.keys.iter());
    }
    edges.sort_by(|a, b| b.domain.total_cmp(&a.domain));
    edges
}

/// Estimates how many rows a semi, anti or outer join makes of a row.
fn of_attachment(columns: &GraphColumns<'_>, number: usize, attached: &Attachment) -> f64 {
    let all = GraphColumns {
        also: Some(number),
        ..*columns
    };
    let inner = &columns.estimates[number];
    let leaves = || (0..columns.estimates.len()).filter(|leaf| attached.outer & 1 << leaf != 0);
    // The rows of the leaf with most of them bound the combinations of their values.
    let outer = leaves().map(|leaf| &columns.estimates[leaf]);
    let Some(outer) = outer.max_by(|a, b| a.base_rows.total_cmp(&b.base_rows)) else {
        return 1.0;
    };
    let (outer_keys, inner_keys): (Vec<_>, Vec<_>) = attached
        .on
        .iter()
        .map(|(a, b)| {
            (
                of_expression(a, &all, outer.rows),
                of_expression(b, &all, inner.rows),
            )
        })
        .unzip();
    match attached.kind {
        AttachmentKind::Outer => {
            let domain = key_domain((&outer_keys, outer.base_rows), (&inner_keys, inner.base_rows));
            (inner.rows / domain).max(1.0)
        }
        kind => {
            let anti = kind == AttachmentKind::Anti;
            semi_selectivity(&outer_keys, outer, &inner_keys, inner, anti)
        }
    }
}
