//! Nested-loop and cross joins whose build side does not fit into memory.
//!
//! A [`NestedLoopJoinExec`](datafusion::physical_plan::joins::NestedLoopJoinExec) of DataFusion 55 that runs
//! out of memory divides its build side and reads the other side once for each part, in each partition of the
//! other side by itself. Its answers are then wrong where rows without a partner matter:
//! - those of the build side: each partition decides from its own rows, so that a left join returns a row
//!   without a partner once for each partition;
//! - those of the other side: they are forgotten if the last part ends at the last batch of the build side.
//!
//! [`NestedLoopsRule`] avoids both. Where the build side is expected to fit, the join is refused memory rather
//! than divide it ([`WholeBuildSideExec`]), so that the query is planned anew. Where it is not, the join reads
//! the other side as one partition, after its sides are swapped if rows of the other side are at stake. A full
//! join is always refused.
//!
//! A `CrossJoinExec` cannot divide its build side, and becomes a nested-loop join without a condition.

mod exec;
mod rule;

pub use exec::WholeBuildSideExec;
pub use rule::NestedLoopsRule;
