//! Orders by expressions that DataFusion takes for a column of the list, because that has the same name.
//!
//! `SELECT CAST(max(f) AS text) … ORDER BY max(f)` would sort the texts.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, OrderByKind, Query, SelectItem, SetExpr, Visitor, VisitorMut};

use super::rename::{Depth, nothing, unqualified};
use crate::syntax::{Node, walk, walk_mut};

/// Returns how deeply a statement must be renamed so that it is ordered by what it says; `None` if it is.
pub fn depth_of_order<N: Node>(node: &N) -> Option<Depth> {
    walk(node, &mut Orders).break_value()
}

struct Orders;

impl Visitor for Orders {
    type Break = Depth;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Depth> {
        let (Some(order), SetExpr::Select(select)) = (&query.order_by, &*query.body) else {
            return ControlFlow::Continue(());
        };
        let OrderByKind::Expressions(keys) = &order.kind else {
            return ControlFlow::Continue(());
        };
        let keys = keys.iter().map(|key| &key.expr);
        let keys = keys.filter(|key| {
            !matches!(
                key,
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)
            )
        });
        for key in keys {
            for item in &select.projection {
                if let SelectItem::UnnamedExpr(expr) = item
                    && let Some(depth) = depth(expr, key)
                {
                    return ControlFlow::Break(depth);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns where two expressions differ that have the same name.
fn depth(item: &Expr, key: &Expr) -> Option<Depth> {
    let text = |expr: &Expr| unqualified(&expr.to_string().to_lowercase());
    if text(item) == text(key) || text(&named(item)) != text(&named(key)) {
        return None;
    }
    let mut operand = item;
    while let Expr::Cast { expr, .. } | Expr::Nested(expr) = operand {
        operand = expr;
    }
    Some(if text(operand) == text(key) {
        Depth::Columns
    } else {
        Depth::Expressions
    })
}

/// Returns what names show of an expression: all but casts and parentheses.
fn named(expr: &Expr) -> Expr {
    struct Hidden;
    impl VisitorMut for Hidden {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast { expr: operand, .. } | Expr::Nested(operand) = expr {
                *expr = std::mem::replace(&mut **operand, nothing());
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = walk_mut(&mut expr, &mut Hidden);
    expr
}
