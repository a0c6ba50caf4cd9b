//! Data and query generators.
