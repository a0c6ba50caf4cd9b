//! `kv`.

use std::path::PathBuf;

use clap::Args;
use halocline_emulator::EmulatedSpec;
use halocline_ordered::TreeKind;
use halocline_terminal::args::{medium, tree_kinds};
use halocline_terminal::output::OutputFormat;
use halocline_terminal::size;

#[derive(Debug, Args)]
#[command(after_help = "\
A: half reads, half updates; B: 95 % reads, 5 % updates; C: reads; D: 95 % reads of what was inserted last, 5 % inserts;
E: 95 % scans of up to 100 entries, 5 % inserts; F: half reads, half read-modify-writes. Keys are drawn from a Zipf
distribution with theta 0.99. Each workload has a store or tree of its own in the pool, which is removed in the end; so
is the pool, if it is new.

Examples:
  halocline bench kv /dev/shm/bench.pool --workloads AC --threads 2
  halocline bench kv shop.pool --strict --commit 1000
  halocline bench kv /dev/shm/bench.pool --tree lb --records 1000000
  halocline bench kv /dev/shm/bench.pool --tree wb --hot 8MiB --workloads C")]
pub(crate) struct KvBenchArgs {
    /// The pool
    pub(crate) pool: PathBuf,
    /// Make every change survive power loss before it is acknowledged (else: the death of the process)
    #[arg(long)]
    pub(crate) strict: bool,
    /// Read and write as slowly as another medium would: emulated:optane (or cxl, nvme, dram, FILE.json),
    /// then :virtual to only count the time, or :delay [default]
    #[arg(long, value_name = "MEDIUM", value_parser = medium)]
    pub(crate) medium: Option<Box<EmulatedSpec>>,
    /// Letters of the workloads
    #[arg(long, default_value = "ABCDEF")]
    pub(crate) workloads: String,
    /// Entries to load
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) records: u64,
    /// Operations of each workload
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) operations: u64,
    /// Threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: u64,
    /// Operations between two commits of a thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) commit: u64,
    /// Bytes of each value
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) value_bytes: u32,
    /// Seed of the operations
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Measure a tree of this kind, whose values are numbers, instead of a store
    #[arg(long, value_name = "KIND", value_parser = tree_kinds())]
    pub(crate) tree: Option<TreeKind>,
    /// Put a cache of hot keys of this size in front of the tree
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "tree")]
    pub(crate) hot: Option<u64>,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
}
