//! The program as a user runs it.

mod documents;
mod experiments;
mod help;
mod home;
mod kv;
mod memory;
