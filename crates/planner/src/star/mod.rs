//! Star queries: an aggregate over the joins of one fact table with its dimensions becomes one fused pipeline
//! ([`halocline_joins::star`]), planned on the logical plan. So does an aggregate over one table, unless an
//! index finds its rows: a star query without dimensions.
//!
//! [`StarRule`] recognises the shape, [`StarNode`](node::StarNode) represents it in the logical plan,
//! [`StarQueryPlanner`] makes a [`StarExec`] of it. A query with any unsupported part is left
//! unchanged. If it turns out that the join cannot run (a repeated key, too many groups, too little memory
//! for them), the query is answered by the replaced plan.
//!
//! The fact table is the largest table of the pool in the query. Every other part belongs to one dimension: a
//! part, or a tree of parts joined to each other, linked to the fact table by keys of one part. Decimals are
//! taken only where the least and greatest values of the columns show that no intermediate result needs more
//! than 64 bits. An average of integers divides the exact sum; floats are added in an order that depends on
//! the threads. `bytes_read` in `EXPLAIN ANALYZE` counts all bytes of a chunk that is looked at for columns
//! with conditions, and for the others the blocks that had rows left.

mod aggregates;
mod bounds;
mod branch;
mod branches;
mod combinations;
mod delta_rows;
mod dimension;
mod dimension_scan;
mod exec;
mod fact;
mod fact_group;
mod group_domain;
mod join_graph;
mod key_filters;
mod key_match;
mod measures;
mod node;
mod planner;
mod result;
mod run;
mod shape;
mod typed_measure;

use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};

pub use exec::StarExec;
pub use planner::{StarQueryPlanner, StarRule};

/// Returns the plan that a star query stands for; `None` for other nodes.
pub fn replaced_plan(node: &dyn UserDefinedLogicalNode) -> Option<&LogicalPlan> {
    let node = node.as_any().downcast_ref::<node::StarNode>()?;
    Some(&node.replaced)
}
