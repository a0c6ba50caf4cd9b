//! The dimensions of a star query: each a part, or a tree of parts that are joined to each other, of which one is joined to the fact table.

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder};

use super::aggregates::is_whole;
use super::fact::{Fact, pool_table};
use super::flat::Flat;

/// A dimension.
#[derive(Debug, Clone)]
pub(super) struct Arm {
    /// The columns of the fact table that hold its keys.
    pub(super) columns: Vec<usize>,
    /// Its keys, then the attributes that are grouped by.
    pub(super) plan: LogicalPlan,
    /// Whether a key may come more than once: its rows are only looked for.
    pub(super) exists: bool,
    /// If it has more rows than these, a key comes twice.
    pub(super) most_rows: Option<u64>,
    /// In words.
    pub(super) on: String,
}

/// Dimensions on their way.
pub(super) struct Arms<'a> {
    flat: &'a Flat,
    fact: &'a Fact,
    /// For each part the least of the parts that it is joined to in some way; the fact table stands alone.
    root: Vec<usize>,
    /// The parts, semi joins with them included.
    parts: Vec<LogicalPlan>,
    drafts: Vec<Draft>,
    /// The fact table's own conditions.
    pub(super) own: Vec<Expr>,
}

/// What is known of a dimension.
#[derive(Default)]
struct Draft {
    /// The part that is joined to the fact table, and the root of its tree.
    part: usize,
    root: usize,
    keys: Vec<(usize, Expr)>,
    filters: Vec<Expr>,
    attributes: Vec<Expr>,
}

impl<'a> Arms<'a> {
    /// Sorts what is joined; none if it is no star.
    pub(super) fn of(flat: &'a Flat, fact: &'a Fact) -> Option<Arms<'a>> {
        let mut arms = Arms {
            flat,
            fact,
            root: (0..flat.parts.len()).collect(),
            parts: flat.parts.clone(),
            drafts: Vec::new(),
            own: fact.filters.clone(),
        };
        let mut links = Vec::new();
        let mut filters = flat.filters.clone();
        for (a, b) in &flat.equal {
            match (flat.part_of(a)?, flat.part_of(b)?) {
                (left, right) if left == right => filters.push(a.clone().eq(b.clone())),
                (left, right) if left == fact.part => links.push((a, b, right)),
                (left, right) if right == fact.part => links.push((b, a, left)),
                (left, right) => arms.connect(left, right),
            }
        }
        for (of_fact, key, part) in links {
            arms.link(of_fact, key, part)?;
        }
        let all = (0..flat.parts.len()).filter(|part| *part != fact.part);
        for part in all {
            arms.draft_of(part)?;
        }
        for filter in filters {
            match arms.tree_of(&filter)? {
                root if root == fact.part => arms.own.push(filter),
                root => arms.draft_of(root)?.filters.push(filter),
            }
        }
        Some(arms)
    }

    fn connect(&mut self, a: usize, b: usize) {
        let (one, other) = (self.root[a].min(self.root[b]), self.root[a].max(self.root[b]));
        self.root
            .iter_mut()
            .filter(|root| **root == other)
            .for_each(|root| *root = one);
    }

    /// A part is joined to the fact table: the one part of its tree that is.
    fn link(&mut self, of_fact: &Expr, key: &Expr, part: usize) -> Option<()> {
        let column = self.fact.key(of_fact)?;
        let root = self.root[part];
        if self.draft_of(root).is_none() {
            self.drafts.push(Draft {
                part,
                root,
                ..Draft::default()
            });
        }
        let draft = self.draft_of(root)?;
        (draft.part == part).then(|| draft.keys.push((column, key.clone())))
    }

    /// The dimension that a part belongs to.
    fn draft_of(&mut self, part: usize) -> Option<&mut Draft> {
        let root = self.root[part];
        self.drafts.iter_mut().find(|draft| draft.root == root)
    }

    /// The tree that all columns of an expression are of.
    fn tree_of(&self, expr: &Expr) -> Option<usize> {
        let parts = self.flat.parts_of(expr)?;
        let mut roots = parts.iter().map(|part| self.root[*part]);
        let first = roots.next()?;
        roots.all(|root| root == first).then_some(first)
    }

    /// Has an expression computed for each row of a dimension: which dimension, and which of its attributes.
    pub(super) fn attribute(&mut self, expr: Expr) -> Option<(usize, usize)> {
        let root = self.tree_of(&expr)?;
        let (root, expr) = if root == self.fact.part {
            self.key_like(&expr)?
        } else {
            (root, expr)
        };
        let arm = self.drafts.iter().position(|draft| draft.root == root)?;
        let attributes = &mut self.drafts[arm].attributes;
        attributes.push(expr);
        Some((arm, attributes.len() - 1))
    }

    /// The key of a dimension that is equal to a column of the fact table.
    fn key_like(&self, expr: &Expr) -> Option<(usize, Expr)> {
        let Expr::Column(_) = expr else { return None };
        let column = self.fact.key(expr)?;
        let data_type = self.fact.open.table.schema().field(column).data_type();
        self.drafts.iter().find_map(|draft| {
            let key = draft.keys.iter().find(|(other, _)| *other == column)?;
            let same = key.1.get_type(self.parts[draft.part].schema()).ok()? == *data_type;
            same.then(|| (draft.root, key.1.clone()))
        })
    }

    /// The dimensions, those that are only looked for at the end.
    pub(super) fn finish(mut self) -> Option<(Vec<Arm>, Vec<Expr>)> {
        let mut looked_for = Vec::new();
        for exists in &self.flat.exists {
            let mut parts = exists.on.iter().map(|(of_outer, _)| self.flat.part_of(of_outer));
            let part = parts.next()??;
            if !parts.all(|other| other == Some(part)) {
                return None;
            }
            if part == self.fact.part {
                let keys = exists
                    .on
                    .iter()
                    .map(|(of_fact, key)| Some((self.fact.key(of_fact)?, key.clone())));
                looked_for.push(self.arm(exists.plan.clone(), keys.collect::<Option<_>>()?, Vec::new())?);
            } else {
                let keys = exists.on.iter().cloned().unzip();
                self.parts[part] = LogicalPlanBuilder::from(self.parts[part].clone())
                    .join_with_expr_keys(exists.plan.clone(), JoinType::LeftSemi, keys, None)
                    .and_then(LogicalPlanBuilder::build)
                    .ok()?;
            }
        }
        let mut arms = Vec::with_capacity(self.drafts.len() + looked_for.len());
        for draft in std::mem::take(&mut self.drafts) {
            let most_rows = pool_table(&self.flat.parts[draft.part]).map(|(open, _)| open.live_rows());
            let tree = self.tree(&draft)?;
            let arm = self.arm(tree, draft.keys, draft.attributes)?;
            arms.push(Arm { most_rows, ..arm });
        }
        arms.extend(looked_for.into_iter().map(|arm| Arm { exists: true, ..arm }));
        Some((arms, self.own))
    }

    /// The rows of a dimension: its parts joined, one after the other, and filtered.
    fn tree(&self, draft: &Draft) -> Option<LogicalPlan> {
        let (several, single): (Vec<&Expr>, Vec<&Expr>) = draft
            .filters
            .iter()
            .partition(|filter| self.flat.part_of(filter).is_none());
        let filtered = |part: usize| {
            let mut plan = LogicalPlanBuilder::from(self.parts[part].clone());
            for filter in single
                .iter()
                .filter(|filter| self.flat.part_of(filter) == Some(part))
            {
                plan = plan.filter((*filter).clone()).ok()?;
            }
            Some(plan)
        };
        let mut joined = vec![draft.part];
        let mut plan = filtered(draft.part)?;
        let edges: Vec<(usize, &Expr, usize, &Expr)> = self
            .flat
            .equal
            .iter()
            .filter_map(|(a, b)| Some((self.flat.part_of(a)?, a, self.flat.part_of(b)?, b)))
            .flat_map(|(left, a, right, b)| [(left, a, right, b), (right, b, left, a)])
            .filter(|(left, _, right, _)| {
                left != right && self.root[*left] == draft.root && self.root[*right] == draft.root
            })
            .collect();
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

    fn arm(&self, plan: LogicalPlan, keys: Vec<(usize, Expr)>, attributes: Vec<Expr>) -> Option<Arm> {
        let schema = self.fact.open.table.schema();
        let mut on = Vec::with_capacity(keys.len());
        for (column, key) in &keys {
            if !is_whole(&key.get_type(plan.schema()).ok()?) {
                return None;
            }
            on.push(format!("{} = {key}", schema.field(*column).name()));
        }
        let columns = keys.iter().map(|(column, _)| *column).collect();
        Some(Arm {
            columns,
            plan: reduced(plan, keys, attributes).ok()?,
            exists: false,
            most_rows: None,
            on: on.join(" AND "),
        })
    }
}

/// Keys and attributes of a plan's rows.
fn reduced(plan: LogicalPlan, keys: Vec<(usize, Expr)>, attributes: Vec<Expr>) -> Result<LogicalPlan> {
    let keys = keys.into_iter().enumerate();
    let keys = keys.map(|(number, (_, key))| key.alias(format!("key {number}")));
    let named = attributes.into_iter().enumerate();
    let attributes = named.map(|(number, expr)| expr.alias(format!("attribute {number}")));
    LogicalPlanBuilder::from(plan)
        .project(keys.chain(attributes))?
        .build()
}
