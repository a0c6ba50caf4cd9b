//! Distinct names for the outputs of a query whose rows a statement stores.

use datafusion::sql::sqlparser::ast::{Ident, Query, SelectItem, SetExpr};

/// Returns the query with distinct names for repeated outputs, such as two NULLs: the names do not matter
/// here, but DataFusion requires them to differ.
pub(super) fn distinctly_named(query: &Query) -> Box<Query> {
    let mut query = Box::new(query.clone());
    if let SetExpr::Select(select) = &mut *query.body {
        let texts: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
        for (at, item) in select.projection.iter_mut().enumerate() {
            if let (SelectItem::UnnamedExpr(expr), true) = (&*item, texts[..at].contains(&texts[at])) {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', format!("value {at}")),
                };
            }
        }
    }
    query
}
