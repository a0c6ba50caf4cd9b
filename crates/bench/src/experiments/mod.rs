//! The experiments.

mod churn;
mod elf_layout;
mod elf_selections;
mod ingest;
mod memory;
mod open;

use crate::{BenchError, Reporter, Settings};

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it measures, in one sentence.
    pub about: &'static str,
    /// The options it heeds, besides `--json`, `--quick` and `--seed`.
    pub options: &'static [&'static str],
    /// Runs it.
    pub run: fn(&Settings, &mut Reporter<'_>) -> Result<(), BenchError>,
}

/// All experiments.
#[must_use]
pub fn experiments() -> &'static [Experiment] {
    &[
        Experiment {
            name: "elf-layout",
            about: "Elf layouts packed and published on a uniform table: build, size, three query types, one thread",
            options: &["--rows", "--threads", "--repeat"],
            run: elf_layout::run,
        },
        Experiment {
            name: "elf-selections",
            about: "selections over TPC-H lineitem: Elf, our scan, and plain DataFusion in memory",
            options: &["--sf", "--threads", "--repeat", "--dir"],
            run: elf_selections::run,
        },
        Experiment {
            name: "ingest",
            about: "import of TPC-H lineitem with and without an Elf; single rows and groups on three kinds of medium",
            options: &["--sf", "--threads", "--repeat", "--dir"],
            run: ingest::run,
        },
        Experiment {
            name: "churn",
            about: "100 appends against one load, queries before and after compaction, readers beside it",
            options: &["--sf", "--threads", "--repeat", "--dir"],
            run: churn::run,
        },
        Experiment {
            name: "memory",
            about: "peak of DRAM in import, index build, append and compaction of tables larger than the budget",
            options: &["--rows", "--sf", "--threads", "--dir"],
            run: memory::run,
        },
        Experiment {
            name: "open",
            about: "open and first query after a restart, by size of the pool",
            options: &["--repeat", "--dir"],
            run: open::run,
        },
    ]
}
