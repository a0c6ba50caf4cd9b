//! Dynamic filters: conditions that operators above a scan find out while the query runs.
//!
//! A hash join knows the keys of its build side before it reads the other side; `ORDER BY … LIMIT` knows how
//! far a row must come forward to be among the first ones. DataFusion publishes both as expressions that
//! change. A rule of the planner leads them to the scans, where they are translated to predicates on codes as
//! far as possible: zone maps then exclude chunks, an index locates the rows of few keys, and columns are
//! decoded only for rows that pass.
//!
//! Invariants: a filter only excludes rows that its operator would drop, so it may be ignored at any time,
//! and is when it cannot be evaluated or excludes too little. A scan looks for a newer state of its filters
//! before each morsel and each batch.
//!
//! The keys of a join's build side are collected as well ([`build_keys`]), so that a scan tests a bit of a
//! set of codes for each row instead of looking its key up in the hash table of the join.

mod build_keys;
mod filters;
mod index_probe;
mod key_filter;
mod partition_filters;
mod row_check;
mod segment_filter;

pub use build_keys::BuildKeys;
pub use filters::DynamicFilters;
pub use key_filter::KeyFilter;
pub(super) use partition_filters::PartitionFilters;
