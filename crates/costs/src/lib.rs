//! The cost model of the planner: how fast the machine is, what access paths and joins cost on it, and how
//! many rows they return.
//!
//! - [`machine`] holds the parameters: nanoseconds per step on one thread, and what the measured profile of a
//!   medium says about its speed.
//! - [`access`] has the costs of the paths to the rows of a table: scans, selections through an Elf, fetches
//!   of columns, and reads of what is not in memory.
//! - [`join`] has the costs of join algorithms, of join orders, and of the probes of a star join.
//! - [`cardinality`] has selectivities, distinct values, and the rows of joins.
//!
//! All formulas are functions of numbers and small structures, which the crates above gather from tables,
//! indexes and plans. What an index knows of itself, as the lists that a selection visits, is estimated by
//! the index.
//!
//! Units are in the name or the documentation of each number: nanoseconds for access paths, seconds for join
//! algorithms, bytes, rows, and shares from 0 to 1. Inputs are not checked: a formula returns a finite
//! number for finite inputs that are not negative.

pub mod access;
pub mod cardinality;
pub mod join;
pub mod machine;
