//! Generators of data and queries for experiments, the demo and tests.
//!
//! - [`UniformTable`]: rows x dimensions x cardinality, as in the Elf papers;
//! - [`Zipf`]: skewed row choice after Gray et al. (SIGMOD'94), and [`queries`] made of it: exact match,
//!   range and partial match;
//! - [`YcsbGenerator`]: the core workloads A-F of YCSB over keys and values, and [`YcsbRun`], which runs them
//!   against a [`YcsbStore`];
//! - [`TpchTable`]: the TPC-H tables as Arrow batches, and [`write_tpch_parquet`];
//! - [`SsbTable`]: the tables of the Star Schema Benchmark as Arrow batches, [`write_ssb_parquet`], the
//!   thirteen [`ssb_queries`], and [`TblReader`] for the files of the public generator;
//! - the 22 [`tpch_queries`];
//! - [`WideSpec`]: rows with long strings, all different;
//! - [`tpch_selections`] and [`tpch_q6_sql`]: the selections over `lineitem` in TPC-H;
//! - [`ConjunctionGenerator`]: random conjunctions over `lineitem` with a given selectivity.
//!
//! Invariant: the same seed yields the same data and queries in every release and on every machine,
//! whatever the number of threads. For this reason the crate has its own random numbers
//! ([`SplitMix64`]); the streams of another crate might change.
//!
//! Without the default feature `tables` there are only the random numbers, [`Zipf`] and YCSB, and no
//! dependency on Arrow and Parquet.
//!
//! Conjunctions are values, not text: one can be printed as SQL or passed to the index API, predicate by
//! predicate.

#[cfg(feature = "tables")]
mod conjunctions;
#[cfg(feature = "tables")]
mod literal;
#[cfg(feature = "tables")]
mod parquet_file;
#[cfg(feature = "tables")]
pub mod queries;
mod rng;
#[cfg(feature = "tables")]
mod sample;
#[cfg(feature = "tables")]
mod selection;
#[cfg(feature = "tables")]
mod ssb;
#[cfg(feature = "tables")]
mod tpch;
#[cfg(feature = "tables")]
mod tpch_queries;
#[cfg(feature = "tables")]
mod tpch_sql;
#[cfg(feature = "tables")]
mod uniform;
#[cfg(feature = "tables")]
mod wide;
mod ycsb;
mod zipf;

#[cfg(feature = "tables")]
pub use conjunctions::ConjunctionGenerator;
#[cfg(feature = "tables")]
pub use literal::Literal;
#[cfg(feature = "tables")]
pub use parquet_file::{
    ParquetCompression, ParquetOptions, write_parquet, write_ssb_parquet, write_tpch_parquet,
};
#[cfg(feature = "tables")]
pub use queries::RangeQuery;
pub use rng::SplitMix64;
#[cfg(feature = "tables")]
pub use sample::LineitemSample;
#[cfg(feature = "tables")]
pub use selection::{Condition, Conjunction, Predicate};
#[cfg(feature = "tables")]
pub use ssb::{SsbQuery, SsbTable, TblError, TblReader, ssb_queries};
#[cfg(feature = "tables")]
pub use tpch::TpchTable;
#[cfg(feature = "tables")]
pub use tpch_queries::{TpchQuery, tpch_queries};
#[cfg(feature = "tables")]
pub use tpch_sql::{lineitem_selection_columns, tpch_q6_sql, tpch_selections};
#[cfg(feature = "tables")]
pub use uniform::{UniformSpec, UniformTable};
#[cfg(feature = "tables")]
pub use wide::WideSpec;
pub use ycsb::{
    YcsbError, YcsbGenerator, YcsbOp, YcsbOutcome, YcsbPair, YcsbRun, YcsbStore, YcsbWorkload, ycsb_key,
    ycsb_value,
};
pub use zipf::{Zipf, ZipfError};
