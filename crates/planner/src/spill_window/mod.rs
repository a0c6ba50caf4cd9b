//! Windows over partitions that may not fit into memory.
//!
//! DataFusion's node for windows whose frames reach the end of the partition collects all of its input, and
//! counts none of it. [`SpillingWindowRule`] puts a node in its place, unless the estimate says that the
//! input is small. The input is sorted by the keys of the partitions, so that one partition is collected at a
//! time. One that does not fit goes to a file, and is read in two passes. The first one computes what is the
//! same in all rows of a partition (aggregates, the first and the last value), counts rows and peers
//! (`ntile`, `percent_rank`, `cume_dist`), and writes what other functions over frames read to
//! [files](crate::file_column) that are mapped; `median` and aggregates over distinct values are computed
//! between the passes, by [sorting](crate::sort_aggregate). The query is refused by the name of a function
//! that needs more memory than there is: its result for one row is large, or it reads values of nested types.

mod exec;
mod file_columns;
mod filter;
mod in_frames;
mod partition;
mod passes;
mod peer_ends;
mod rows_ahead;
mod rule;
mod suffix;
mod two_pass;

pub use exec::SpillingWindowExec;
pub use filter::has_no_filter;
pub use rule::SpillingWindowRule;
