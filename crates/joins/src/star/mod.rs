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
//!
//! A row is grouped by its groups in the dimensions and by columns of the fact table. The pipeline without
//! dimensions is an aggregate over one table: blocks of which many rows match the conditions are decoded as a
//! whole. See [`Groups`] for how groups are kept.

mod accumulate;
mod aggregate;
mod aggregate_filter;
mod aggregation;
mod decoded;
mod dense;
mod dimension;
mod dimension_builder;
mod group_column;
mod group_table;
mod groups;
mod hash_index;
mod key;
mod layout;
mod measure;
mod measure_values;
mod merge;
mod narrow;
mod operation;
mod order;
mod payload;
mod pipeline;
mod plan;
mod program;
mod rows;
mod run;
mod sparse;
mod strings;
mod stripe;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_floats;
#[cfg(test)]
mod tests_groups;
#[cfg(test)]
mod tests_payload;
mod wide;

pub use aggregate::{Aggregate, Function, MOST_GROUPS};
pub use aggregate_filter::AggregateFilter;
pub use decoded::DecodedRows;
pub use dimension::Dimension;
pub use dimension_builder::DimensionBuilder;
pub use group_column::{GroupCodes, GroupColumn};
pub use groups::{GroupCursor, GroupStates, Groups};
pub use measure::{Measure, MeasureSource, Width};
pub use measure_values::{CodedValues, MeasureValues};
pub use order::estimated_probe_cost;
pub use run::{Probe, SegmentRows, StarJoin, StarStats};
pub use strings::has_string_keys;
