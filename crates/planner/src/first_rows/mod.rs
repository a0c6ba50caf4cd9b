//! The first rows of each group: `row_number()` or `rank()` over partitions, of which a filter keeps the
//! small numbers, and `DISTINCT ON`.
//!
//! Without more, all rows are sorted, and then most are dropped. [`FirstRowsRule`] puts a filter below the
//! exchange and the sort of such a window. It keeps the best sort keys of each group seen so far, and drops
//! each row that is worse than as many rows of its group as are wanted. Rows that pass are held back
//! as long as there is memory for them, and compared again before they leave. The window, the sort and the
//! condition stay as they are. Where any row of a group may be the first, the key is the position in the
//! input, so that the first row seen passes alone.
//!
//! Invariants: a row is dropped only if at least `fetch` rows of its group come before it in every order that
//! the sort can put them in, so the answer is the same without the filter. It compares the first sort key
//! only, which may be shortened as long as a smaller short key means a smaller key; rows with equal short
//! keys pass. Rows of one group may be counted as those of several, never the other way round.

mod compared;
mod filter;
mod groups;
mod held;
mod ids;
mod node;
mod order_keys;
mod row_groups;
mod rule;
mod scan_order;
mod thresholds;
mod trial;
mod upper_bounds;

pub use rule::FirstRowsRule;
