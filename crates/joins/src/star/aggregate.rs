//! Aggregates.
//!
//! Sums of integers have up to 128 bits, which cannot overflow; the caller checks that a sum fits its type.
//! Sums of floats are added in an order that depends on threads and groups, each addition rounded to a
//! double. Minimum and maximum of floats are those of their total order ([`f64::total_cmp`]).

use super::measure::Measure;

/// Most groups that rows of a dimension should be given.
pub const MOST_GROUPS: usize = 1 << 20;

/// An aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// The sum of its values.
    Sum,
    /// The number of values that are not NULL.
    Count,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}

/// A function of a measure. An average is a sum and a count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Aggregate {
    /// The function.
    pub function: Function,
    /// Its argument.
    pub measure: Measure,
    /// The position of the condition, among those of [`StarJoin::filter`](super::StarJoin::filter), that
    /// rows must match; all rows do without.
    pub filter: Option<usize>,
}
