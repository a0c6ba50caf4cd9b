//! Windows over partitions that may not fit into memory.
//!
//! DataFusion's node for windows whose frames reach the end of the partition collects all of its input, and
//! counts none of it. [`SpillingWindowRule`] puts a node in its place, unless the estimate says that the
//! input is small. The input is sorted by the keys of the partitions, so that one partition is collected at a
//! time. One that does not fit goes to a file, if each of its functions can be computed in two passes: what
//! is the same in all rows of a partition (aggregates, the first and the last value), or follows from the
//! number of the row, of its peers and of the rows (`ntile`, `percent_rank`, `cume_dist`). Otherwise the
//! query is refused by the name of the function.

mod exec;
mod filter;
mod partition;
mod passes;
mod peer_ends;
mod rule;

pub(crate) use exec::SpillingWindowExec;
pub(crate) use filter::has_no_filter;
pub(crate) use rule::{SpillingWindowRule, known_bytes};
