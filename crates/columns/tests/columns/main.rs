//! Tables, from batch to batch: round trips, selections, errors, damage and crashes.

mod common;
mod tables;
mod writing;
