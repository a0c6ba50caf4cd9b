//! The C interface to stores, trees and SQL: `include/halocline.h` declares what is defined here.
//!
//! Every function returns an [`HlStatus`]; after an error [`hl_error`] describes it. Handles
//! are opaque, may be used by several threads unless stated otherwise, and stay valid in any order of
//! closing.
//!
//! Invariants: null pointers, wrong lengths and names that are not UTF-8 are errors, and no panic crosses the
//! boundary. What a caller must promise is stated at each function: that pointers are null or valid for the
//! stated length, and that a handle is not used after it was closed.
#![allow(unsafe_code, reason = "a C interface receives and returns pointers")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all arguments of a call rest on the same promise of its caller"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header documents the promises of callers once, for all functions"
)]

mod arguments;
mod batch;
mod database;
mod scan;
mod sql;
mod status;
mod store;
mod transaction;
mod tree;

pub use batch::{
    HlBatch, hl_batch_clear, hl_batch_close, hl_batch_delete, hl_batch_new, hl_batch_put, hl_write,
};
pub use database::{HlDatabase, hl_close, hl_create, hl_open, hl_version};
pub use scan::{HlScan, hl_scan, hl_scan_close, hl_scan_next};
pub use sql::hl_sql;
pub use status::{HlStatus, hl_error};
pub use store::{
    HlStore, hl_compare_and_swap, hl_delete, hl_free, hl_get, hl_put, hl_put_with_ttl, hl_store,
    hl_store_close, hl_store_drop, hl_store_len,
};
pub use transaction::{
    HlTransaction, hl_begin, hl_commit, hl_rollback, hl_transaction_delete, hl_transaction_get,
    hl_transaction_put,
};
pub use tree::{
    HlTree, hl_tree, hl_tree_close, hl_tree_create, hl_tree_get, hl_tree_insert, hl_tree_remove,
    hl_tree_scan, hl_tree_update,
};
