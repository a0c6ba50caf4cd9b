//! Star queries: an aggregate over the joins of one fact table with its dimensions becomes one fused pipeline
//! ([`halocline_joins::star`]), planned on the logical plan.
//!
//! [`StarRule`] recognises the shape, [`StarNode`](node::StarNode) stands in the logical plan, [`StarQueryPlanner`] makes a [`StarExec`](exec::StarExec) of it. What is not
//! understood to the last detail stays as it is; what shows only when the dimensions have been read (two rows of one key, too many groups) is answered by
//! the plan that was replaced.

mod aggregates;
mod branches;
mod delta_rows;
mod dimension;
mod dimension_scan;
mod estimate;
mod exec;
mod fact;
mod join_graph;
mod measures;
mod node;
mod planner;
mod rule;
mod run;
mod shape;

pub(crate) use planner::StarQueryPlanner;
pub(crate) use rule::StarRule;
