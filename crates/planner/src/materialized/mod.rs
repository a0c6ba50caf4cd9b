//! Common table expressions that are evaluated once.
//!
//! DataFusion puts the plan of a common table expression in the place of each reference. Where the rows of
//! two evaluations may differ (functions such as random(), LIMIT, sums of floats), that is not what the query
//! says. [`mark`](halocline_sql::evaluated_once::mark) finds such expressions on the syntax tree and gives
//! their queries an alias that no user writes; [`MaterializeMarked`] replaces the alias in the logical plan
//! by a node; [`ShareRows`] makes all nodes of one expression in a physical plan share their rows, which the
//! first that runs collects. Rows that do not fit into memory are in a temporary file.
//!
//! Invariant: nodes with the same number have equal plans below them.

mod exec;
mod node;
mod rows;
mod rule;

pub use exec::ShareRows;
pub use node::{evaluated_once, materialized_input, plan_extension};
pub use rows::Collected;
pub use rule::MaterializeMarked;
