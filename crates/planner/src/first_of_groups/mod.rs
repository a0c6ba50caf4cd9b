//! The first row of each group: `DISTINCT ON`, and groups of which only `first_value` is wanted.
//!
//! DataFusion makes an aggregate of both, with an accumulator for each column of each group.
//! [`FirstOfGroupsRule`] sorts the rows by the keys of the groups and by the order within these instead, and
//! [`FirstOfGroupsExec`] keeps the first row of each run of equal keys. The sort spills if memory is short,
//! and [`FirstRowsRule`](super::first_rows::FirstRowsRule) drops most rows of large groups before it.
//!
//! Invariants: all columns of a group come from one row; equal keys are those that the sort puts side by
//! side, with NULL equal to NULL; groups leave in the order of the sort.

mod node;
mod rule;
mod starts;

pub(super) use node::FirstOfGroupsExec;
pub use rule::FirstOfGroupsRule;
