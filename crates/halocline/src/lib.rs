//! Tables and multi-dimensional indexes on persistent memory, CXL memory or NVMe, with SQL.
//!
//! A *pool* is one file that holds tables and Elf indexes. It opens in milliseconds after a restart or a
//! crash, because nothing is rebuilt.
//!
//! ```
//! use halocline::{Database, DatabaseOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("example.pool");
//! let db = Database::create(&path, &DatabaseOptions::default())?;
//! db.sql("CREATE TABLE orders AS SELECT i AS id, i % 12 AS month, i * 7 % 500 AS amount
//!         FROM generate_series(1, 10000) AS s(i)").await?;
//! db.sql("CREATE INDEX by_month ON orders USING elf (month, amount)").await?;
//!
//! let answer = db.sql("SELECT count(*) FROM orders WHERE month = 3 AND amount BETWEEN 10 AND 20").await?;
//! let rows: usize = answer.collect().await?.iter().map(|batch| batch.num_rows()).sum();
//! assert_eq!(rows, 1);
//!
//! drop(db);
//! let again = Database::open(&path, &DatabaseOptions::default())?;
//! assert_eq!(again.info()?.indexes[0].columns, ["month", "amount"]);
//! # Ok(())
//! # }
//! ```
//!
//! The crates beneath are modules here: [`pool`] for the file, [`columns`] for tables, [`elf`] for the index
//! alone, [`ordered`] for ordered trees, [`store`] for key-value stores, [`media`] for the memory it all lies
//! on, [`emulator`] for emulated slow tiers. [`datafusion`] is the version of DataFusion, and with it of
//! Arrow, that the interface uses.
//!
//! The directory `examples` of the repository has a program for each part of the interface.

pub use datafusion;
pub use halocline_columns as columns;
pub use halocline_elf as elf;
pub use halocline_emulator as emulator;
#[doc(inline)]
pub use halocline_engine::{
    Advice, Advised, BatchStream, ColumnInfo, CompactOptions, CompactProgress, CompactReport, Compaction,
    DamagedKind, DamagedObject, Database, DatabaseBuilder, DatabaseCheckProgress, DatabaseCheckReport,
    DatabaseInfo, DatabaseOptions, DecidingValue, DialectReport, EmulatedSpec, EngineError, ImportError,
    ImportFault, ImportFormat, ImportOptions, ImportProgress, ImportReport, IndexAdvice, IndexInfo,
    IndexSetAdvice, IndexSetOptions, IndexSpec, InferredColumn, Layout, Order, OrderedIndex, PlaceOptions,
    Placement, PoolFileInfo, PreparedStatement, ProposedIndex, QueryForecast, QueryResult, QuoteOption,
    ScalarValue, SourceLocation, TableEncoding, TableInfo, TreeKind, UnusedIndex, WorkloadQuery, params,
    parse_column, parse_duration, parse_schema, parse_size,
};
pub use halocline_ordered as ordered;
pub use halocline_pool as pool;
pub use halocline_store as store;

/// The memory that a pool lies on: its kinds, its measurement, and crash tests on a tracked kind.
pub mod media {
    pub use halocline_calibrate::{
        CalibrateError, CalibrateOptions, CalibrateStep, CalibrateTarget, MediumMeter, calibrate, kernels,
        numa_nodes,
    };
    pub use halocline_explore as explore;
    pub use halocline_explore::Tracked;
    pub use halocline_media::*;
}

/// Compiles the programs of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
