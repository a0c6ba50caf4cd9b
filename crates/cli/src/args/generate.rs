//! `generate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use halocline_terminal::args::scale_factor;

#[derive(Debug, Args)]
#[command(after_help = "\
Writes DIR/TABLE.parquet (Zstandard) for each table. Files and rows are the same on every machine.

Examples:
  halocline generate ssb --sf 1 --dir ssb
  halocline import ssb.pool lineorder ssb/lineorder.parquet      and so on: date, customer, supplier, part
  halocline generate tpch --tables orders,lineitem")]
pub(crate) struct GenerateArgs {
    /// The benchmark whose tables are wanted
    pub(crate) benchmark: Benchmark,
    /// Scale factor; 1 is 6 million rows of the largest table
    #[arg(long, value_name = "FACTOR", default_value_t = 0.1, value_parser = scale_factor)]
    pub(crate) sf: f64,
    /// Where the files go; made if it does not exist
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Only these tables
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) tables: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Benchmark {
    /// Star Schema Benchmark: lineorder, date, customer, supplier, part
    Ssb,
    /// TPC-H, eight tables
    Tpch,
}
