//! Hash joins whose build side may not fit the memory of queries.
//!
//! The hash join of DataFusion fails if its build side exceeds the memory that is left. Where a build side
//! may be large, [`SpillingJoinRule`] puts a [`SpillingJoin`] in its place: a
//! [hybrid join](halocline_joins::equi::Algorithm::Hybrid), which keeps what fits, and writes the rest of
//! both sides to temporary files. `SET halocline.spilling_join = force` does so for all hash joins, `off` for
//! none.
//!
//! Where a side of a join is a whole table whose key says where a row is, and that is estimated to be the
//! fastest, the join is an [array join](halocline_joins::equi::EquiJoin::run_array) instead, also of small
//! tables. `SET halocline.array_join = force` makes all joins with such a side array joins, `off` none. If
//! the keys turn out not to be dense, the join is a hybrid join after all.
//!
//! The join runs on threads of its own, each of which polls streams of the inputs. It sets the same dynamic
//! filter as a hash join, and has no need of equal keys in equal partitions.

mod array_side;
mod choice;
mod estimate;
mod exec;
mod input;
mod key_bounds;
mod memory;
mod output;
mod parts;
mod rule;
mod run;

pub use exec::SpillingJoin;
pub use rule::SpillingJoinRule;
