//! Traversal of syntax trees with visitors of any type.
//!
//! The parser's own traversal is generic: each type of visitor adds about a megabyte of code. [`walk`] and
//! [`walk_mut`] call every visitor through a trait object, so that there is one instance of the traversal for
//! trees that are read, and one for trees that are changed.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, JoinOperator, NamedWindowDefinition, ObjectName, OrderByExpr, Query, Select,
    SelectItem, Statement, TableFactor, ValueWithSpan, Values, Visit, VisitMut, Visitor, VisitorMut,
};

/// Visits a node and all below it.
pub fn walk<V: Visitor>(node: &(impl Node + ?Sized), visitor: &mut V) -> ControlFlow<V::Break> {
    let mut caught = Caught {
        visitor,
        outcome: None,
    };
    let _ = node.traverse(&mut caught);
    caught
        .outcome
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits a node and all below it, which the visitor may change.
pub fn walk_mut<V: VisitorMut>(node: &mut (impl NodeMut + ?Sized), visitor: &mut V) -> ControlFlow<V::Break> {
    let mut caught = CaughtMut {
        visitor,
        outcome: None,
    };
    let _ = node.traverse_mut(&mut caught);
    caught
        .outcome
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// A node from which [`walk`] can begin.
pub trait Node {
    /// Visits the node and all below it.
    fn traverse(&self, hooks: &mut dyn Hooks) -> ControlFlow<()>;
}

/// A node from which [`walk_mut`] can begin.
pub trait NodeMut {
    /// Visits the node and all below it.
    fn traverse_mut(&mut self, hooks: &mut dyn HooksMut) -> ControlFlow<()>;
}

macro_rules! nodes {
    ($($node:ty),* $(,)?) => {
        $(
            impl Node for $node {
                fn traverse(&self, hooks: &mut dyn Hooks) -> ControlFlow<()> {
                    Visit::visit(self, &mut Erased(hooks))
                }
            }

            impl NodeMut for $node {
                fn traverse_mut(&mut self, hooks: &mut dyn HooksMut) -> ControlFlow<()> {
                    VisitMut::visit(self, &mut ErasedMut(hooks))
                }
            }
        )*
    };
}

nodes!(
    Statement,
    Query,
    Expr,
    Vec<Expr>,
    Option<Expr>,
    Vec<SelectItem>,
    Option<Distinct>,
    Vec<OrderByExpr>,
    SelectItem,
    GroupByExpr,
    Vec<NamedWindowDefinition>,
    JoinOperator,
    Values,
);

/// A visitor whose outcome is kept aside.
struct Caught<'v, V: Visitor> {
    visitor: &'v mut V,
    outcome: Option<V::Break>,
}

/// A visitor of [`walk_mut`] whose outcome is kept aside.
struct CaughtMut<'v, V: VisitorMut> {
    visitor: &'v mut V,
    outcome: Option<V::Break>,
}

/// A visitor of one type for all visitors.
struct Erased<'h>(&'h mut dyn Hooks);

/// A visitor of [`walk_mut`] of one type for all visitors.
struct ErasedMut<'h>(&'h mut dyn HooksMut);

macro_rules! hooks {
    ($($hook:ident: $node:ty,)*) => {
        /// The methods of a visitor, without its type.
        pub trait Hooks {
            $(
                #[doc = concat!("Calls `", stringify!($hook), "`.")]
                fn $hook(&mut self, node: &$node) -> ControlFlow<()>;
            )*
        }

        /// The methods of a visitor that may change what it visits, without its type.
        pub trait HooksMut {
            $(
                #[doc = concat!("Calls `", stringify!($hook), "`.")]
                fn $hook(&mut self, node: &mut $node) -> ControlFlow<()>;
            )*
        }

        impl<V: Visitor> Hooks for Caught<'_, V> {
            $(
                fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                    self.visitor.$hook(node).map_break(|outcome| self.outcome = Some(outcome))
                }
            )*
        }

        impl<V: VisitorMut> HooksMut for CaughtMut<'_, V> {
            $(
                fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                    self.visitor.$hook(node).map_break(|outcome| self.outcome = Some(outcome))
                }
            )*
        }

        impl Visitor for Erased<'_> {
            type Break = ();
            $(
                fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                    self.0.$hook(node)
                }
            )*
        }

        impl VisitorMut for ErasedMut<'_> {
            type Break = ();
            $(
                fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                    self.0.$hook(node)
                }
            )*
        }
    };
}

hooks!(
    pre_visit_query: Query,
    post_visit_query: Query,
    pre_visit_select: Select,
    post_visit_select: Select,
    pre_visit_relation: ObjectName,
    post_visit_relation: ObjectName,
    pre_visit_table_factor: TableFactor,
    post_visit_table_factor: TableFactor,
    pre_visit_expr: Expr,
    post_visit_expr: Expr,
    pre_visit_statement: Statement,
    post_visit_statement: Statement,
    pre_visit_value: ValueWithSpan,
    post_visit_value: ValueWithSpan,
);
