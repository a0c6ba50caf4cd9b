//! Filters as code predicates.

mod intervals;
