//! Tests that need a look inside: crashes, mistakes, failures, races.

mod crash;
mod failures;
mod mistakes;
mod workload;
