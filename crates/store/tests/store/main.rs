//! Stores as a user of the crate sees them: answers beside a model, transactions, other processes, kills,
//! damage, golden files.

#[path = "../common/mod.rs"]
mod common;

mod check;
mod damage;
mod features;
mod golden;
mod golden_loaded;
mod golden_ranges;
mod growth;
mod kill;
mod load;
mod model;
mod readers;
mod replaced;
mod scans;
mod together;
mod transactions;
