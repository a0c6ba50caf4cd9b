//! Pushdown of dynamic filters from joins and sorts to scans.

mod build_keys;
mod columns;
mod rule;

pub use columns::sources;
pub use rule::DynamicFilterRule;
