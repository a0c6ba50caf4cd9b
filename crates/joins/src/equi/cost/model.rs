//! The estimates.

use std::fmt;

use super::choice::{JoinChoice, JoinEstimate};
use super::medium::{CpuCosts, MediumCosts};
use crate::equi::join::Algorithm;

/// Share of the memory that hash tables and rows get; buffers take the rest.
const TABLE_SHARE: f64 = 0.85;

/// Share of the bytes that spilled rows take once encoded.
const ENCODED_SHARE: f64 = 0.7;

/// Bytes of the directory per row.
const DIRECTORY_ROW: f64 = 8.0;

/// An algorithm with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinAlgorithm {
    /// [`Algorithm::Hash`].
    Hash,
    /// [`Algorithm::Hybrid`].
    Hybrid,
    /// [`Algorithm::Grace`].
    Grace,
    /// [`Algorithm::Segmented`].
    Segmented {
        /// Number of parts.
        parts: usize,
        /// Number of parts that are spilled.
        spilled: usize,
    },
    /// [`Algorithm::NestedLoops`].
    NestedLoops,
    /// [`EquiJoin::run_array`](crate::equi::EquiJoin::run_array).
    Array,
}

impl JoinAlgorithm {
    /// Returns the algorithm of [`EquiJoin::run`](crate::equi::EquiJoin::run); `None` for an array join.
    pub fn algorithm(self) -> Option<Algorithm> {
        Some(match self {
            JoinAlgorithm::Hash => Algorithm::Hash,
            JoinAlgorithm::Hybrid => Algorithm::Hybrid,
            JoinAlgorithm::Grace => Algorithm::Grace,
            JoinAlgorithm::Segmented { parts, spilled } => Algorithm::Segmented { parts, spilled },
            JoinAlgorithm::NestedLoops => Algorithm::NestedLoops,
            JoinAlgorithm::Array => return None,
        })
    }
}

impl fmt::Display for JoinAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JoinAlgorithm::Hash => "hash",
            JoinAlgorithm::Hybrid => "hybrid",
            JoinAlgorithm::Grace => "grace",
            JoinAlgorithm::Segmented { parts, spilled } => {
                return f.pad(&format!("segmented {spilled}/{parts}"));
            }
            JoinAlgorithm::NestedLoops => "nested loops",
            JoinAlgorithm::Array => "array",
        })
    }
}

/// Sizes of a join.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JoinSize {
    /// Rows of the build side (T).
    pub build_rows: u64,
    /// Rows of the probe side (V).
    pub probe_rows: u64,
    /// Bytes of a build row that are read from the slow tier; 0 if it is in DRAM.
    pub build_stored: f64,
    /// Bytes of a probe row that are read from the slow tier; 0 if it is in DRAM.
    pub probe_stored: f64,
    /// Bytes of a build row in a hash table; see [`EquiJoin::row_bytes`](crate::equi::EquiJoin::row_bytes).
    pub build_row: f64,
    /// Bytes of a probe row that is spilled.
    pub probe_row: f64,
    /// Estimated pairs.
    pub pairs: u64,
    /// Share of the probe rows that have a partner, from 0 to 1.
    pub matching: f64,
    /// Columns of the build side that are returned, if its keys are dense, which allows an array join.
    pub dense_columns: Option<usize>,
    /// True if both inputs can be read more than once.
    pub rereadable: bool,
}

/// The terms of a join's cost.
struct Terms<'a> {
    size: &'a JoinSize,
    medium: &'a MediumCosts,
    cpu: &'a CpuCosts,
    threads: usize,
    build: f64,
    probe: f64,
    /// Memory for hash tables in bytes.
    memory: f64,
}

/// Estimates all algorithms in `memory` bytes, and chooses the cheapest.
pub fn choose(
    size: &JoinSize,
    memory: usize,
    threads: usize,
    medium: &MediumCosts,
    cpu: &CpuCosts,
) -> JoinChoice {
    let terms = Terms {
        size,
        medium,
        cpu,
        threads: threads.max(1),
        build: size.build_rows as f64,
        probe: size.probe_rows as f64,
        memory: (memory as f64 * TABLE_SHARE).max(1.0),
    };
    let table = terms.table();
    let pieces = (table / terms.memory).ceil().max(1.0) as usize;
    let mut estimates = vec![terms.hybrid(), terms.grace()];
    if pieces == 1 {
        estimates.push(terms.hash());
    }
    if size.rereadable {
        estimates.push(terms.nested(pieces));
        if pieces > 1 {
            // The cost is linear in the number of spilled parts, so that the best are the extremes; all
            // spilled is Grace.
            estimates.push(terms.segmented(pieces, 0));
        }
    }
    estimates.extend(size.dense_columns.map(|columns| terms.array(columns)));
    JoinChoice::new(estimates)
}

impl Terms<'_> {
    /// Bytes of the hash table of all build rows.
    fn table(&self) -> f64 {
        self.build * self.size.build_row
    }

    /// Seconds for computation, shared by the threads.
    fn shared(&self, seconds: f64) -> f64 {
        seconds / self.threads as f64
    }

    fn scan_build(&self) -> f64 {
        self.medium
            .read(self.build * self.size.build_stored, self.threads)
    }

    fn scan_probe(&self) -> f64 {
        self.medium
            .read(self.probe * self.size.probe_stored, self.threads)
    }

    /// Collects rows and makes hash tables of them.
    fn build_tables(&self, rows: f64) -> f64 {
        self.shared(rows * (self.cpu.read + self.cpu.partition + self.cpu.fill))
    }

    /// Looks up rows in a hash table of some bytes, of which a share has partners there: all read the
    /// directory, those with partners a row.
    fn look_up(&self, rows: f64, table: f64, matching: f64) -> f64 {
        let directory = table * DIRECTORY_ROW / self.size.build_row.max(DIRECTORY_ROW);
        let reads = self.medium.dram_read(directory) + matching * self.medium.dram_read(table);
        self.shared(rows * (self.cpu.probe + reads))
    }

    fn pairs(&self) -> f64 {
        self.shared(self.size.pairs as f64 * self.cpu.pair)
    }

    /// Spills rows of some bytes and reads them back: transfer, compute, bytes.
    fn spill(&self, rows: f64, row: f64) -> (f64, f64, f64) {
        let bytes = rows * row * ENCODED_SHARE;
        let transfer = self.medium.write(bytes, self.threads) + self.medium.read(bytes, self.threads);
        (
            transfer,
            self.shared(rows * (self.cpu.partition + self.cpu.spill)),
            bytes,
        )
    }

    fn hash(&self) -> JoinEstimate {
        let reads = self.shared(self.probe * self.cpu.read);
        JoinEstimate {
            algorithm: JoinAlgorithm::Hash,
            transfer: self.scan_build() + self.scan_probe(),
            compute: self.build_tables(self.build)
                + reads
                + self.look_up(self.probe, self.table(), self.size.matching)
                + self.pairs(),
            passes: 1,
            spilled: 0.0,
        }
    }

    /// A share of the rows is joined in DRAM, and the rest spilled and joined by partitions that fit.
    fn partly_spilled(&self, algorithm: JoinAlgorithm, resident: f64, filters: bool) -> JoinEstimate {
        let spilled = 1.0 - resident;
        // Rows without partner are dropped by the filter but for its errors.
        let kept = if filters {
            self.size.matching + (1.0 - self.size.matching) / 2.0
        } else {
            1.0
        };
        let build_row = self.size.build_row - DIRECTORY_ROW;
        let build = self.spill(self.build * spilled, build_row);
        let probe = self.spill(self.probe * spilled * kept, self.size.probe_row);
        let piece = self.memory.min(self.table() * spilled);
        let reads = self.shared(self.probe * self.cpu.read);
        JoinEstimate {
            algorithm,
            transfer: self.scan_build() + self.scan_probe() + build.0 + probe.0,
            compute: self.build_tables(self.build)
                + build.1
                + probe.1
                + reads
                + self.look_up(self.probe * resident, self.table() * resident, self.size.matching)
                + self.look_up(self.probe * spilled * kept, piece, self.size.matching)
                + self.pairs(),
            passes: 1,
            spilled: build.2 + probe.2,
        }
    }

    fn hybrid(&self) -> JoinEstimate {
        let resident = (self.memory / self.table().max(1.0)).min(1.0);
        self.partly_spilled(JoinAlgorithm::Hybrid, resident, true)
    }

    fn grace(&self) -> JoinEstimate {
        self.partly_spilled(JoinAlgorithm::Grace, 0.0, true)
    }

    fn nested(&self, pieces: usize) -> JoinEstimate {
        let passes = pieces as f64;
        let table = self.table() / passes;
        let pass = self.shared(self.probe * self.cpu.read)
            + self.look_up(self.probe, table, self.size.matching / passes);
        JoinEstimate {
            algorithm: JoinAlgorithm::NestedLoops,
            transfer: self.scan_build() + passes * self.scan_probe(),
            compute: self.build_tables(self.build) + passes * pass + self.pairs(),
            passes: pieces,
            spilled: 0.0,
        }
    }

    /// Like nested loops, but each pass reads both inputs and looks up only the rows of its part.
    fn segmented(&self, parts: usize, spilled: usize) -> JoinEstimate {
        let passes = (parts - spilled) as f64;
        let reads = self.shared((self.probe + self.build) * self.cpu.read) * passes;
        let table = self.table() / parts as f64;
        JoinEstimate {
            algorithm: JoinAlgorithm::Segmented { parts, spilled },
            transfer: passes * (self.scan_build() + self.scan_probe()),
            compute: self.build_tables(self.build)
                + reads
                + self.look_up(self.probe, table, self.size.matching)
                + self.pairs(),
            passes: parts - spilled,
            spilled: 0.0,
        }
    }

    fn array(&self, columns: usize) -> JoinEstimate {
        let column = self.size.build_stored / columns.max(1) as f64;
        let bytes = self.build * column;
        let read = match self.size.build_stored > 0.0 {
            true => self.medium.slow_read(bytes, column, self.threads),
            false => self.medium.dram_read(bytes.max(self.build * 8.0)),
        };
        let rows = self.probe * self.size.matching;
        JoinEstimate {
            algorithm: JoinAlgorithm::Array,
            transfer: self.scan_probe() + self.shared(rows * columns as f64 * read),
            compute: self.shared(self.probe * self.cpu.read) + self.pairs(),
            passes: 1,
            spilled: 0.0,
        }
    }
}
