//! The server as its clients see it.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod beside_transaction;
mod clients;
mod conversation;
mod disk_full;
mod flags;
mod golden;
mod histories;
mod hot;
mod options;
mod replaced;
mod restart;
mod signals;
mod statistics;
mod storage;
mod tls;
mod trees;
