//! The branches of a star query. A branch is a dimension: a part, or a tree of joined parts of which one is
//! joined to the fact table.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder};
use halocline_catalog::OpenTable;
use halocline_joins::star::MeasureSource;

use super::aggregates::is_whole;
use super::branch::Branch;
use super::fact::{FactTable, pool_table};
use super::fact_group::FactGroup;
use super::join_graph::{JoinGraph, Optional};
use super::key_match::KeyMatch;

/// The source of the values of a grouping expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupSource {
    /// A branch and one of its attributes, by position.
    Attribute(usize, usize),
    /// One of the grouping expressions over the fact table, by position.
    Fact(usize),
}

/// All dimensions of a star query under construction.
pub(super) struct Branches<'a> {
    graph: &'a JoinGraph,
    fact: &'a FactTable,
    /// For each part, the smallest part of its tree of joined parts; the fact table is a tree of its own.
    root: Vec<usize>,
    /// The parts, semi joins with them included.
    parts: Vec<LogicalPlan>,
    builders: Vec<BranchBuilder>,
    /// The columns that measures read of each outer join's other side.
    optional: Vec<Vec<Expr>>,
    /// Conditions on the fact table alone.
    pub(super) own: Vec<Expr>,
}

/// A dimension under construction.
#[derive(Default)]
struct BranchBuilder {
    /// The part that is joined to the fact table, and the root of its tree.
    part: usize,
    root: usize,
    keys: Vec<(usize, Expr)>,
    filters: Vec<Expr>,
    attributes: Vec<Expr>,
    /// Columns that measures read.
    payload: Vec<Expr>,
}

impl<'a> Branches<'a> {
    /// Assigns the parts to branches; `None` if the join graph is no star.
    pub(super) fn from_graph(graph: &'a JoinGraph, fact: &'a FactTable) -> Option<Branches<'a>> {
        let mut branches = Branches {
            graph,
            fact,
            root: (0..graph.parts.len()).collect(),
            parts: graph.parts.clone(),
            builders: Vec::new(),
            optional: vec![Vec::new(); graph.optional.len()],
            own: fact.filters.clone(),
        };
        let mut links = Vec::new();
        let mut filters = graph.filters.clone();
        for (a, b) in &graph.equal {
            match (graph.part_of(a)?, graph.part_of(b)?) {
                (left, right) if graph.is_optional(left) || graph.is_optional(right) => return None,
                (left, right) if left == right => filters.push(a.clone().eq(b.clone())),
                (left, right) if left == fact.part => links.push((a, b, right)),
                (left, right) if right == fact.part => links.push((b, a, left)),
                (left, right) => branches.connect(left, right),
            }
        }
        for (of_fact, key, part) in links {
            branches.link(of_fact, key, part)?;
        }
        let all = (0..graph.parts.len()).filter(|part| *part != fact.part && !graph.is_optional(*part));
        for part in all {
            branches.builder_of(part)?;
        }
        for filter in filters {
            match branches.tree_of(&filter)? {
                root if root == fact.part => branches.own.push(filter),
                root => branches.builder_of(root)?.filters.push(filter),
            }
        }
        Some(branches)
    }

    fn connect(&mut self, a: usize, b: usize) {
        let (one, other) = (self.root[a].min(self.root[b]), self.root[a].max(self.root[b]));
        self.root
            .iter_mut()
            .filter(|root| **root == other)
            .for_each(|root| *root = one);
    }

    /// Records that a part is joined to the fact table; `None` if another part of its tree is as well.
    fn link(&mut self, of_fact: &Expr, key: &Expr, part: usize) -> Option<()> {
        let column = self.fact.key(of_fact)?;
        let root = self.root[part];
        if self.builder_of(root).is_none() {
            self.builders.push(BranchBuilder {
                part,
                root,
                ..BranchBuilder::default()
            });
        }
        let builder = self.builder_of(root)?;
        (builder.part == part).then(|| builder.keys.push((column, key.clone())))
    }

    /// Returns the dimension that a part belongs to.
    fn builder_of(&mut self, part: usize) -> Option<&mut BranchBuilder> {
        let root = self.root[part];
        self.builders.iter_mut().find(|builder| builder.root == root)
    }

    /// Returns the tree that all columns of an expression belong to.
    fn tree_of(&self, expr: &Expr) -> Option<usize> {
        let parts = self.graph.parts_of(expr)?;
        let mut roots = parts.iter().map(|part| self.root[*part]);
        let first = roots.next()?;
        roots.all(|root| root == first).then_some(first)
    }

    /// Returns the source of one of the grouping expressions: an attribute of a dimension, which is added, or
    /// a column of the fact table, which is added to `columns`.
    pub(super) fn group(
        &mut self,
        expr: &Expr,
        all: &[Expr],
        of_fact: &mut Vec<FactGroup>,
    ) -> Option<GroupSource> {
        // Groups by a key together with attributes of its dimension are those of the dimension's rows.
        let is_attribute = match self.key_like(expr) {
            Some((root, _)) => all.iter().any(|other| self.tree_of(other) == Some(root)),
            None => false,
        };
        let group = if is_attribute || self.tree_of(expr)? != self.fact.part {
            None
        } else {
            self.fact.group(expr)
        };
        let Some(group) = group else {
            let (branch, attribute) = self.attribute(expr.clone())?;
            return Some(GroupSource::Attribute(branch, attribute));
        };
        let known = of_fact.iter().position(|other| *other == group);
        Some(GroupSource::Fact(known.unwrap_or_else(|| {
            of_fact.push(group);
            of_fact.len() - 1
        })))
    }

    /// Adds an expression as attribute of a dimension. Returns the positions of the dimension and of the
    /// attribute.
    fn attribute(&mut self, expr: Expr) -> Option<(usize, usize)> {
        let root = self.tree_of(&expr)?;
        let (root, expr) = if root == self.fact.part {
            self.key_like(&expr)?
        } else {
            (root, expr)
        };
        let branch = self.builders.iter().position(|builder| builder.root == root)?;
        let attributes = &mut self.builders[branch].attributes;
        attributes.push(expr);
        Some((branch, attributes.len() - 1))
    }

    /// Returns true if a column is one of the fact table.
    pub(super) fn is_of_fact(&self, column: &Column) -> Option<bool> {
        let part = self.graph.part_of(&Expr::Column(column.clone()))?;
        Some(part == self.fact.part)
    }

    /// Returns the table of a column; `None` if it belongs to a subquery.
    pub(super) fn payload_table(&self, column: &Column) -> Option<Arc<OpenTable>> {
        let part = self.graph.part_of(&Expr::Column(column.clone()))?;
        pool_table(&self.graph.parts[part]).map(|(open, _)| open)
    }

    /// Adds a column of a dimension that measures read.
    pub(super) fn payload(&mut self, column: &Column) -> Option<MeasureSource> {
        let column = Expr::Column(column.clone());
        let root = self.tree_of(&column)?;
        // Outer joins follow the inner ones.
        let position = self.builders.iter().position(|builder| builder.root == root);
        let (probe, payload) = match position {
            Some(probe) => (probe, &mut self.builders[probe].payload),
            None => {
                let mut optional = self.graph.optional.iter();
                let position = optional.position(|optional| optional.part == root)?;
                (self.builders.len() + position, &mut self.optional[position])
            }
        };
        let known = payload.iter().position(|other| *other == column);
        let column = known.unwrap_or_else(|| {
            payload.push(column);
            payload.len() - 1
        });
        Some(MeasureSource::Dimension { probe, column })
    }

    /// Returns the key of a dimension that is joined to a column of the fact table.
    fn key_like(&self, expr: &Expr) -> Option<(usize, Expr)> {
        let Expr::Column(_) = expr else { return None };
        let column = self.fact.key(expr)?;
        let data_type = self.fact.open.table.schema().field(column).data_type();
        self.builders.iter().find_map(|builder| {
            let key = builder.keys.iter().find(|(other, _)| *other == column)?;
            let same = key.1.get_type(self.parts[builder.part].schema()).ok()? == *data_type;
            same.then(|| (builder.root, key.1.clone()))
        })
    }

    /// Returns the dimensions, those of outer joins and then of existence tests at the end, and the
    /// conditions on the fact table.
    pub(super) fn finish(mut self) -> Option<(Vec<Branch>, Vec<Expr>)> {
        let mut existence = Vec::new();
        for exists in &self.graph.exists {
            let mut parts = exists.on.iter().map(|(of_outer, _)| self.graph.part_of(of_outer));
            let part = parts.next()??;
            if !parts.all(|other| other == Some(part)) || self.graph.is_optional(part) {
                return None;
            }
            if part == self.fact.part {
                let keys = exists
                    .on
                    .iter()
                    .map(|(of_fact, key)| Some((self.fact.key(of_fact)?, key.clone())));
                let keys: Vec<(usize, Expr)> = keys.collect::<Option<_>>()?;
                let key_match = match (exists.is_anti, keys.as_slice()) {
                    (false, _) => KeyMatch::Exists,
                    (true, [(column, _)]) => KeyMatch::absence(&self.fact.open, *column)?,
                    (true, _) => return None,
                };
                let branch = self.branch(exists.plan.clone(), keys, Vec::new(), Vec::new())?;
                let on = match key_match {
                    KeyMatch::Absent(..) => format!("NOT EXISTS {}", branch.on),
                    _ => branch.on,
                };
                existence.push(Branch {
                    key_match,
                    on,
                    ..branch
                });
            } else {
                let join = if exists.is_anti {
                    JoinType::LeftAnti
                } else {
                    JoinType::LeftSemi
                };
                let keys = exists.on.iter().cloned().unzip();
                self.parts[part] = LogicalPlanBuilder::from(self.parts[part].clone())
                    .join_with_expr_keys(exists.plan.clone(), join, keys, None)
                    .and_then(LogicalPlanBuilder::build)
                    .ok()?;
            }
        }
        let optional = self.graph.optional.iter().zip(std::mem::take(&mut self.optional));
        let optional = optional.map(|(optional, payload)| self.optional(optional, payload));
        let optional = optional.collect::<Option<Vec<Branch>>>()?;
        let mut branches = Vec::with_capacity(self.builders.len() + optional.len() + existence.len());
        for builder in std::mem::take(&mut self.builders) {
            let most_rows = pool_table(&self.graph.parts[builder.part]).map(|(open, _)| open.live_rows());
            let tree = self.tree(&builder)?;
            let branch = self.branch(tree, builder.keys, builder.attributes, builder.payload)?;
            branches.push(Branch { most_rows, ..branch });
        }
        branches.extend(optional);
        branches.extend(existence);
        Some((branches, self.own))
    }

    /// Returns the dimension of an outer join with the fact table.
    fn optional(&self, optional: &Optional, payload: Vec<Expr>) -> Option<Branch> {
        let keys = optional.on.iter().map(|(of_fact, key)| {
            let is_of_fact = self.graph.part_of(of_fact)? == self.fact.part;
            Some((self.fact.key(of_fact).filter(|_| is_of_fact)?, key.clone()))
        });
        let keys = keys.collect::<Option<Vec<_>>>()?;
        let part = &self.parts[optional.part];
        let branch = self.branch(part.clone(), keys, Vec::new(), payload)?;
        if branch.has_string_keys {
            return None;
        }
        Some(Branch {
            key_match: KeyMatch::Optional,
            most_rows: pool_table(part).map(|(open, _)| open.live_rows()),
            on: format!("{} or none", branch.on),
            ..branch
        })
    }

    /// Returns the plan of a dimension: its parts, joined one after the other and filtered.
    fn tree(&self, builder: &BranchBuilder) -> Option<LogicalPlan> {
        let (several, single): (Vec<&Expr>, Vec<&Expr>) = builder
            .filters
            .iter()
            .partition(|filter| self.graph.part_of(filter).is_none());
        let filtered = |part: usize| {
            let mut plan = LogicalPlanBuilder::from(self.parts[part].clone());
            for filter in single
                .iter()
                .filter(|filter| self.graph.part_of(filter) == Some(part))
            {
                plan = plan.filter((*filter).clone()).ok()?;
            }
            Some(plan)
        };
        let mut joined = vec![builder.part];
        let mut plan = filtered(builder.part)?;
        let edges: Vec<(usize, &Expr, usize, &Expr)> = self
            .graph
            .equal
            .iter()
            .filter_map(|(a, b)| Some((self.graph.part_of(a)?, a, self.graph.part_of(b)?, b)))
            .flat_map(|(left, a, right, b)| [(left, a, right, b), (right, b, left, a)])
            .filter(|(left, _, right, _)| {
                left != right && self.root[*left] == builder.root && self.root[*right] == builder.root
            })
            .collect();
        // The next part is one that a condition connects with those joined so far, so that no join is a cross
        // join.
        while let Some(next) = edges
            .iter()
            .find(|(left, _, right, _)| joined.contains(left) && !joined.contains(right))
            .map(|(_, _, right, _)| *right)
        {
            let of_next = edges
                .iter()
                .filter(|(left, _, right, _)| joined.contains(left) && *right == next);
            let keys: (Vec<Expr>, Vec<Expr>) =
                of_next.map(|(_, a, _, b)| ((*a).clone(), (*b).clone())).unzip();
            let right = filtered(next)?.build().ok()?;
            plan = plan
                .join_with_expr_keys(right, JoinType::Inner, keys, None)
                .ok()?;
            joined.push(next);
        }
        for filter in several {
            plan = plan.filter(filter.clone()).ok()?;
        }
        plan.build().ok()
    }

    fn branch(
        &self,
        plan: LogicalPlan,
        keys: Vec<(usize, Expr)>,
        attributes: Vec<Expr>,
        payload: Vec<Expr>,
    ) -> Option<Branch> {
        let schema = self.fact.open.table.schema();
        let mut on = Vec::with_capacity(keys.len());
        let mut has_string_keys = false;
        for (column, key) in &keys {
            let data_type = key.get_type(plan.schema()).ok()?;
            has_string_keys = keys.len() == 1 && data_type.is_string();
            let is_key = is_whole(&data_type) || has_string_keys && self.fact.has_string_keys(*column);
            is_key.then_some(())?;
            on.push(format!("{} = {key}", schema.field(*column).name()));
        }
        let columns = keys.iter().map(|(column, _)| *column).collect();
        Some(Branch {
            columns,
            has_string_keys,
            payload: payload.len(),
            plan: reduced(plan, keys, attributes, payload).ok()?,
            key_match: KeyMatch::Lookup,
            most_rows: None,
            on: on.join(" AND "),
        })
    }
}

/// Projects a plan to keys, attributes and the columns that measures read.
fn reduced(
    plan: LogicalPlan,
    keys: Vec<(usize, Expr)>,
    attributes: Vec<Expr>,
    payload: Vec<Expr>,
) -> Result<LogicalPlan> {
    let keys = keys.into_iter().enumerate();
    let keys = keys.map(|(number, (_, key))| key.alias(format!("key {number}")));
    let named = attributes.into_iter().enumerate();
    let attributes = named.map(|(number, expr)| expr.alias(format!("attribute {number}")));
    let named = payload.into_iter().enumerate();
    let payload = named.map(|(number, expr)| expr.alias(format!("payload {number}")));
    LogicalPlanBuilder::from(plan)
        .project(keys.chain(attributes).chain(payload))?
        .build()
}
