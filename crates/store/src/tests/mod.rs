//! Tests with injected faults, and of crashes.

mod crash;
mod faults;
mod rules;
mod workload;
