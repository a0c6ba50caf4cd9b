//! Targets of a calibration, and how long it takes: [`CalibrateTarget`], [`CalibrateOptions`].

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Memory to measure. Its textual form is the path of a directory, or `numa:N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalibrateTarget {
    /// Files in a directory.
    Directory(PathBuf),
    /// Memory of a NUMA node.
    NumaNode(u32),
}

impl FromStr for CalibrateTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<CalibrateTarget, String> {
        match text.strip_prefix("numa:") {
            None => Ok(CalibrateTarget::Directory(Path::new(text).to_owned())),
            Some(node) => match node.parse() {
                Ok(node) => Ok(CalibrateTarget::NumaNode(node)),
                Err(_) => Err(format!("`{node}` is not the number of a NUMA node; write numa:1")),
            },
        }
    }
}

/// Options of a calibration.
#[derive(Debug, Clone)]
pub struct CalibrateOptions {
    /// Bytes to range over, rounded down to a power of two of at least 1 MiB per thread. `None`: eight times
    /// the last-level cache, from 256 MiB to 1 GiB, as far as memory allows.
    pub bytes: Option<u64>,
    /// The largest number of threads; 0 is taken for 1.
    pub threads: u32,
    /// Time of each of the single measurements, of which there are about a hundred.
    pub time: Duration,
}

impl Default for CalibrateOptions {
    /// Returns options for seconds of measurement, with up to one thread per CPU.
    fn default() -> CalibrateOptions {
        CalibrateOptions {
            bytes: None,
            threads: cpus(),
            time: Duration::from_millis(30),
        }
    }
}

impl CalibrateOptions {
    /// Returns options for a measurement that takes ten times longer.
    #[must_use]
    pub fn thorough() -> CalibrateOptions {
        CalibrateOptions {
            time: Duration::from_millis(300),
            ..CalibrateOptions::default()
        }
    }
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}
