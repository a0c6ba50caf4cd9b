//! `calibrate`.

use std::path::PathBuf;

use clap::Args;
use halocline_calibrate::CalibrateTarget;
use halocline_terminal::size;

#[derive(Debug, Args)]
#[command(after_help = "\
Measures latencies, bandwidths by number of threads, the access unit and hash probes, of the medium under DIR and of
DRAM beside it. Writes DIR/halocline.profile.json, which holds for the pools in DIR and below on the same file system;
`halocline info POOL` shows it. The scratch files have no names: nothing is left, also after Ctrl-C or a crash.

Examples:
  halocline calibrate /mnt/pmem
  halocline calibrate /mnt/disk --thorough --json > disk.json
  halocline calibrate numa:1 --out cxl.json              memory of a NUMA node, as CXL memory appears")]
pub(crate) struct CalibrateArgs {
    /// A directory on the medium, or numa:N for the memory of a NUMA node
    #[arg(value_name = "DIR|numa:N")]
    pub(crate) target: CalibrateTarget,
    /// Bytes to range over, rounded down to a power of two [default: far more than the caches, 256M to 1G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) size: Option<u64>,
    /// The largest number of threads, 1024 at most [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Measure ten times longer
    #[arg(long)]
    pub(crate) thorough: bool,
    /// Write the profile to this file [default: DIR/halocline.profile.json; none for numa:N]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
