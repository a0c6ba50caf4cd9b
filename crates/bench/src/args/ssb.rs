//! Options of the Star Schema Benchmark.

use clap::{Args, ValueEnum};
use halocline_bench::Ssb;
use halocline_engine::TableEncoding;

#[derive(Debug, Args)]
#[command(
    next_help_heading = "The Star Schema Benchmark; each value is measured with those of the other options"
)]
pub(crate) struct SsbArgs {
    /// How tables are stored, separated by commas: chosen (chunk by chunk, what is smallest), plain (as wide
    /// as the types) [default: chosen]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    encoding: Vec<TableEncoding>,
    /// Columns by which lineorder is sorted, separated by commas; none: as it is generated [default: none]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sort: Vec<String>,
    /// The star join, or DataFusion's joins over the same pool, separated by commas [default: on]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    star: Vec<OnOff>,
    /// One thread beside all of them, and a tenth of the scale factor beside it
    #[arg(long)]
    scaling: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnOff {
    /// One fused pipeline
    On,
    /// DataFusion's joins
    Off,
}

impl SsbArgs {
    pub(crate) fn ssb(&self) -> Ssb {
        let sorts = self
            .sort
            .iter()
            .map(|column| (column != "none").then(|| column.clone()));
        Ssb {
            encodings: self.encoding.clone(),
            sorts: sorts.collect(),
            star: self.star.iter().map(|star| *star == OnOff::On).collect(),
            scaling: self.scaling,
        }
    }
}
