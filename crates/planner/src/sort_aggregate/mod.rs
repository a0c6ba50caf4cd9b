//! Sort-based aggregation, for aggregates that collect the values of a group: `DISTINCT`, `median`,
//! `percentile_cont`, `array_agg`, `string_agg`, `nth_value`, `mode`.
//!
//! DataFusion collects them in DRAM. What it spills are whole groups, so that a few large ones, or many
//! beside each other, take more than there is. [`SortAggregateRule`] puts a node above such an aggregation,
//! unless the estimate says that its input is small. The node runs the aggregation in a part of the memory.
//! If that is refused more, it starts anew: rows are divided by the hash of their keys into [parts], which are
//! aggregated one by one. A part that does not fit, and rows without keys, are sorted, which spills:
//!
//! - `f(DISTINCT x)` aggregates the rows that are left when repeated ones are dropped, in parts by the hash
//!   of the keys and `x`;
//! - `median(x)` and `percentile_cont` select one or two rows of each group from the rows sorted by the keys
//!   and `x`, and without groups from [values that are not sorted](selection);
//! - all others are aggregated group by group, from the input sorted by the keys.
//!
//! Each order is a [branch](layout::Branch); all branches have the same groups in the same order, and are
//! joined row by row. So only the result of a group has to fit into memory (Graefe, ACM Computing Surveys
//! 25(2), 1993, section 4.2, describes aggregation by sorting).

mod aggregated;
mod attempt;
mod branch;
mod columns;
mod distinct;
mod exec;
mod joined;
mod layout;
mod middle;
mod narrow;
mod of_all;
mod once;
mod parts;
mod rule;
mod selection;
mod values;

pub use exec::SortAggregateExec;
pub use of_all::{is_of_sorted_values, of_all_rows};
pub use rule::SortAggregateRule;
