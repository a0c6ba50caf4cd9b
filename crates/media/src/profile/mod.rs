//! The measured performance of a medium beside DRAM: [`Profile`].
//!
//! A profile is written by a calibration (the crate `calibrate`) and read by whoever chooses between plans or
//! models a device. Whoever reads one from a file gets figures that are consistent: see `check`.

mod check;
mod error;
mod file;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use check::ProfileInconsistency;
pub use error::ProfileError;

/// The measured performance of a medium, and of DRAM in the same run. Bandwidths are in bytes per second,
/// times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The version of the format: [`Profile::VERSION`].
    pub version: u32,
    /// The kind of medium.
    pub medium: ProfiledMedium,
    /// The type of the file system, as `ext4`; empty for memory of a NUMA node.
    pub file_system: String,
    /// Bytes that the measurements ranged over.
    pub bytes: u64,
    /// Bytes of the last-level cache. If [`bytes`](Self::bytes) is not much more, the figures include its
    /// effect.
    pub cache_bytes: u64,
    /// CPUs of the process, the largest number of threads.
    pub cpus: u32,
    /// Figures of the medium. Through the page cache: with all pages resident.
    pub warm: AccessFigures,
    /// Figures of the device below the page cache, if there is one.
    pub cold: Option<AccessFigures>,
    /// Figures of anonymous memory on huge pages.
    pub dram: AccessFigures,
}

/// The kind of a measured medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProfiledMedium {
    /// Files on a DAX file system.
    Dax,
    /// Files in memory, as on tmpfs.
    MemoryFile,
    /// Files of a device behind the page cache.
    PageCache,
    /// Anonymous memory of a NUMA node, which may be CXL memory.
    NumaNode(u32),
}

/// Latencies and bandwidths of one kind of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessFigures {
    /// Time of a read that waits for the read before, of the next line (or of the next page of a device).
    pub sequential_read_ns: f64,
    /// Time of a read that waits for the read before, at a random line (or page of a device).
    pub random_read_ns: f64,
    /// Sequential read bandwidth of all threads together, by number of threads.
    pub read: Vec<Rate>,
    /// Sequential write bandwidth of all threads together, flushed, by number of threads.
    pub write: Vec<Rate>,
    /// The largest read bandwidth.
    pub peak_read: f64,
    /// The largest write bandwidth.
    pub peak_write: f64,
    /// The smallest number of threads that reaches the peak write bandwidth up to 5 %.
    pub writers: u32,
    /// Bytes that an access moves.
    pub unit: u64,
    /// True if the unit was found in the sweep over strides, false if it is the one known for the kind.
    pub unit_measured: bool,
    /// Time to store a word, flush and fence it. For a device: to write a page and `fdatasync` it.
    pub persist_ns: f64,
    /// Time per value of a column of which every j-th value is read. Empty for a device.
    pub strides: Vec<StrideFigures>,
    /// Time of a hash probe by size of the table. Empty for a device.
    pub probes: Vec<ProbeFigures>,
}

/// A bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Number of threads.
    pub threads: u32,
    /// Bytes per second of all threads together.
    pub bytes_per_second: f64,
}

/// The cost of reading 4-byte values at regular distances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrideFigures {
    /// Bytes from one value that is read to the next.
    pub stride: u64,
    /// Time per value that is read.
    pub value_ns: f64,
}

/// The cost of a probe of a hash table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeFigures {
    /// Bytes of the table.
    pub bytes: u64,
    /// Time per probe of a batch whose reads overlap.
    pub batched_ns: f64,
    /// Time of a probe whose key depends on the result of the probe before.
    pub dependent_ns: f64,
}

impl Profile {
    /// The version that this crate writes, and the only one it reads.
    pub const VERSION: u32 = 1;

    /// The file name of a profile.
    pub const FILE_NAME: &'static str = "halocline.profile.json";

    /// Returns the medium in words, as `page-cache file on ext4`.
    #[must_use]
    pub fn medium_text(&self) -> String {
        match self.file_system.as_str() {
            "" => self.medium.to_string(),
            name => format!("{} on {name}", self.medium),
        }
    }
}

impl AccessFigures {
    /// Returns λ: the peak read bandwidth divided by the peak write bandwidth.
    #[must_use]
    pub fn lambda(&self) -> f64 {
        self.peak_read / self.peak_write
    }

    /// Returns the read bandwidth of `threads` threads: the one measured for that number or else for the
    /// next lower one.
    #[must_use]
    pub fn read_bandwidth(&self, threads: u32) -> f64 {
        rate_of(&self.read, threads)
    }

    /// Returns the write bandwidth of `threads` threads, as [`read_bandwidth`](Self::read_bandwidth) does.
    #[must_use]
    pub fn write_bandwidth(&self, threads: u32) -> f64 {
        rate_of(&self.write, threads)
    }

    /// Returns the cost of probing a table of that size: interpolated between the measured sizes on a
    /// logarithmic scale, and that of the nearest size outside of their range. `None` if no probes were
    /// measured.
    #[must_use]
    pub fn probe(&self, bytes: u64) -> Option<ProbeFigures> {
        let (first, last) = (self.probes.first()?, self.probes.last()?);
        let above = self.probes.partition_point(|cost| cost.bytes < bytes);
        let Some(high) = self.probes.get(above) else {
            return Some(ProbeFigures { bytes, ..*last });
        };
        let Some(low) = above.checked_sub(1).map(|below| &self.probes[below]) else {
            return Some(ProbeFigures { bytes, ..*first });
        };
        let log = |bytes: u64| (bytes as f64).log2();
        let share = (log(bytes) - log(low.bytes)) / (log(high.bytes) - log(low.bytes));
        let between = |low: f64, high: f64| low + (high - low) * share;
        Some(ProbeFigures {
            bytes,
            batched_ns: between(low.batched_ns, high.batched_ns),
            dependent_ns: between(low.dependent_ns, high.dependent_ns),
        })
    }
}

/// Returns the bandwidth of the largest number of threads up to `threads`, or else of the smallest one.
fn rate_of(rates: &[Rate], threads: u32) -> f64 {
    let found = rates.iter().rev().find(|rate| rate.threads <= threads);
    found.or(rates.first()).map_or(0.0, |rate| rate.bytes_per_second)
}

impl fmt::Display for ProfiledMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfiledMedium::Dax => f.write_str("DAX file"),
            ProfiledMedium::MemoryFile => f.write_str("file in memory"),
            ProfiledMedium::PageCache => f.write_str("page-cache file"),
            ProfiledMedium::NumaNode(node) => write!(f, "memory of NUMA node {node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check::tests::profile;
    use super::*;

    #[test]
    fn rates_between_measured_numbers_of_threads() {
        let figures = profile().warm;
        assert_eq!(figures.read_bandwidth(1), 4.1e9);
        assert_eq!(figures.read_bandwidth(3), 8e9);
        assert_eq!(figures.read_bandwidth(100), 32e9);
        assert_eq!(figures.read_bandwidth(0), 4.1e9);
        assert_eq!(figures.write_bandwidth(2), 8.5e9);
        assert!((figures.lambda() - 32.0 / 8.5).abs() < 1e-9);
    }

    #[test]
    fn probes_between_measured_sizes() {
        let mut figures = profile().warm;
        let at = |figures: &AccessFigures, bytes| figures.probe(bytes).map(|cost| cost.batched_ns);
        assert_eq!(at(&figures, 1), Some(2.0));
        assert_eq!(at(&figures, 32 << 10), Some(2.0));
        assert_eq!(at(&figures, 1 << 20), Some(2.0 + 5.0 / 10.0 * 48.0));
        assert_eq!(at(&figures, 32 << 20), Some(50.0));
        assert_eq!(at(&figures, 1 << 40), Some(50.0));
        figures.probes.clear();
        assert_eq!(at(&figures, 1), None);
    }
}
