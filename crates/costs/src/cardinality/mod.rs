//! Cardinality: selectivities of conditions, distinct values, and the rows of joins.
//!
//! Estimates start from the statistics of tables and assume what most optimizers assume: values are
//! distributed uniformly, columns are independent, and every value of the smaller side of a join occurs on
//! the larger one. Rows whose number nothing is known about are marked ([`PlanEstimate::is_known`]).
//!
//! Invariants: numbers are finite and not negative; selectivities are from 0 to 1; a column has at least one
//! distinct value.

pub mod codes;
mod column;
pub mod conditions;
mod joined;
mod keys;
mod rows;

pub use column::ColumnEstimate;
pub use joined::{Equality, JoinCardinality};
pub use keys::{key_domain, outer_multiplicity, semi_selectivity};
pub use rows::{PlanEstimate, UNKNOWN_ROWS};
