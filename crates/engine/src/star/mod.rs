//! Star queries: an aggregate over the joins of one fact table with its dimensions becomes one fused pipeline
//! ([`halocline_joins::star`]), planned on the logical plan.
//!
//! [`StarRule`] recognises the shape, [`StarNode`](node::StarNode) represents it in the logical plan,
//! [`StarQueryPlanner`] makes a [`StarExec`](exec::StarExec) of it. A query with any unsupported part is left
//! unchanged. If loading the dimensions shows that the join cannot run (a repeated key, too many groups), the
//! query is answered by the replaced plan.

mod aggregates;
mod branches;
mod delta_rows;
mod dimension;
mod dimension_scan;
mod exec;
mod fact;
mod join_graph;
mod measures;
mod node;
mod planner;
mod run;
mod shape;

pub(crate) use planner::{StarQueryPlanner, StarRule};
