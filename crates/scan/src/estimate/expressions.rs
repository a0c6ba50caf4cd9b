//! Estimates of the values of expressions.

use datafusion::logical_expr::Expr;
use halocline_costs::cardinality::ColumnEstimate;

use super::selectivity::ColumnLookup;

/// Estimates the values of an expression over `rows` rows: those of a column, or as many distinct values as
/// its columns have combinations.
pub fn of_expression(expr: &Expr, columns: &dyn ColumnLookup, rows: f64) -> ColumnEstimate {
    match expr {
        Expr::Alias(alias) => of_expression(&alias.expr, columns, rows),
        Expr::Column(column) => match columns.column(column) {
            Some(estimate) => estimate.clone(),
            None => ColumnEstimate::with_distinct(rows),
        },
        // A cast keeps values apart, but may change their order.
        Expr::Cast(cast) => ColumnEstimate {
            range: None,
            ..of_expression(&cast.expr, columns, rows)
        },
        Expr::Literal(..) => ColumnEstimate::with_distinct(1.0),
        other => {
            let refs = other.column_refs();
            let distinct = refs
                .iter()
                .map(|column| columns.column(column).map_or(rows, |estimate| estimate.distinct));
            ColumnEstimate::of_combinations(distinct, rows)
        }
    }
}
