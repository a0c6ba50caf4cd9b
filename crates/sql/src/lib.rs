//! SQL statements as texts, syntax trees and logical plans: parsing, checked semantics, names, types, splitting
//! of scripts, errors, and the stacks and cancellation of statements.
//!
//! Nothing in this crate opens a pool.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "a part of the engine: its documentation is read with that of private items"
)]

pub mod cancel;
pub mod duration;
pub mod error;
pub mod evaluated_once;
pub mod functions;
mod hint;
pub mod index_spec;
pub mod lexer;
pub mod literal_expr;
pub mod names;
pub mod nesting;
pub mod parameters;
pub mod parse;
pub mod placement_spec;
pub mod question_marks;
pub mod row_value;
pub mod semantics;
pub mod size;
pub mod split;
pub mod sql_types;
pub mod stack;
pub mod syntax;
pub mod table_spec;
pub mod unsupported;
pub mod using;

pub use error::EngineError;

/// Name of the catalog that a pool is in SQL.
pub const CATALOG: &str = "halocline";
/// Name of the schema of its tables.
pub const SCHEMA: &str = "public";
/// Another name of this schema, under which it has nothing of the session.
pub const POOL_SCHEMA: &str = "main";
