//! Generators of data and queries for experiments, the demo and tests.
//!
//! - [`UniformTable`]: rows x dimensions x cardinality, as in the Elf papers;
//! - [`Zipf`]: skewed row choice after Gray et al. (SIGMOD'94), and [`queries`] made of it: exact match,
//!   range and partial match;
//! - [`YcsbGenerator`]: the core workloads A-F of YCSB over keys and values;
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
//! Conjunctions are values, not text: one can be printed as SQL or passed to the index API, predicate by
//! predicate.

mod conjunctions;
mod literal;
mod parquet_file;
pub mod queries;
mod rng;
mod sample;
mod selection;
mod ssb;
mod tpch;
mod tpch_queries;
mod tpch_sql;
mod uniform;
mod wide;
mod ycsb;
mod zipf;

pub use conjunctions::ConjunctionGenerator;
pub use literal::Literal;
pub use parquet_file::{
    ParquetCompression, ParquetOptions, write_parquet, write_ssb_parquet, write_tpch_parquet,
};
pub use queries::RangeQuery;
pub use rng::SplitMix64;
pub use sample::LineitemSample;
pub use selection::{Condition, Conjunction, Predicate};
pub use ssb::{SsbQuery, SsbTable, TblError, TblReader, ssb_queries};
pub use tpch::TpchTable;
pub use tpch_queries::{TpchQuery, tpch_queries};
pub use tpch_sql::{lineitem_selection_columns, tpch_q6_sql, tpch_selections};
pub use uniform::{UniformSpec, UniformTable};
pub use wide::WideSpec;
pub use ycsb::{YcsbGenerator, YcsbOp, YcsbWorkload, ycsb_key, ycsb_value};
pub use zipf::{Zipf, ZipfError};
