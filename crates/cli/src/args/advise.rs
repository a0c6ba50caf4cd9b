//! `advise`: a set of indexes, or the placement of one.

use std::path::PathBuf;

use clap::Args;
use halocline_emulator::EmulatedSpec;
use halocline_terminal::args::medium;
use halocline_terminal::size;

use super::OutputFormat;

#[derive(Debug, Args)]
#[command(after_help = "\
With --space, a set of indexes for the queries is proposed that takes no more than that in the pool, with the time that
each query is predicted to gain; for queries that gain nothing it says why. Indexes that no query uses are listed. A
comment `-- weight: 10` before a query says that it runs ten times as often as others.

With an index, its placement is advised on. Every placement is tried out on a model of the medium: half of the queries warm its caches up, the other half is measured
on a clock of its own. Queries that do not use the index are left out; nothing is changed, and no query is run.

Without --medium the pool's own is meant: a page-cache file is as fast as DRAM once it was read, so that copies do not
pay; say what the pool will lie on instead.

Examples:
  halocline advise shop.pool --queries queries.sql --space 2GiB
  halocline advise shop.pool orders_elf --dram 64MiB --queries queries.sql --medium emulated:optane
  halocline advise shop.pool orders_elf --dram 1GiB --medium emulated:cxl   made-up queries: rows, and ranges of 2 %")]
pub(crate) struct AdviseArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// The index whose placement is to be chosen
    #[arg(
        required_unless_present = "space",
        conflicts_with = "space",
        requires = "dram"
    )]
    pub(crate) index: Option<String>,
    /// Space in the pool that proposed indexes may take, as 2GiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "queries")]
    pub(crate) space: Option<u64>,
    /// DRAM that copies of the index, or of the proposed ones, may take, as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) dram: Option<u64>,
    /// SQL queries as the indexes are to answer, separated by semicolons
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// Medium of the pool, or the one planned for it: emulated:optane (or cxl, nvme, dram, FILE.json), then
    /// :absolute for the times of that profile as they are, :cache=MIB for another cache above it,
    /// :ahead=LINES for another prefetcher [default: its own medium]
    #[arg(long, value_name = "MEDIUM", value_parser = medium)]
    pub(crate) medium: Option<Box<EmulatedSpec>>,
    /// How the advice is printed
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
}
