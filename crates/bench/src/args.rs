//! The command line.

mod kv;
mod ssb;
mod tiers;
mod trees;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use halocline_bench::Backing;
use halocline_terminal::args::scale_factor;
use halocline_terminal::size;

pub(crate) use kv::KvBenchArgs;
pub(crate) use ssb::SsbArgs;
pub(crate) use tiers::TierArgs;
pub(crate) use trees::TreeArgs;

const HELP: &str = "\
Ratios between systems are measured in one run, interleaved. --json writes one object per measured value:
{\"experiment\",\"system\",\"config\",\"metric\",\"value\",\"unit\"}, where config holds what is needed to repeat it.

Examples:
  halocline bench list
  halocline bench elf-layout --quick
  halocline bench elf-layout --rows 10000000 --json layout.jsonl
  halocline bench elf-selections --sf 1
  halocline bench elf-media --data uniform --medium emulated:optane:delay --plot figures
  halocline bench joins --memory 8M --on emulated,page-cache --plot figures
  halocline bench kv /dev/shm/bench.pool --workloads AC
  halocline bench ssb --sf 1 --on dram,emulated --encoding chosen,plain --dir /mnt/fast/ssb --plot figures";

/// Run an experiment, or list them
#[derive(Debug, Parser)]
#[command(
    name = "halocline-bench",
    version,
    args_conflicts_with_subcommands = true,
    after_help = HELP,
    max_term_width = 110
)]
pub(crate) struct BenchCli {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    #[command(flatten)]
    pub(crate) args: BenchArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure the core workloads of YCSB on a new store or tree
    Kv(KvBenchArgs),
    /// Steps the program runs in a process of their own
    #[command(subcommand, hide = true)]
    Internal(InternalStep),
}

#[derive(Debug, Subcommand)]
pub(crate) enum InternalStep {
    /// Open a pool, run one query, and print how long each took as JSON
    Reopen {
        pool: PathBuf,
        query: String,
        /// The emulated medium as JSON, with the host measured already
        #[arg(long)]
        medium: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The experiment; `list` lists them; `report` makes pages of recorded runs
    #[arg(default_value = "list")]
    pub(crate) experiment: String,
    /// With `report`: the directory of the runs, recorded with --json DIR/NAME.jsonl; the full page of each
    /// experiment and its figures are written there
    #[arg(value_name = "DIR")]
    pub(crate) recordings: Option<PathBuf>,
    /// With `report`: the file of the short page, in Markdown [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Append the measured values to this file as JSON Lines, compressed if its name ends in .zst
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// A smoke test in seconds instead of a measurement
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rows of synthetic tables
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: Option<u32>,
    /// Scale factor of TPC-H or SSB
    #[arg(long, value_name = "FACTOR", value_parser = scale_factor)]
    pub(crate) sf: Option<f64>,
    /// Seed of data and queries
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Threads where an experiment uses several [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
    /// Repetitions; the median counts
    #[arg(long, alias = "rounds", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// Where pools are made (the medium that is measured) [default: the temporary directory]; ssb and
    /// tpch-tiers keep their files there, and use those they find
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Memory for a join, as 64M; the sizes of its inputs are multiples of it [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) memory: Option<u64>,
    /// Media of the trees (or of the pools of ssb, of access patterns, of joins), separated by commas: dram
    /// (not for trees), dax (a file in /dev/shm, taken for one), page-cache (a file in --dir), emulated
    /// (as --medium says, in DRAM) [default: all, page-cache for ssb]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) on: Vec<Backing>,
    #[command(flatten)]
    pub(crate) tiers: TierArgs,
    #[command(flatten)]
    pub(crate) trees: TreeArgs,
    #[command(flatten)]
    pub(crate) ssb: SsbArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        BenchCli::command().debug_assert();
    }

    #[test]
    fn experiments_stand_beside_subcommands() {
        let parse = |line: &str| BenchCli::try_parse_from(line.split(' '));
        let open = parse("halocline-bench open --quick --seed 7").unwrap();
        assert!(open.command.is_none() && open.args.experiment == "open" && open.args.seed == 7);
        assert_eq!(parse("halocline-bench").unwrap().args.experiment, "list");
        let kv = parse("halocline-bench kv p --workloads AC").unwrap();
        assert!(matches!(kv.command, Some(BenchCommand::Kv(kv)) if kv.workloads == "AC"));
    }
}
