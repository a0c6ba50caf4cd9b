//! Tables, from batch to batch: round trips, selections, changes, errors, damage and crashes.

mod ahead;
mod altering;
mod change_crash;
mod changes;
mod common;
mod compaction;
mod crash;
mod damage;
mod defaults;
mod emulated;
mod encodings;
mod first_read;
mod golden;
mod model;
mod sketches;
mod strings;
mod tables;
mod wide;
mod writing;
