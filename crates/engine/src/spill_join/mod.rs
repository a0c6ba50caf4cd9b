//! Hash joins whose build side may not fit the memory of queries.
//!
//! The hash join of DataFusion fails if its build side exceeds the memory that is left. Where a build side
//! may be large, [`SpillingJoinRule`] puts a [`SpillingJoin`] in its place: a
//! [hybrid join](halocline_joins::equi::Algorithm::Hybrid), which keeps what fits, and writes the rest of
//! both sides to temporary files. `SET halocline.spilling_join = force` does so for all hash joins, `off` for
//! none.
//!
//! The join runs on threads of its own, each of which polls streams of the inputs. It sets the same dynamic
//! filter as a hash join, and has no need of equal keys in equal partitions.

mod estimate;
mod exec;
mod input;
mod key_bounds;
mod memory;
mod output;
mod parts;
mod rule;
mod run;

pub(crate) use exec::SpillingJoin;
pub(crate) use rule::SpillingJoinRule;
