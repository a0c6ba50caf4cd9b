//! The star join as one pipeline (Shanbhag et al., DaMoN 2020, section 4; selection vectors as in the column
//! stores it builds on).
//!
//! For a few blocks of 1024 rows, it evaluates the conditions on the fact table on packed codes, then one
//! probe after the other, the most selective for its bytes first, which reduce the rows: in a bit mask while
//! many remain, then in a *selection vector*; then group numbers and measures of the remaining rows. A column
//! is read only where rows remain, from the slow tier once, into buffers that fit the CPU cache.
//!
//! Invariant: a row of the fact table takes part once, if it is live, matches the conditions, and each of its
//! keys is in its dimension; a NULL is in none.

mod aggregate;
mod decoded;
mod dense;
mod dimension;
mod key;
mod measure;
mod narrow;
mod order;
mod pipeline;
mod run;
mod sparse;
mod stripe;
#[cfg(test)]
mod tests;
mod wide;

pub use aggregate::{Aggregate, Function, GroupStates, MOST_GROUPS};
pub use decoded::DecodedRows;
pub use dimension::{Dimension, DimensionBuilder};
pub use measure::{Measure, MeasureValues, Width};
pub use order::ProbeCost;
pub use run::{Probe, StarJoin, StarStats};
