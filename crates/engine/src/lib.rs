//! SQL over a pool, through DataFusion.
//!
//! A [`Database`] is a pool seen as a SQL catalog: its tables answer queries, its Elf indexes answer selections, and
//! the statements that change it (`CREATE TABLE … AS`, `DROP TABLE`, `CREATE INDEX … USING elf`, `DROP INDEX`, imports)
//! are published by one atomic switch each.
//!
//! Invariants:
//! - a statement sees one snapshot of the pool, taken when it starts, and nothing of a statement beside it;
//! - a statement that fails leaves the pool as it was;
//! - an answer does not depend on the way to it: `halocline.index = off | auto | force` give the same rows.
mod catalog;
mod check;
mod config;
mod database;
mod error;
mod filter;
mod import;
mod info;
mod plan;
mod result;
mod session;
mod statement;
mod storable;

pub use config::IndexMode;
pub use database::{Database, DatabaseOptions, IndexSpec};
pub use error::EngineError;
pub use halocline_elf::{Layout, Order};
pub use import::{Format, ImportError, ImportFault, ImportOptions, ImportProgress, ImportReport, Place};
pub use info::{CheckProgress, CheckReport, ColumnInfo, IndexInfo, Info, PoolInfo, TableInfo};
pub use result::{BatchStream, QueryResult};
