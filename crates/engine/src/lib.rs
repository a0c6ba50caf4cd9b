//! SQL over a pool, through DataFusion.
//!
//! A [`Database`] is a pool seen as a SQL catalog: its tables answer queries, its Elf indexes answer
//! selections, and what changes it (a statement, or all from `BEGIN` to `COMMIT`) becomes visible and durable
//! at once: by a record of the pool's log if it is small, else by publishing a generation.
//!
//! Invariants:
//! - a statement sees one version of the database, taken when it starts, and no concurrent changes;
//! - a statement that fails leaves the pool as it was;
//! - a result does not depend on the access path: `halocline.index = off | auto | force` return the same
//!   rows.

mod advise;
mod background;
mod builder;
mod cancel;
mod catalog;
mod check;
mod coded_join;
mod compaction_thread;
mod config;
mod context;
mod copy_to;
mod database;
mod delta;
mod duration;
mod equi_keys;
mod error;
mod estimate;
mod file_column;
mod filter;
mod import;
mod info;
mod join_order;
mod key_runs;
mod keyed;
mod materialized;
mod memory;
mod names;
mod nesting;
mod options;
mod params;
mod placements;
mod plan;
mod prepared;
mod providers;
mod query_memory;
#[doc(hidden)]
pub mod reference;
mod result;
mod scrub;
mod scrub_thread;
mod semantics;
mod session;
mod size;
mod sliced_size;
mod sort_aggregate;
mod spill_files;
mod spill_join;
mod spill_window;
mod spill_writer;
mod stack;
mod star;
mod statement;
mod storable;
mod stores;
mod string_views;
mod syntax;
#[cfg(test)]
mod tests;
mod threads;
mod tiers;
mod transaction;
mod trees;
mod tuning;
mod unnest;
mod using;
mod write;

pub use advise::advice::IndexAdvice;
pub use advise::indexes::{
    IndexSetAdvice, IndexSetOptions, ProposedIndex, QueryForecast, UnusedIndex, WorkloadQuery,
};
pub use builder::DatabaseBuilder;
pub use config::Compaction;
pub use database::Database;
pub use datafusion::common::ScalarValue;
pub use duration::parse_duration;
pub use error::EngineError;
pub use halocline_cache::Placement;
pub use halocline_columns::TableEncoding;
pub use halocline_elf::{Advice, Advised, Layout, Order, PlaceOptions};
pub use halocline_emulator::EmulatedSpec;
pub use halocline_ordered::{OrderedIndex, TreeKind};
pub use import::{
    DecidingValue, DialectReport, ImportError, ImportFault, ImportFormat, ImportOptions, ImportProgress,
    ImportReport, InferredColumn, QuoteOption, SourceLocation,
};
pub use info::{
    ColumnInfo, DamagedKind, DamagedObject, DatabaseCheckProgress, DatabaseCheckReport, DatabaseInfo,
    IndexInfo, PoolFileInfo, TableInfo,
};
pub use keyed::{KeyedColumnInfo, KeyedTableInfo};
pub use options::{DatabaseOptions, IndexSpec};
pub use prepared::PreparedStatement;
pub use result::{BatchStream, QueryResult};
pub use size::parse_size;
pub use statement::{CompactOptions, CompactProgress, CompactReport, SqlPart, SqlParts, trim_sql};
