//! The order of joins, which DataFusion leaves as the query has it.
//!
//! [`JoinOrderRule`] takes each largest tree of inner equi-joins, with the semi, anti and left joins within
//! it, as a graph ([`graph`]), estimates the rows of every connected part of it ([`cardinality`]), finds the
//! cheapest order ([`enumerate`]), and builds the joins anew ([`emit`]), if that is cheaper than the order of
//! the query. The left side of each join, which a hash join builds its table of, is the one with fewer rows;
//! that holds for outer joins that keep their place, too. Before that, [`OuterJoinRule`] makes inner joins of
//! outer joins where it can.
//!
//! Invariants: the rule runs after star queries are recognised, of which it orders the joins within
//! dimensions only; a graph with a table of unknown size is not reordered; a plan in the best order is
//! returned unchanged, so that the optimizer comes to an end.

mod cardinality;
mod emit;
mod enumerate;
mod graph;
mod merge_joins;
mod orders;
mod outer;
mod projections;
mod pushdown;
mod rule;
mod sides;
mod strict;
#[cfg(test)]
mod tests;

pub use outer::OuterJoinRule;
pub use rule::JoinOrderRule;
pub use sides::physical_rules;
