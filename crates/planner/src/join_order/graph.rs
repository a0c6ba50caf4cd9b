//! A tree of joins as a graph: relations, the equalities between them, and conditions.
//!
//! Relations are the inputs of inner joins (*leaves*) and what is *attached* to the leaves that its condition
//! refers to: the inner sides of semi and anti joins, and the optional sides of left and right joins. Rows of
//! leaves pass these one by one, so that they may be applied to any part that has the leaves they need.
//! Everything else, such as a full join, is a leaf. Sets of relations are bit masks.
//!
//! A left join commutes with what refers to the side that it keeps only (Galindo-Legaria and Rosenthal,
//! "Outerjoin simplification and reordering for query optimization", TODS 1997). So optional sides are in no
//! class and no condition: where an inner join or a condition refers to one, outer joins are leaves.
//!
//! Invariants: no two relations have a column in common; a member of a class of equal expressions refers to
//! one leaf; all members of a class have the same type; the members of a class may be NULL only if all that
//! unites them are null-safe equalities.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchemaRef, JoinType, NullEquality};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Join, LogicalPlan, Operator, Projection,
};

/// Most relations of a graph: a set of them is a `u64`.
const MAX_RELATIONS: usize = 64;

/// A relation of a graph.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) plan: LogicalPlan,
    /// `None` for a leaf.
    pub(super) attached: Option<Attachment>,
}

/// The kinds of joins whose one side is attached to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttachmentKind {
    Semi,
    Anti,
    /// A left join, whose right side is attached.
    Outer,
}

/// The condition of a join whose one side is attached.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) kind: AttachmentKind,
    /// Equal expressions over columns of the leaves, and over columns of the relation.
    pub(super) on: Vec<(Expr, Expr)>,
    /// The rule for NULL in them.
    pub(super) null_equality: NullEquality,
    /// Any other condition over both.
    pub(super) filter: Option<Expr>,
    /// The leaves, and sides of outer joins, that the condition refers to.
    pub(super) outer: u64,
}

/// An expression over one leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) leaf: usize,
    pub(super) expr: Expr,
}

/// Expressions that are equal in every row of the result.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) members: Vec<Member>,
    /// The members may be NULL, all at a time.
    pub(super) null_safe: bool,
}

/// A condition over several leaves that is no equality of expressions over one leaf each.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) expr: Expr,
    pub(super) leaves: u64,
}

/// An order of joins. The left side of a join is its build side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JoinTree {
    Relation(usize),
    Join(Box<JoinTree>, Box<JoinTree>),
}

/// A tree of joins as a graph.
#[derive(Debug)]
pub(super) struct JoinGraph {
    pub(super) relations: Vec<Relation>,
    pub(super) classes: Vec<Class>,
    pub(super) conditions: Vec<Condition>,
    /// The order of the query.
    pub(super) order: JoinTree,
    /// The schema of the result.
    pub(super) schema: DFSchemaRef,
}

impl JoinGraph {
    /// Reads the graph whose topmost join is `plan`; `None` if that is no join of the kind that can be moved,
    /// or if the parts cannot be told apart by their columns.
    pub(super) fn from_plan(plan: &LogicalPlan) -> Option<JoinGraph> {
        Self::read(plan, true).or_else(|| Self::read(plan, false))
    }

    fn read(plan: &LogicalPlan, with_outer: bool) -> Option<JoinGraph> {
        let mut parts = Parts {
            with_outer,
            ..Parts::default()
        };
        if !parts.is_movable(plan) {
            return None;
        }
        let order = parts.flatten(plan);
        (parts.relations.len() <= MAX_RELATIONS).then_some(())?;
        // The order of outer joins alone stays.
        let others = parts.relations.iter().filter(|relation| !relation.is_optional());
        (others.count() > 1).then_some(())?;
        parts.graph(order, Arc::clone(plan.schema()))
    }

    /// Returns all relations.
    pub(super) fn all(&self) -> u64 {
        u64::MAX >> (64 - self.relations.len())
    }

    /// Returns the leaves among the relations.
    pub(super) fn leaves(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.relations.len()).filter(|number| self.relations[*number].attached.is_none())
    }
}

impl Relation {
    /// Returns true for a relation that an outer join attaches.
    pub(super) fn is_optional(&self) -> bool {
        let attached = self.attached.as_ref();
        attached.is_some_and(|attached| attached.kind == AttachmentKind::Outer)
    }
}

impl JoinTree {
    /// Joins two trees, the first of which is the build side.
    pub(super) fn join(build: JoinTree, probe: JoinTree) -> Self {
        Self::Join(Box::new(build), Box::new(probe))
    }

    /// Returns its relations.
    pub(super) fn relations(&self) -> u64 {
        match self {
            Self::Relation(number) => 1 << number,
            Self::Join(build, probe) => build.relations() | probe.relations(),
        }
    }
}

/// Returns true if an expression has the same value wherever it is evaluated.
fn is_plain(expr: &Expr) -> bool {
    let of_subquery = |expr: &Expr| {
        matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        )
    };
    !expr.is_volatile() && !expr.exists(|node| Ok(of_subquery(node))).unwrap_or(true)
}

/// Returns true if a projection has nothing but columns.
fn leaves_out(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)))
}

/// The relations and conditions found in a tree.
#[derive(Default)]
struct Parts {
    /// Outer joins are taken apart.
    with_outer: bool,
    relations: Vec<Relation>,
    equal: Vec<(Expr, Expr, NullEquality)>,
    conditions: Vec<Expr>,
}

impl Parts {
    /// Returns true if a plan is a join that can change its place.
    fn is_movable(&self, plan: &LogicalPlan) -> bool {
        let LogicalPlan::Join(join) = plan else {
            return false;
        };
        let kind = match join.join_type {
            JoinType::Inner => true,
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::RightSemi | JoinType::RightAnti => {
                !join.on.is_empty() && !join.null_aware
            }
            JoinType::Left | JoinType::Right => self.with_outer && !join.on.is_empty(),
            _ => false,
        };
        kind && join.on.iter().all(|(a, b)| is_plain(a) && is_plain(b))
            && join.filter.as_ref().is_none_or(is_plain)
    }

    /// Returns the movable join that a plan consists of, apart from projections that only leave columns out.
    fn movable_below(&self, plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Projection(projection) => {
                leaves_out(projection) && self.movable_below(&projection.input)
            }
            LogicalPlan::Filter(filter) => is_plain(&filter.predicate) && self.movable_below(&filter.input),
            other => self.is_movable(other),
        }
    }

    fn flatten(&mut self, plan: &LogicalPlan) -> JoinTree {
        match plan {
            LogicalPlan::Projection(projection) if self.movable_below(plan) => {
                self.flatten(&projection.input)
            }
            LogicalPlan::Filter(Filter { predicate, input, .. }) if self.movable_below(plan) => {
                self.conditions
                    .extend(split_conjunction(predicate).into_iter().cloned());
                self.flatten(input)
            }
            LogicalPlan::Join(join) if self.is_movable(plan) => self.join(join),
            other => self.relation(other.clone(), None),
        }
    }

    fn relation(&mut self, plan: LogicalPlan, attached: Option<Attachment>) -> JoinTree {
        self.relations.push(Relation { plan, attached });
        JoinTree::Relation(self.relations.len() - 1)
    }

    fn join(&mut self, join: &Join) -> JoinTree {
        let attachment = |kind: AttachmentKind, on: Vec<(Expr, Expr)>| Attachment {
            kind,
            on,
            null_equality: join.null_equality,
            filter: join.filter.clone(),
            outer: 0,
        };
        let kind = match join.join_type {
            JoinType::LeftSemi | JoinType::RightSemi => AttachmentKind::Semi,
            JoinType::LeftAnti | JoinType::RightAnti => AttachmentKind::Anti,
            _ => AttachmentKind::Outer,
        };
        match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::Left => {
                let outer = self.flatten(&join.left);
                let attached = attachment(kind, join.on.clone());
                JoinTree::join(outer, self.relation((*join.right).clone(), Some(attached)))
            }
            JoinType::RightSemi | JoinType::RightAnti | JoinType::Right => {
                let swapped = join.on.iter().cloned().map(|(a, b)| (b, a)).collect();
                let attached = attachment(kind, swapped);
                let inner = self.relation((*join.left).clone(), Some(attached));
                JoinTree::join(inner, self.flatten(&join.right))
            }
            _ => {
                let (left, right) = (self.flatten(&join.left), self.flatten(&join.right));
                let on = join.on.iter().cloned();
                self.equal.extend(on.map(|(a, b)| (a, b, join.null_equality)));
                if let Some(filter) = &join.filter {
                    self.conditions
                        .extend(split_conjunction(filter).into_iter().cloned());
                }
                JoinTree::join(left, right)
            }
        }
    }

    fn graph(mut self, order: JoinTree, schema: DFSchemaRef) -> Option<JoinGraph> {
        let mut leaf_of: HashMap<Column, usize> = HashMap::new();
        for (number, relation) in self.relations.iter().enumerate() {
            for column in relation.plan.schema().columns() {
                let is_seen = relation.attached.is_none() || relation.is_optional();
                if is_seen && leaf_of.insert(column, number).is_some() {
                    return None;
                }
            }
        }
        let leaves = |expr: &Expr, but: Option<&HashSet<Column>>| {
            let refs = expr.column_refs().into_iter();
            let mut refs = refs.filter(|column| but.is_none_or(|own| !own.contains(*column)));
            refs.try_fold(0u64, |all, column| Some(all | 1u64 << leaf_of.get(column)?))
        };
        for relation in &mut self.relations {
            let is_optional = relation.is_optional();
            let Some(attached) = &mut relation.attached else {
                continue;
            };
            let own: HashSet<Column> = relation.plan.schema().columns().into_iter().collect();
            if !is_optional && own.iter().any(|column| leaf_of.contains_key(column)) {
                return None;
            }
            for (outer, _) in &attached.on {
                attached.outer |= leaves(outer, None)?;
            }
            if let Some(filter) = &attached.filter {
                attached.outer |= leaves(filter, Some(&own))?;
            }
            if attached.outer == 0 {
                return None;
            }
        }
        let numbers = self.relations.iter().enumerate();
        let optional = numbers.filter(|(_, relation)| relation.is_optional());
        let optional = optional.fold(0u64, |all, (number, _)| all | 1 << number);
        let member = |expr: &Expr| {
            let leaves = leaves(expr, None)?;
            let leaf = leaves.trailing_zeros() as usize;
            (leaves.count_ones() == 1 && leaves & optional == 0).then(|| Member {
                leaf,
                expr: expr.clone(),
            })
        };
        let type_of = |member: &Member| {
            member
                .expr
                .get_type(self.relations[member.leaf].plan.schema())
                .ok()
        };
        let mut classes: Vec<Class> = Vec::new();
        for (a, b, null_equality) in &self.equal {
            let null_safe = *null_equality == NullEquality::NullEqualsNull;
            unite(&mut classes, member(a)?, member(b)?, null_safe);
        }
        let mut conditions = Vec::with_capacity(self.conditions.len());
        for expr in self.conditions {
            // DataFusion makes no keys of the conditions above a chain of joins that are null-safe.
            if let Some((Some(a), Some(b))) = null_safe_pair(&expr).map(|(a, b)| (member(a), member(b)))
                && a.leaf != b.leaf
                && type_of(&a) == type_of(&b)
            {
                unite(&mut classes, a, b, true);
                continue;
            }
            let leaves = leaves(&expr, None)?;
            // It is about the result of an outer join, not what it pairs.
            if leaves & optional != 0 {
                return None;
            }
            conditions.push(Condition { expr, leaves });
        }
        for class in &mut classes {
            let first = type_of(class.members.first()?)?;
            if !class
                .members
                .iter()
                .all(|member| type_of(member).as_ref() == Some(&first))
            {
                return None;
            }
            let is_member = |expr: &Expr| class.members.iter().any(|member| member.expr == *expr);
            let excludes_null = |condition: &Condition| match &condition.expr {
                Expr::IsNotNull(expr) => is_member(expr),
                _ => false,
            };
            class.null_safe &= !conditions.iter().any(excludes_null);
        }
        Some(JoinGraph {
            conditions,
            relations: self.relations,
            classes,
            order,
            schema,
        })
    }
}

/// Returns the operands of `a IS NOT DISTINCT FROM b`.
fn null_safe_pair(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::IsNotDistinctFrom,
            right,
        }) => Some((left, right)),
        _ => None,
    }
}

/// Notes that two expressions are equal.
fn unite(classes: &mut Vec<Class>, a: Member, b: Member, null_safe: bool) {
    let find = |member: &Member| classes.iter().position(|class| class.members.contains(member));
    let class = match (find(&a), find(&b)) {
        (Some(a), Some(b)) if a == b => a,
        (Some(first), Some(second)) => {
            let moved = classes.swap_remove(first.max(second));
            let class = &mut classes[first.min(second)];
            class.members.extend(moved.members);
            class.null_safe &= moved.null_safe;
            first.min(second)
        }
        (Some(class), None) => {
            classes[class].members.push(b);
            class
        }
        (None, Some(class)) => {
            classes[class].members.push(a);
            class
        }
        (None, None) if a == b => return,
        (None, None) => {
            classes.push(Class {
                members: vec![a, b],
                null_safe,
            });
            return;
        }
    };
    classes[class].null_safe &= null_safe;
}
