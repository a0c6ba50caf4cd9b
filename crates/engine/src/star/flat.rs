//! A tree of joins as a list of parts, what is equal among them, and what is filtered.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, NullEquality};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan};

/// A tree of inner joins, flattened.
#[derive(Debug, Default)]
pub(super) struct Flat {
    /// What is joined: whatever is no inner join, filter or projection.
    pub(super) parts: Vec<LogicalPlan>,
    /// Columns of two parts that are equal.
    pub(super) equal: Vec<(Column, Column)>,
    /// Conditions on columns of the parts.
    pub(super) filters: Vec<Expr>,
    /// What the columns of the whole are, by columns of the parts.
    outputs: HashMap<Column, Expr>,
}

impl Flat {
    /// Flattens a plan; none if it has a join of another kind.
    pub(super) fn of(plan: &LogicalPlan) -> Option<Flat> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let mut flat = Flat::of(&projection.input)?;
                let mut outputs = HashMap::new();
                for (at, expr) in projection.expr.iter().enumerate() {
                    let column = Column::from(projection.schema.qualified_field(at));
                    outputs.insert(column, flat.resolve(expr.clone().unalias())?);
                }
                flat.outputs = outputs;
                Some(flat)
            }
            LogicalPlan::Filter(filter) => {
                let mut flat = Flat::of(&filter.input)?;
                let predicate = flat.resolve(filter.predicate.clone())?;
                flat.filters.extend(split_conjunction_owned(predicate));
                Some(flat)
            }
            LogicalPlan::Join(join) => {
                let plain = join.join_type == JoinType::Inner
                    && join.filter.is_none()
                    && join.null_equality == NullEquality::NullEqualsNothing;
                if !plain {
                    return None;
                }
                let (mut left, right) = (Flat::of(&join.left)?, Flat::of(&join.right)?);
                for (a, b) in &join.on {
                    let (Expr::Column(a), Expr::Column(b)) =
                        (left.resolve(a.clone())?, right.resolve(b.clone())?)
                    else {
                        return None;
                    };
                    left.equal.push((a, b));
                }
                left.parts.extend(right.parts);
                left.equal.extend(right.equal);
                left.filters.extend(right.filters);
                left.outputs.extend(right.outputs);
                Some(left)
            }
            part => {
                let outputs = part.schema().columns().into_iter();
                Some(Flat {
                    outputs: outputs
                        .map(|column| (column.clone(), Expr::Column(column)))
                        .collect(),
                    parts: vec![part.clone()],
                    ..Flat::default()
                })
            }
        }
    }

    /// An expression over the columns of the whole as one over those of the parts.
    pub(super) fn resolve(&self, expr: Expr) -> Option<Expr> {
        let mut known = true;
        let resolved = expr
            .transform(|node| {
                Ok(match node {
                    Expr::Column(column) => match self.outputs.get(&column) {
                        Some(other) => Transformed::yes(other.clone()),
                        None => {
                            known = false;
                            Transformed::no(Expr::Column(column))
                        }
                    },
                    other => Transformed::no(other),
                })
            })
            .data()
            .ok()?;
        known.then_some(resolved)
    }

    /// The one part that all columns of an expression are of; none if there are several, or no column.
    pub(super) fn part_of(&self, expr: &Expr) -> Option<usize> {
        let mut parts = expr
            .column_refs()
            .into_iter()
            .map(|column| self.part_with(column));
        let first = parts.next()??;
        parts.all(|part| part == Some(first)).then_some(first)
    }

    /// The part that has a column.
    pub(super) fn part_with(&self, column: &Column) -> Option<usize> {
        self.parts
            .iter()
            .position(|part| part.schema().has_column(column))
    }
}
