//! The terms that the costs of all algorithms are made of: build, probe and spill.
//!
//! A phase takes the longer of two times: that of its computation, shared by the threads, and that of the
//! transfers from the slow tier, which are ahead of it. Spilled rows are waited for. All times are seconds.

use super::algorithm::JoinAlgorithm;
use super::choice::JoinEstimate;
use super::size::{JoinSize, TABLE_ROW_BYTES};
use crate::machine::{CpuCosts, JoinWork, MediumCosts};

/// Share of the bytes that spilled rows take once encoded.
const ENCODED_SHARE: f64 = 0.7;

/// Bytes of the directory per row.
const DIRECTORY_ROW: f64 = 8.0;

/// The terms of a join's cost.
pub(super) struct Terms<'a> {
    pub(super) size: &'a JoinSize,
    pub(super) medium: &'a MediumCosts,
    pub(super) cpu: &'a CpuCosts,
    pub(super) threads: usize,
    pub(super) build: f64,
    pub(super) probe: f64,
    pub(super) memory: f64,
}

/// Rows that are processed while bytes are read ahead.
pub(super) struct Phase {
    pub(super) work: JoinWork,
    /// Seconds of one thread for random reads.
    pub(super) reads: f64,
    /// Bytes from the slow tier.
    pub(super) scanned: f64,
}

impl Terms<'_> {
    /// Returns the size in bytes of the hash table of all build rows.
    pub(super) fn table(&self) -> f64 {
        self.build * self.size.build_row
    }

    /// Returns the size in bytes of a build row outside of a hash table.
    pub(super) fn build_row(&self) -> f64 {
        self.size.build_row - TABLE_ROW_BYTES as f64
    }

    pub(super) fn start(algorithm: JoinAlgorithm, passes: usize) -> JoinEstimate {
        JoinEstimate {
            algorithm,
            transfer: 0.0,
            compute: 0.0,
            passes,
            spilled: 0.0,
            work: JoinWork::default(),
        }
    }

    /// Adds a phase that is repeated. The slow tier is read ahead of the threads, so that only what takes
    /// longer than the computation is waited for.
    pub(super) fn add(&self, estimate: &mut JoinEstimate, times: f64, phase: &Phase) {
        let compute = (phase.work.seconds(self.cpu) + phase.reads) / self.threads as f64;
        let scan = self.medium.read(phase.scanned, self.threads);
        estimate.compute += times * compute;
        estimate.transfer += times * (scan - compute).max(0.0);
        estimate.work += phase.work * times;
    }

    /// Collects all build rows, and puts them into hash tables.
    pub(super) fn collect(&self, estimate: &mut JoinEstimate) {
        let rows = self.build * CpuCosts::weight(self.build_row());
        let work = JoinWork {
            read: rows,
            partition: rows,
            fill: rows,
            ..JoinWork::default()
        };
        let scanned = self.build * self.size.build_stored;
        self.add(
            estimate,
            1.0,
            &Phase {
                work,
                reads: 0.0,
                scanned,
            },
        );
    }

    /// Returns the seconds that one thread takes to look up `rows` rows in a hash table of `table` bytes, of
    /// which the share `matching` has partners there: all read the directory, those with partners a row.
    pub(super) fn look_up(&self, rows: f64, table: f64, matching: f64) -> f64 {
        let directory = table * DIRECTORY_ROW / self.size.build_row.max(DIRECTORY_ROW);
        rows * (self.medium.dram_read(directory) + matching * self.medium.dram_read(table))
    }

    /// Reads the probe side, and looks up `rows` of it in a hash table of some bytes, in which the share
    /// `matching` has partners, `share` of all pairs.
    pub(super) fn probe(&self, rows: f64, table: f64, matching: f64, share: f64) -> Phase {
        Phase {
            work: JoinWork {
                read: self.probe * CpuCosts::weight(self.size.probe_row),
                probe: rows,
                pair: self.size.pairs as f64 * share,
                ..JoinWork::default()
            },
            reads: self.look_up(rows, table, matching),
            scanned: self.probe * self.size.probe_stored,
        }
    }

    /// Spills rows of some bytes and reads them back, for which threads wait.
    pub(super) fn spill(&self, estimate: &mut JoinEstimate, rows: f64, row: f64) {
        let weighted = rows * CpuCosts::weight(row);
        let work = JoinWork {
            partition: weighted,
            spill: weighted,
            ..JoinWork::default()
        };
        self.add(
            estimate,
            1.0,
            &Phase {
                work,
                reads: 0.0,
                scanned: 0.0,
            },
        );
        let bytes = rows * row * ENCODED_SHARE;
        estimate.transfer += self.medium.write(bytes, self.threads) + self.medium.read(bytes, self.threads);
        estimate.spilled += bytes;
    }
}
