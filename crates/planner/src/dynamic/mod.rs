//! The way of dynamic filters from the operators that set them to the scans that test them.

mod build_keys;
mod columns;
mod rule;

pub use columns::sources;
pub use rule::DynamicFilterRule;
