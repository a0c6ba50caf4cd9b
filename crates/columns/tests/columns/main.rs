//! Tables, from batch to batch: round trips, selections, errors, damage and crashes.

mod common;
mod crash;
mod damage;
mod tables;
mod writing;
