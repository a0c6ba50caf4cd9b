//! Tests with injected faults, and of crashes.

mod check;
mod crash;
mod deferred;
mod faults;
mod format;
mod killed;
mod page_cache;
mod reclaim;
mod rules;
mod scan;
mod workload;
