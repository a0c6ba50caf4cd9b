//! A tree of joins as a graph: its parts, the equalities between them, and the filters.
//!
//! A subplan of unknown form becomes a single part. Columns of different parts have different names.

use std::collections::{HashMap, HashSet};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, NullEquality};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, SubqueryAlias};

/// A tree of inner, semi, anti and outer joins, flattened.
#[derive(Debug, Default)]
pub(super) struct JoinGraph {
    /// The joined plans.
    pub(super) parts: Vec<LogicalPlan>,
    /// Expressions over columns of the parts that are equal.
    pub(super) equal: Vec<(Expr, Expr)>,
    /// Conditions on columns of the parts.
    pub(super) filters: Vec<Expr>,
    /// The semi and anti joins.
    pub(super) exists: Vec<Exists>,
    /// The outer joins.
    pub(super) optional: Vec<Optional>,
    /// The columns of the whole as expressions over columns of the parts.
    outputs: HashMap<Column, Expr>,
}

/// The other side of a semi or anti join.
#[derive(Debug)]
pub(super) struct Exists {
    pub(super) plan: LogicalPlan,
    /// True for an anti join: rows of the parts have no match.
    pub(super) is_anti: bool,
    /// Expressions over columns of the parts, and of the plan, that are equal.
    pub(super) on: Vec<(Expr, Expr)>,
}

/// The other side of an outer join, which keeps all rows of this one.
#[derive(Debug)]
pub(super) struct Optional {
    /// Its position among the parts.
    pub(super) part: usize,
    /// Expressions over columns of the parts, and of that part, that are equal.
    pub(super) on: Vec<(Expr, Expr)>,
}

impl JoinGraph {
    /// Flattens a plan.
    pub(super) fn from_plan(plan: &LogicalPlan) -> JoinGraph {
        let tree = match plan {
            LogicalPlan::Projection(projection) => {
                let graph = JoinGraph::from_plan(&projection.input);
                let fields = projection.expr.iter().enumerate();
                let outputs = fields.map(|(at, expr)| {
                    let column = Column::from(projection.schema.qualified_field(at));
                    Some((column, graph.resolve(expr.clone().unalias())?))
                });
                let outputs: Option<HashMap<Column, Expr>> = outputs.collect();
                outputs.map(|outputs| JoinGraph { outputs, ..graph })
            }
            LogicalPlan::Filter(filter) => {
                let mut graph = JoinGraph::from_plan(&filter.input);
                graph.resolve(filter.predicate.clone()).map(|predicate| {
                    graph.filters.extend(split_conjunction_owned(predicate));
                    graph
                })
            }
            LogicalPlan::Join(join)
                if join.null_equality == NullEquality::NullEqualsNothing && !join.null_aware =>
            {
                let (left, right) = (&join.left, &join.right);
                match join.join_type {
                    JoinType::Inner => JoinGraph::inner(join),
                    JoinType::Left => JoinGraph::outer(left, right, join, |(a, b)| (a, b)),
                    JoinType::Right => JoinGraph::outer(right, left, join, |(a, b)| (b, a)),
                    JoinType::LeftSemi | JoinType::LeftAnti => {
                        JoinGraph::exists(left, right, join, |(a, b)| (a, b))
                    }
                    JoinType::RightSemi | JoinType::RightAnti => {
                        JoinGraph::exists(right, left, join, |(a, b)| (b, a))
                    }
                    _ => None,
                }
            }
            LogicalPlan::SubqueryAlias(alias) => JoinGraph::alias(alias),
            _ => None,
        };
        tree.unwrap_or_else(|| JoinGraph::part(plan))
    }

    /// Returns a plan as one part.
    fn part(plan: &LogicalPlan) -> JoinGraph {
        let outputs = plan.schema().columns().into_iter();
        JoinGraph {
            outputs: outputs
                .map(|column| (column.clone(), Expr::Column(column)))
                .collect(),
            parts: vec![plan.clone()],
            ..JoinGraph::default()
        }
    }

    fn inner(join: &Join) -> Option<JoinGraph> {
        let (mut left, mut right) = (
            JoinGraph::from_plan(&join.left),
            JoinGraph::from_plan(&join.right),
        );
        if left.has_columns_of(&right) {
            return None;
        }
        (right.optional.iter_mut()).for_each(|optional| optional.part += left.parts.len());
        for (a, b) in &join.on {
            left.equal
                .push((left.resolve(a.clone())?, right.resolve(b.clone())?));
        }
        left.parts.extend(right.parts);
        left.equal.extend(right.equal);
        left.filters.extend(right.filters);
        left.exists.extend(right.exists);
        left.optional.extend(right.optional);
        left.outputs.extend(right.outputs);
        if let Some(filter) = &join.filter {
            let filter = left.resolve(filter.clone())?;
            left.filters.extend(split_conjunction_owned(filter));
        }
        Some(left)
    }

    /// Returns true if a column of another graph has the name of one of this.
    fn has_columns_of(&self, other: &JoinGraph) -> bool {
        let known = |column: Column| self.parts.iter().any(|part| part.schema().has_column(&column));
        let mut parts = other.parts.iter();
        parts.any(|part| part.schema().columns().into_iter().any(known))
    }

    fn outer(
        kept: &LogicalPlan,
        other: &LogicalPlan,
        join: &Join,
        sides: impl Fn((Expr, Expr)) -> (Expr, Expr),
    ) -> Option<JoinGraph> {
        let (mut graph, other) = (JoinGraph::from_plan(kept), JoinGraph::part(other));
        if join.filter.is_some() || join.on.is_empty() || graph.has_columns_of(&other) {
            return None;
        }
        let on = join.on.iter().cloned().map(sides);
        let on = on.map(|(of_kept, of_other)| Some((graph.resolve(of_kept)?, of_other)));
        let on = on.collect::<Option<Vec<_>>>()?;
        graph.optional.push(Optional {
            part: graph.parts.len(),
            on,
        });
        graph.parts.extend(other.parts);
        graph.outputs.extend(other.outputs);
        Some(graph)
    }

    fn exists(
        outer: &LogicalPlan,
        inner: &LogicalPlan,
        join: &Join,
        sides: impl Fn((Expr, Expr)) -> (Expr, Expr),
    ) -> Option<JoinGraph> {
        if join.filter.is_some() {
            return None;
        }
        let mut graph = JoinGraph::from_plan(outer);
        let on = join.on.iter().cloned().map(sides);
        let on = on.map(|(of_outer, of_inner)| Some((graph.resolve(of_outer)?, of_inner)));
        let on = on.collect::<Option<Vec<_>>>().filter(|on| !on.is_empty())?;
        graph.exists.push(Exists {
            plan: inner.clone(),
            is_anti: matches!(join.join_type, JoinType::LeftAnti | JoinType::RightAnti),
            on,
        });
        Some(graph)
    }

    /// Flattens an aliased tree: its parts get names that begin with the alias.
    fn alias(alias: &SubqueryAlias) -> Option<JoinGraph> {
        use LogicalPlan as P;
        if !matches!(
            &*alias.input,
            P::Projection(_) | P::Filter(_) | P::Join(_) | P::SubqueryAlias(_)
        ) {
            return None;
        }
        let graph = JoinGraph::from_plan(&alias.input);
        if !graph.optional.is_empty() {
            return None;
        }
        let name = |part: usize| format!("{}/{part}", alias.alias.table());
        let renamed = |expr: Expr| {
            let mut known = true;
            let renamed = expr.transform(|node| {
                Ok(match node {
                    Expr::Column(column) => match graph.part_with(&column) {
                        Some(part) => {
                            Transformed::yes(Expr::Column(Column::new(Some(name(part)), column.name)))
                        }
                        None => {
                            known = false;
                            Transformed::no(Expr::Column(column))
                        }
                    },
                    other => Transformed::no(other),
                })
            });
            renamed.data().ok().filter(|_| known)
        };
        let fields = 0..alias.schema.fields().len();
        let outputs = fields.map(|at| {
            let inner = Column::from(alias.input.schema().qualified_field(at));
            let outer = Column::from(alias.schema.qualified_field(at));
            Some((outer, renamed(graph.outputs.get(&inner)?.clone())?))
        });
        let outputs = outputs.collect::<Option<_>>()?;
        let pairs = graph.equal.iter().cloned();
        let equal = pairs.map(|(a, b)| Some((renamed(a)?, renamed(b)?)));
        let exists = graph.exists.iter().map(|exists| {
            let on = exists.on.iter().cloned();
            let on = on.map(|(of_outer, of_inner)| Some((renamed(of_outer)?, of_inner)));
            Some(Exists {
                plan: exists.plan.clone(),
                is_anti: exists.is_anti,
                on: on.collect::<Option<_>>()?,
            })
        });
        let parts = graph.parts.iter().enumerate().map(|(number, part)| {
            let names: HashSet<&String> = part.schema().fields().iter().map(|field| field.name()).collect();
            (names.len() == part.schema().fields().len()).then_some(())?;
            let part = SubqueryAlias::try_new(part.clone().into(), name(number)).ok()?;
            Some(LogicalPlan::SubqueryAlias(part))
        });
        Some(JoinGraph {
            equal: equal.collect::<Option<_>>()?,
            filters: graph
                .filters
                .iter()
                .cloned()
                .map(renamed)
                .collect::<Option<_>>()?,
            exists: exists.collect::<Option<_>>()?,
            parts: parts.collect::<Option<_>>()?,
            optional: Vec::new(),
            outputs,
        })
    }

    /// Rewrites an expression over the columns of the whole to columns of the parts; `None` if it is
    /// volatile.
    pub(super) fn resolve(&self, expr: Expr) -> Option<Expr> {
        let mut known = !expr.is_volatile();
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

    /// Returns the parts that an expression refers to, without duplicates; `None` if a column belongs to no
    /// part.
    pub(super) fn parts_of(&self, expr: &Expr) -> Option<Vec<usize>> {
        let columns = expr.column_refs().into_iter();
        let mut parts = columns
            .map(|column| self.part_with(column))
            .collect::<Option<Vec<_>>>()?;
        parts.sort_unstable();
        parts.dedup();
        Some(parts)
    }

    /// Returns the only part that an expression refers to; `None` if there are several or none.
    pub(super) fn part_of(&self, expr: &Expr) -> Option<usize> {
        match self.parts_of(expr)?.as_slice() {
            [part] => Some(*part),
            _ => None,
        }
    }

    /// Returns true if a part is the other side of an outer join.
    pub(super) fn is_optional(&self, part: usize) -> bool {
        self.optional.iter().any(|optional| optional.part == part)
    }

    /// Returns the part that has a column; `None` if several have one of that name.
    fn part_with(&self, column: &Column) -> Option<usize> {
        let parts = self.parts.iter().enumerate();
        let mut parts = parts.filter(|(_, part)| part.schema().has_column(column));
        let (first, _) = parts.next()?;
        parts.next().is_none().then_some(first)
    }
}
