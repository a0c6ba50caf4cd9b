//! Late materialization: `ORDER BY … LIMIT` reads what it sorts by and the addresses of the rows, and fetches
//! all other columns for the rows that are left.
//!
//! [`LateMaterializationRule`] rewrites the physical plan, from the bottom up: a scan of the columns that the
//! sort and the filters below it need, and the addresses; the same filters and the same sort, or
//! [`TopRowsExec`] where an offset makes many rows come before the wanted ones; the limit; and
//! [`FetchRowsExec`](fetch_node::FetchRowsExec), which puts the columns together as they were. Invariant: the
//! rewritten plan has the schema, the order and the rows of the original one, of several rows that compare
//! equal perhaps others.

mod chain;
mod fetch_node;
mod fetch_rows;
mod rule;
mod top_node;
mod top_rows;

pub use chain::{position, relocated};
pub use rule::LateMaterializationRule;
pub(super) use top_node::TopRowsExec;
