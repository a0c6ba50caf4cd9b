//! Windows that `WINDOW` names: the window in place of its name, also where more is added to it.
//!
//! DataFusion knows names in the SELECT list only, and neither `OVER (w ROWS …)` nor `WINDOW v AS (w …)`.
//! As in the standard (SQL:2011, 7.11), a window that begins with a name may add an order, if that one has
//! none, and a frame, but no keys to partition by, and not to one that has a frame.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByKind, Query, Select, SetExpr, VisitorMut,
    WindowSpec, WindowType,
};

use super::frames::is_marker;
use crate::EngineError;
use crate::syntax::{normal, walk_mut};

/// Replaces the names of windows in every query.
pub(super) struct NamedWindows;

impl VisitorMut for NamedWindows {
    type Break = EngineError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<EngineError> {
        replace_within(&mut query.body)?;
        let (SetExpr::Select(select), Some(order_by)) = (&*query.body, &mut query.order_by) else {
            return ControlFlow::Continue(());
        };
        let mut names = Names::from_clause(&select.named_window)?;
        match &mut order_by.kind {
            OrderByKind::Expressions(orders) => walk_mut(orders, &mut names),
            OrderByKind::All(_) => ControlFlow::Continue(()),
        }
    }
}

/// Replaces the names in the parts of a query that are no queries with clauses of their own.
fn replace_within(body: &mut SetExpr) -> ControlFlow<EngineError> {
    match body {
        SetExpr::Select(select) => replace_in(select),
        SetExpr::SetOperation { left, right, .. } => {
            replace_within(left)?;
            replace_within(right)
        }
        _ => ControlFlow::Continue(()),
    }
}

fn replace_in(select: &mut Select) -> ControlFlow<EngineError> {
    let mut names = Names::from_clause(&select.named_window)?;
    walk_mut(&mut select.projection, &mut names)?;
    walk_mut(&mut select.distinct, &mut names)?;
    walk_mut(&mut select.qualify, &mut names)
}

/// The windows of one `WINDOW` clause, each without names of others; replaces them in an expression.
struct Names {
    defined: Vec<(String, WindowSpec)>,
    /// The number of subqueries around what is visited, which have windows of their own.
    subqueries: usize,
}

impl Names {
    fn from_clause(clause: &[NamedWindowDefinition]) -> ControlFlow<EngineError, Names> {
        let mut names = Names {
            defined: Vec::with_capacity(clause.len()),
            subqueries: 0,
        };
        for NamedWindowDefinition(name, definition) in clause {
            let window = match definition {
                NamedWindowExpr::NamedWindow(other) => names.find(other)?.clone(),
                NamedWindowExpr::WindowSpec(window) => names.complete(window.clone())?,
            };
            let name = normal(name);
            if names.defined.iter().any(|(other, _)| *other == name) {
                return refused(format!(
                    "the window {name} is defined twice; give each a name of its own"
                ));
            }
            names.defined.push((name, window));
        }
        ControlFlow::Continue(names)
    }

    fn find(&self, name: &Ident) -> ControlFlow<EngineError, &WindowSpec> {
        let named = normal(name);
        match self.defined.iter().find(|(other, _)| *other == named) {
            Some((_, window)) => ControlFlow::Continue(window),
            None => refused(format!(
                "the window {name} is not defined; define it in the clause WINDOW"
            )),
        }
    }

    /// Puts the window that a name at the beginning stands for in place of that.
    fn complete(&self, mut window: WindowSpec) -> ControlFlow<EngineError, WindowSpec> {
        let Some(name) = window.window_name.take() else {
            return ControlFlow::Continue(window);
        };
        let base = self.find(&name)?.clone();
        let instead = "write all of the window in place of its name";
        if base.window_frame.is_some() {
            return refused(format!(
                "the window {name}, to which more is added, has a frame; {instead}"
            ));
        }
        if !window.partition_by.iter().all(is_marker) {
            return refused(format!(
                "PARTITION BY cannot be added to the window {name}; {instead}"
            ));
        }
        if !base.order_by.is_empty() && !window.order_by.is_empty() {
            return refused(format!("the window {name} has an ORDER BY already; {instead}"));
        }
        window.partition_by.extend(base.partition_by);
        if window.order_by.is_empty() {
            window.order_by = base.order_by;
        }
        ControlFlow::Continue(window)
    }
}

impl VisitorMut for Names {
    type Break = EngineError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<EngineError> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<EngineError> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        let window = match &function.over {
            Some(WindowType::NamedWindow(name)) if self.subqueries == 0 => self.find(name)?.clone(),
            Some(WindowType::WindowSpec(window)) if self.subqueries == 0 && window.window_name.is_some() => {
                self.complete(window.clone())?
            }
            _ => return ControlFlow::Continue(()),
        };
        function.over = Some(WindowType::WindowSpec(window));
        ControlFlow::Continue(())
    }
}

fn refused<T>(text: String) -> ControlFlow<EngineError, T> {
    ControlFlow::Break(EngineError::Query(text))
}
