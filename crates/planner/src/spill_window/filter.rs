//! `FILTER` of aggregates over windows.

use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};

/// Returns true if it is certain that a function has no `FILTER`, which DataFusion shows nowhere else.
pub fn has_no_filter(window: &dyn WindowExpr) -> bool {
    window.as_any().is::<StandardWindowExpr>() || format!("{window:?}").ends_with("filter: None }")
}
