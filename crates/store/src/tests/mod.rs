//! Tests with injected faults, and of crashes.

mod check;
mod checkpoint_bytes;
mod crash;
mod deferred;
mod expired;
mod faults;
mod format;
mod full_disk;
mod give_back;
mod hidden;
mod joint;
mod killed;
mod links;
mod load;
mod misplaced;
mod offsets;
mod page_cache;
mod placed;
mod reclaim;
mod rules;
mod sample;
mod scan;
mod workload;
