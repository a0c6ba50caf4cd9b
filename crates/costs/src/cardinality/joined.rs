//! Estimated rows of each part of a join graph.
//!
//! The estimate depends on the relations of the part only, not on the order in which they are joined: the
//! product of their rows, divided by the domain of the keys of each pair of relations along a spanning tree
//! of the equalities, times the selectivity of conditions and of semi joins. The tree takes pairs with large
//! domains first, so that a key of several columns is not split into independent parts.
//!
//! Sets of relations are bits of a `u64`. A *class* is a set of expressions that the joins make equal.

use std::cell::RefCell;
use std::collections::HashMap;

use super::column::ColumnEstimate;
use super::keys::key_domain;
use super::rows::PlanEstimate;

/// Two relations with equal expressions.
#[derive(Debug, Clone)]
pub struct Equality {
    /// The class of the expressions.
    pub class: usize,
    /// The relations, the one with the lower number first.
    pub relations: (usize, usize),
    /// The expression of either relation.
    pub keys: (ColumnEstimate, ColumnEstimate),
}

/// The relations of a join graph, and what joins them.
#[derive(Debug, Clone)]
pub struct JoinCardinality {
    relations: Vec<PlanEstimate>,
    /// Pairs of relations with equal expressions, those with large domains first.
    edges: Vec<Edge>,
    conditions: Vec<(u64, f64)>,
    attached: Vec<Option<f64>>,
    classes: usize,
    known: RefCell<HashMap<u64, f64>>,
}

/// All equalities of two relations.
#[derive(Debug, Clone)]
struct Edge {
    relations: (usize, usize),
    /// The keys of both relations in each class that they share.
    keys: Vec<(usize, ColumnEstimate, ColumnEstimate)>,
    domain: f64,
}

impl JoinCardinality {
    /// Creates the estimates of the parts of a graph of at most 64 relations. `conditions` are sets of
    /// relations with the selectivity of a condition on them. `attached` has, for each relation that a semi,
    /// anti or outer join attaches, the number of rows that it makes of one; `None` for others. Classes are
    /// numbered from 0 to `classes`.
    pub fn new(
        relations: Vec<PlanEstimate>,
        equalities: impl IntoIterator<Item = Equality>,
        conditions: Vec<(u64, f64)>,
        attached: Vec<Option<f64>>,
        classes: usize,
    ) -> Self {
        Self {
            edges: edges(&relations, equalities),
            relations,
            conditions,
            attached,
            classes,
            known: RefCell::default(),
        }
    }

    /// Estimates the rows of a part, at least 1. Results are kept.
    pub fn rows(&self, part: u64) -> f64 {
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
        // For each class, the relations that are known to have equal values, as the smallest of them.
        let mut united = vec![[u8::MAX; 64]; self.classes];
        for edge in &self.edges {
            let (a, b) = edge.relations;
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
            rows /= if keys.len() == edge.keys.len() {
                edge.domain
            } else {
                domain(&self.relations, edge.relations, keys.iter().copied())
            };
            for class in keys.iter().map(|(class, _, _)| *class).collect::<Vec<_>>() {
                let (a, b) = (root(&united[class], a), root(&united[class], b));
                united[class][a.max(b)] = a.min(b) as u8;
            }
        }
        for (needed, share) in &self.conditions {
            if needed & part == *needed {
                rows *= share;
            }
        }
        rows.max(1.0)
    }
}

/// Returns the representative of a relation.
fn root(united: &[u8; 64], mut relation: usize) -> usize {
    while united[relation] != u8::MAX {
        relation = united[relation].into();
    }
    relation
}

fn domain<'k>(
    relations: &[PlanEstimate],
    (a, b): (usize, usize),
    keys: impl Iterator<Item = &'k (usize, ColumnEstimate, ColumnEstimate)>,
) -> f64 {
    let (of_a, of_b): (Vec<_>, Vec<_>) = keys.map(|(_, a, b)| (a.clone(), b.clone())).unzip();
    key_domain((&of_a, relations[a].base_rows), (&of_b, relations[b].base_rows))
}

fn edges(relations: &[PlanEstimate], equalities: impl IntoIterator<Item = Equality>) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for equality in equalities {
        let (class, (first, second)) = (equality.class, equality.keys);
        match edges.iter_mut().find(|edge| edge.relations == equality.relations) {
            // A second pair of members of the same class says nothing new.
            Some(edge) if edge.keys.iter().any(|(known, _, _)| *known == class) => {}
            Some(edge) => edge.keys.push((class, first, second)),
            None => edges.push(Edge {
                relations: equality.relations,
                keys: vec![(class, first, second)],
                domain: 1.0,
            }),
        }
    }
    for edge in &mut edges {
        edge.domain = domain(relations, edge.relations, edge.keys.iter());
    }
    edges.sort_by(|a, b| b.domain.total_cmp(&a.domain));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equality(class: usize, relations: (usize, usize), distinct: (f64, f64)) -> Equality {
        Equality {
            class,
            relations,
            keys: (
                ColumnEstimate::with_distinct(distinct.0),
                ColumnEstimate::with_distinct(distinct.1),
            ),
        }
    }

    #[test]
    fn rows_do_not_depend_on_redundant_equalities() {
        let relations = [1000.0, 100.0, 10.0].map(|rows| PlanEstimate::uniform(rows, 1));
        // All three have one key in common, which two equalities already say.
        let equalities = [
            equality(0, (0, 1), (100.0, 100.0)),
            equality(0, (0, 2), (100.0, 10.0)),
            equality(0, (1, 2), (100.0, 10.0)),
        ];
        let conditions = vec![(0b011, 0.5)];
        let joined = JoinCardinality::new(relations.to_vec(), equalities, conditions, vec![None; 3], 1);
        assert_eq!((joined.rows(0b001), joined.rows(0b100)), (1000.0, 10.0));
        assert_eq!((joined.rows(0b011), joined.rows(0b101)), (500.0, 100.0));
        assert_eq!(joined.rows(0b111), 50.0);
        assert_eq!(joined.rows(0b111), 50.0);
    }

    #[test]
    fn attached_relations_multiply_the_rows() {
        let relations = [1000.0, 100.0].map(|rows| PlanEstimate::uniform(rows, 1));
        let attached = vec![None, Some(0.25)];
        let joined = JoinCardinality::new(relations.to_vec(), [], Vec::new(), attached, 0);
        assert_eq!(
            (joined.rows(0b01), joined.rows(0b10), joined.rows(0b11)),
            (1000.0, 100.0, 250.0)
        );
    }
}
