//! `compact` and `vacuum`.

use std::path::PathBuf;

use clap::Args;
use halocline_terminal::size;

use super::OpenArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Each load and each large change adds segments to a table, and deleted rows stay in theirs. Compaction merges segments
where that is worth it; queries go on meanwhile, other writers get their turn after each merge. Ctrl-C ends it; what
was merged before stays. The space that becomes free is used by later writes; `halocline vacuum` gives it back.

Examples:
  halocline compact shop.pool
  halocline compact shop.pool orders --memory 512M --bandwidth 50M/s
  halocline compact shop.pool orders --full      after ALTER TABLE … CLUSTER BY: sorts all rows")]
pub(crate) struct CompactArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// The table [default: all of them]
    pub(crate) table: Option<String>,
    /// Bytes it may write per second, as 50M/s [default: as many as it can]
    #[arg(long, value_name = "SIZE/s", value_parser = size::parse_rate)]
    pub(crate) bandwidth: Option<u64>,
    /// Write all segments anew, also those that are good as they are
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  halocline vacuum shop.pool
  halocline vacuum shop.pool --memory 512M")]
pub(crate) struct VacuumArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
