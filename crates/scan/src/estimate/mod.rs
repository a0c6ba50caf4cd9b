//! Selectivities of conditions, and estimates of the values of expressions.

mod expressions;
mod selectivity;

pub use expressions::of_expression;
pub use selectivity::{ColumnLookup, conjunction_of, selectivity, shares};
