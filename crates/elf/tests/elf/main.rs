//! The index as a user of the crate sees it: answers beside brute force, placements, damage, golden files.

#[path = "../common/mod.rs"]
mod common;

mod advise;
mod brute_force;
mod damage;
mod first_read;
mod forecast;
mod golden;
mod keep;
mod placements;
mod read_ahead;
mod refresh;
mod tables;
mod volatile;
mod worked_example;
mod workers;
