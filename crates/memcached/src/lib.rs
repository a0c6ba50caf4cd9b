//! A memcached server whose items survive crashes and are there again at once.
//!
//! It speaks the text protocol of memcached 1.6 with the meta commands, so that every client of memcached can
//! use it unchanged, and keeps items in a key-value store of `halocline-store`, in trees of
//! `halocline-ordered`, or in an [`ItemStorage`] of the program. Nothing is rebuilt when it starts.
//!
//! # Structure
//! `connection` reads bytes, `session` finds requests in them, `protocol` parses lines, `replies` executes
//! and answers, `items` does what commands mean, and `storage` keeps the items. Only `connection`, `server`
//! and `background` know of the runtime.

mod args;
mod auth;
mod background;
mod cas;
mod connection;
#[cfg(test)]
mod documented;
mod error;
mod eviction;
mod expiry;
mod fault;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod item;
mod items;
mod protocol;
#[cfg(test)]
#[path = "../tests/support/random.rs"]
#[allow(clippy::print_stdout, reason = "a random test prints its seed")]
mod random;
mod receiving;
mod replies;
#[cfg(test)]
mod reply_tests;
mod server;
mod session;
#[cfg(test)]
mod session_tests;
mod settings;
mod stats;
mod storage;
mod tls;
mod workers;

pub use args::MemcachedArgs;
pub use error::MemcachedError;
pub use server::{Server, Stopper};
pub use settings::{Durability, GROUP, MAX_ITEM, ServerSettings, TlsFiles};
pub use storage::{
    ItemChange, ItemGeneration, ItemProblem, ItemStorage, ItemStorageStats, ItemsCheckReport, ScannedItem,
    StorageNumber, StoredItem, check_items,
};
