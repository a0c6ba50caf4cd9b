//! Gathers what the cost model needs to estimate the rows of each part of a join graph: estimates of its
//! relations, and the keys and conditions that join them.

use datafusion::common::Column;
use halocline_costs::cardinality::{
    ColumnEstimate, Equality, JoinCardinality, PlanEstimate, outer_multiplicity, semi_selectivity,
};
use halocline_scan::estimate::{ColumnLookup, of_expression, selectivity};

use super::graph::{Attachment, AttachmentKind, JoinGraph, Member, Relation};
use crate::plan_estimate::Estimator;

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

/// Estimates the relations of a graph and what joins them; `None` if the size of a relation is not known.
pub(super) fn cardinality(graph: &JoinGraph, estimator: Estimator) -> Option<JoinCardinality> {
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
    let conditions = conditions.map(|condition| (condition.leaves, selectivity(&condition.expr, &columns)));
    let conditions = conditions.collect();
    let attached = graph.relations.iter().enumerate().map(|(number, relation)| {
        let attached = relation.attached.as_ref()?;
        Some(of_attachment(&columns, number, attached))
    });
    let attached = attached.collect();
    let equalities = equalities(graph, &columns);
    let classes = graph.classes.len();
    Some(JoinCardinality::new(
        relations, equalities, conditions, attached, classes,
    ))
}

/// Returns the pairs of leaves with equal expressions, class by class.
fn equalities(graph: &JoinGraph, columns: &GraphColumns<'_>) -> Vec<Equality> {
    let key = |member: &Member| of_expression(&member.expr, columns, columns.estimates[member.leaf].rows);
    let mut equalities = Vec::new();
    for (class, members) in graph.classes.iter().map(|class| &class.members).enumerate() {
        for (at, first) in members.iter().enumerate() {
            for second in &members[at + 1..] {
                let (first, second) = if first.leaf <= second.leaf {
                    (first, second)
                } else {
                    (second, first)
                };
                if first.leaf != second.leaf {
                    equalities.push(Equality {
                        class,
                        relations: (first.leaf, second.leaf),
                        keys: (key(first), key(second)),
                    });
                }
            }
        }
    }
    equalities
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
        AttachmentKind::Outer => outer_multiplicity(&outer_keys, outer, &inner_keys, inner),
        kind => {
            let anti = kind == AttachmentKind::Anti;
            semi_selectivity(&outer_keys, outer, &inner_keys, inner, anti)
        }
    }
}
