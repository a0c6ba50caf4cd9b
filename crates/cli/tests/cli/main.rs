//! The program as its users see it: each test runs it as a process.

#[path = "../common/mod.rs"]
mod common;

mod advise;
mod bank;
mod calibrate;
mod changes;
mod damage;
mod demo;
mod documents;
mod external;
mod file_changes;
mod generate;
mod help;
mod import;
mod kv;
mod kv_stores;
mod limits;
mod pools;
mod readers;
mod sql;
