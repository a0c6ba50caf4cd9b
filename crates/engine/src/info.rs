//! What is in a pool, for people (`info`) and programs (it serialises).

use std::path::PathBuf;

use serde::Serialize;

/// Everything about a database that does not depend on a query.
#[derive(Debug, Clone, Serialize)]
pub struct Info {
    /// The file.
    pub pool: PoolInfo,
    /// Tables by name.
    pub tables: Vec<TableInfo>,
    /// Indexes by name.
    pub indexes: Vec<IndexInfo>,
    /// DRAM this process holds for the open tables and indexes (dictionaries, headers), in bytes; mapped bytes of the
    /// pool are not DRAM of the engine.
    pub dram_bytes: u64,
}

/// The pool file and the medium under it.
#[derive(Debug, Clone, Serialize)]
pub struct PoolInfo {
    /// Where it is; none for a pool in DRAM.
    pub path: Option<PathBuf>,
    /// What it lies on, in words.
    pub medium: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes free for new objects without growing.
    pub free_bytes: u64,
    /// Number of the published state.
    pub generation: u64,
    /// The newest state known to survive power loss.
    pub synced_generation: u64,
    /// Identity of the pool.
    pub uuid: String,
    /// Version of the file format.
    pub format_version: u32,
}

/// One table.
#[derive(Debug, Clone, Serialize)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Bytes in the pool.
    pub bytes: u64,
    /// Columns in their order.
    pub columns: Vec<ColumnInfo>,
}

/// One column of a table.
#[derive(Debug, Clone, Serialize)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type as a SQL user writes it.
    pub r#type: String,
    /// May it be NULL.
    pub nullable: bool,
    /// How it is stored.
    pub encoding: String,
    /// Bytes in the pool.
    pub bytes: u64,
}

/// One index.
#[derive(Debug, Clone, Serialize)]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// The table it is on.
    pub table: String,
    /// `packed` or `published`.
    pub layout: String,
    /// The indexed columns in the order of the tree.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: u64,
    /// Bytes in the pool.
    pub bytes: u64,
}

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress<'a> {
    /// What is being checked: `pool`, `table t`, `index i`.
    pub part: &'a str,
    /// Steps done in all, of `total`.
    pub done: u64,
    /// Steps in all.
    pub total: u64,
}

/// What a check found.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// Bytes whose checksums were verified.
    pub bytes: u64,
    /// Tables checked.
    pub tables: usize,
    /// Indexes checked.
    pub indexes: usize,
    /// Everything that is wrong, one text each; empty means that all is well.
    pub problems: Vec<String>,
}
