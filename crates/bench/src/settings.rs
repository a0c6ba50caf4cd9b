//! Options of the experiments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;

use tempfile::TempDir;

use crate::{Backing, BenchError, Ssb, Tiers, Trees};

/// Options of the experiments; each experiment has defaults for those left out.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// A smoke test in seconds instead of a measurement.
    pub quick: bool,
    /// Rows of synthetic tables.
    pub rows: Option<usize>,
    /// Scale factor of TPC-H or of the Star Schema Benchmark.
    pub scale_factor: Option<f64>,
    /// Seed of data and queries.
    pub seed: u64,
    /// Threads where several are used; all by default.
    pub threads: Option<usize>,
    /// Repetitions of each measurement, of which the median counts.
    pub repetitions: Option<usize>,
    /// Where pools are made; the temporary directory by default.
    pub directory: Option<PathBuf>,
    /// The program `halocline`, for steps in processes of their own that are its commands.
    pub program: Option<PathBuf>,
    /// Program and arguments to which a pool and a query are added for
    /// [`measure`](halocline_measure::reopen::measure) in a fresh process; empty if there is none, and the
    /// same process opens the pool again.
    pub reopen: Vec<OsString>,
    /// Options of the experiments on two tiers of memory.
    pub tiers: Tiers,
    /// Options of the experiments on ordered trees.
    pub trees: Trees,
    /// Options of the Star Schema Benchmark.
    pub ssb: Ssb,
    /// Bytes of memory for a join.
    pub memory: Option<u64>,
    /// Storage of trees and pools, in experiments that compare several media; each has a default.
    pub on: Vec<Backing>,
}

impl Settings {
    /// Returns the number of threads to use.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
            .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
    }

    /// Returns the number of repetitions: as requested, or `full`, or 2 for a smoke test.
    #[must_use]
    pub fn repetitions(&self, full: usize) -> usize {
        self.repetitions.unwrap_or(if self.quick { 2 } else { full })
    }

    /// Returns the requested storage of trees or pools, or `default`.
    pub(crate) fn backings<'a>(&'a self, default: &'a [Backing]) -> &'a [Backing] {
        if self.on.is_empty() { default } else { &self.on }
    }

    /// Returns the program `halocline`. `what` names the process of it that an experiment needs.
    ///
    /// # Errors
    /// The settings name no program.
    pub(crate) fn program_for(&self, what: &str) -> Result<&Path, BenchError> {
        self.program.as_deref().ok_or_else(|| {
            BenchError::Setup(format!(
                "{what} is one of the program `halocline`, which does not lie beside this program; `cargo build \
                 --release` builds it"
            ))
        })
    }

    /// Creates a directory for this run, which is removed when the returned value is dropped.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn temporary_directory(&self) -> Result<TempDir, BenchError> {
        let builder = || tempfile::Builder::new().prefix("halocline-bench-").to_owned();
        Ok(match &self.directory {
            Some(parent) => builder().tempdir_in(parent)?,
            None => builder().tempdir()?,
        })
    }
}
