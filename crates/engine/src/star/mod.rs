//! Star queries: an aggregate over the joins of one fact table with its dimensions becomes one fused pipeline
//! ([`halocline_joins::star`]), planned on the logical plan.
//!
//! [`StarRule`] recognises the shape, [`StarNode`](node::StarNode) stands in the logical plan, [`StarQueryPlanner`] makes a [`StarExec`](exec::StarExec) of it. What is not
//! understood to the last detail stays as it is; what shows only when the dimensions have been read (two rows of one key, too many groups) is answered by
//! the plan that was replaced.
//!
//! The fact table is the largest table of the pool in the query. Every other part belongs to one dimension: a
//! part, or a tree of parts joined to each other, linked to the fact table by keys of one part. Decimals are
//! taken only where the least and greatest values of the columns show that no intermediate result needs more
//! than 64 bits. An average of integers divides the exact sum. `bytes_read` in `EXPLAIN ANALYZE` counts all
//! bytes of a chunk that is looked at for columns with conditions, and for the others the blocks that had
//! rows left.

mod added;
mod aggregates;
mod arms;
mod dimension;
mod estimate;
mod exec;
mod fact;
mod flat;
mod measures;
mod node;
mod planner;
mod rule;
mod run;
mod scan;
mod shape;

pub(crate) use planner::StarQueryPlanner;
pub(crate) use rule::StarRule;
