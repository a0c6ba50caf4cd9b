//! Advice on the placement of an index: for given queries, for the running workload, and for `placement =
//! 'auto'`.
//!
//! Statements are planned and not run; scans record the conditions that an index could answer, and whether
//! the planner would choose it. Without statements, the sample is the last 256 selections of the process, or,
//! with fewer than 16, generated ones: rows, and ranges of 2 % around them.

pub(crate) mod advice;
pub(crate) mod indexes;
mod selections;
