//! Subqueries and lateral joins as ordinary joins, whatever they are correlated by.
//!
//! A subquery that refers to columns of the query around it is a *dependent join*: its plan runs for each row
//! of the outer plan. [`Unnest`] replaces all of them (T. Neumann, A. Kemper: Unnesting Arbitrary Queries,
//! BTW 2015; T. Neumann: Improving Unnesting of Complex Queries, BTW 2025):
//!
//! - where all correlated conditions are filters that can be lifted to the top of the subquery, they become
//!   the condition of a semi, anti, mark or lateral join ([`lift`]);
//! - else the *domain*, the distinct values of the outer expressions that the subquery uses, is pushed down
//!   into it ([`push`]), until a part is reached that depends on it no more. There the domain is joined, or,
//!   where conditions equate all of its attributes with expressions of that part, these take its place.
//!
//! Answers are three-valued: `IN`, `ANY` and `ALL` are true, false or unknown as the standard says
//! ([`quantified`]). A scalar subquery of two rows is an error where its value is used, not before
//! ([`scalar`]).
//!
//! Invariants:
//! - subqueries are replaced innermost first, so that a plan that is pushed into has joins in their place;
//! - a reference to an outer column belongs to the nearest enclosing query that has the column;
//! - the output columns of a rewritten node are those of the original one, by name and type.

mod both_sides;
mod correlation;
mod domain;
mod expressions;
mod join_conditions;
mod lateral;
mod lift;
mod names;
mod partner;
mod push;
mod push_aggregate;
mod push_join;
mod quantified;
mod reduce;
mod repeat;
mod rewrite;
mod row_value;
mod rule;
mod scalar;
mod single_row;

pub use reduce::ReducePartners;
pub use rule::Unnest;
pub use single_row::SCALAR_SUBQUERY;
