//! SQL over a pool, through DataFusion.
//!
//! A [`Database`] is a pool seen as a SQL catalog: its tables answer queries, its Elf indexes answer
//! selections, and what changes it (a statement, or all from `BEGIN` to `COMMIT`) becomes visible and durable
//! at once: by a record of the pool's log if it is small, else by publishing a generation.
//!
//! DataFusion is extended at its public seams (table providers, optimizer rules, extension nodes, statements
//! that are matched on their syntax tree) and is not patched.
//!
//! Invariants:
//! - a statement sees one version of the database, taken when it starts, and no concurrent changes;
//! - a statement that fails leaves the pool as it was;
//! - a result does not depend on the access path: `halocline.index = off | auto | force` return the same
//!   rows.

mod advise;
mod builder;
mod check;
mod compaction_thread;
mod copy_to;
mod database;
#[doc(hidden)]
pub mod ddl;
mod import_run;
mod info;
mod keywords;
mod macros;
mod opening;
mod params;
mod prepared;
mod providers;
#[doc(hidden)]
pub mod reference;
mod result;
mod scrub_thread;
mod session;
mod statement;
mod stores;
mod temporary;
#[cfg(test)]
mod tests;
mod trees;
mod views;

pub use advise::advice::IndexAdvice;
pub use advise::indexes::{
    IndexSetAdvice, IndexSetOptions, ProposedIndex, QueryForecast, UnusedIndex, WorkloadQuery,
};
pub use builder::DatabaseBuilder;
pub use database::Database;
pub use datafusion::common::ScalarValue;
pub use halocline_cache::Placement;
pub use halocline_catalog::options::DatabaseOptions;
pub use halocline_catalog::settings::Compaction;
pub use halocline_columns::{TableEncoding, TableRule};
pub use halocline_elf::{Advice, Advised, Layout, Order, PlaceOptions};
pub use halocline_emulator::EmulatedSpec;
pub use halocline_import::{
    DecidingValue, DialectReport, ImportError, ImportFault, ImportFormat, ImportOptions, ImportProgress,
    ImportReport, InferredColumn, QuoteOption, SourceLocation,
};
pub use halocline_ordered::{OrderedIndex, TreeKind};
pub use halocline_scan::keyed::{KeyedColumnInfo, KeyedTableInfo};
pub use halocline_sql::duration::parse_duration;
pub use halocline_sql::error::EngineError;
pub use halocline_sql::index_spec::IndexSpec;
pub use halocline_sql::lexer::{SqlPart, SqlParts, trim_sql};
pub use halocline_sql::size::parse_size;
pub use halocline_sql::sql_types::{parse_column, parse_schema};
pub use info::{
    ColumnInfo, DamagedKind, DamagedObject, DatabaseCheckProgress, DatabaseCheckReport, DatabaseInfo,
    IndexInfo, MacroInfo, PoolFileInfo, TableInfo, ViewInfo,
};
pub use prepared::PreparedStatement;
pub use result::{BatchStream, QueryResult};
pub use statement::{CompactOptions, CompactProgress, CompactReport};
