//! The time of each algorithm, and the choice of the cheapest.

use super::algorithm::{Algorithm, JoinAlgorithm};
use super::choice::{JoinChoice, JoinEstimate};
use super::size::JoinSize;
use super::terms::{Phase, Terms};
use crate::machine::{CpuCosts, JoinWork, MediumCosts};

/// Share of the memory up to which a hash table fits: buffers take the rest while rows are collected.
const FITTING_SHARE: f64 = 0.85;

/// Share of the memory for rows that stay in DRAM while others are spilled: buffers and the filter take the
/// rest.
const RESIDENT_SHARE: f64 = 0.75;

/// Share of the memory that a piece of nested loops fills: its buffers are emptied first.
const PIECE_SHARE: f64 = 0.97;

/// Most bytes of the hash table of a spilled partition: there are many partitions.
const SPILLED_TABLE: f64 = 2.0 * 1024.0 * 1024.0;

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
        memory: (memory as f64).max(1.0),
    };
    let pieces = |share: f64| (terms.table() / (terms.memory * share)).ceil().max(1.0) as usize;
    let fits = pieces(FITTING_SHARE) == 1;
    let mut estimates = vec![terms.hybrid(fits), terms.grace()];
    if fits {
        estimates.push(terms.hash(Algorithm::Hash));
    }
    if size.rereadable {
        estimates.push(terms.nested(pieces(PIECE_SHARE)));
        if !fits {
            // The cost is linear in the number of spilled parts, so that the best are the extremes; all
            // spilled is Grace.
            estimates.push(terms.segmented(pieces(RESIDENT_SHARE)));
        }
    }
    estimates.extend(size.dense_columns.map(|columns| terms.array(columns)));
    JoinChoice::new(estimates)
}

impl Terms<'_> {
    /// Estimates a join of all rows in DRAM.
    fn hash(&self, algorithm: Algorithm) -> JoinEstimate {
        let mut estimate = Self::start(JoinAlgorithm::Hashed(algorithm), 1);
        self.collect(&mut estimate);
        let probe = self.probe(self.probe, self.table(), self.size.matching, 1.0);
        self.add(&mut estimate, 1.0, &probe);
        estimate
    }

    /// Estimates a join of a share of the rows in DRAM; the rest is spilled and joined by partitions that
    /// fit.
    fn partly_spilled(&self, algorithm: Algorithm, resident: f64) -> JoinEstimate {
        let mut estimate = Self::start(JoinAlgorithm::Hashed(algorithm), 1);
        let (matching, spilled) = (self.size.matching, 1.0 - resident);
        self.collect(&mut estimate);
        let probe = self.probe(self.probe * resident, self.table() * resident, matching, resident);
        self.add(&mut estimate, 1.0, &probe);
        // Rows without partner are dropped by the filter but for its errors.
        let kept = self.probe * spilled * (matching + (1.0 - matching) / 2.0);
        self.spill(&mut estimate, self.build * spilled, self.build_row());
        self.spill(&mut estimate, kept, self.size.probe_row);
        let table = (self.table() * spilled).min(SPILLED_TABLE);
        let again = Phase {
            work: JoinWork {
                probe: kept,
                pair: self.size.pairs as f64 * spilled,
                ..JoinWork::default()
            },
            reads: self.look_up(kept, table, matching),
            scanned: 0.0,
        };
        self.add(&mut estimate, 1.0, &again);
        estimate
    }

    fn hybrid(&self, fits: bool) -> JoinEstimate {
        if fits {
            self.hash(Algorithm::Hybrid)
        } else {
            let resident = (self.memory * RESIDENT_SHARE / self.table().max(1.0)).min(1.0);
            self.partly_spilled(Algorithm::Hybrid, resident)
        }
    }

    fn grace(&self) -> JoinEstimate {
        self.partly_spilled(Algorithm::Grace, 0.0)
    }

    /// Estimates a join that looks up all probe rows in each piece of the build side.
    fn nested(&self, pieces: usize) -> JoinEstimate {
        let algorithm = JoinAlgorithm::Hashed(Algorithm::NestedLoops);
        let (mut estimate, passes) = (Self::start(algorithm, pieces), pieces as f64);
        self.collect(&mut estimate);
        let matching = self.size.matching / passes;
        let pass = self.probe(self.probe, self.table() / passes, matching, 1.0 / passes);
        self.add(&mut estimate, passes, &pass);
        estimate
    }

    /// Estimates a join in passes, each of which reads both inputs and looks up only the rows of its part.
    fn segmented(&self, parts: usize) -> JoinEstimate {
        let algorithm = JoinAlgorithm::Hashed(Algorithm::Segmented { parts, spilled: 0 });
        let (mut estimate, passes) = (Self::start(algorithm, parts), parts as f64);
        self.collect(&mut estimate);
        let rows = self.build * CpuCosts::weight(self.build_row());
        let again = Phase {
            work: JoinWork {
                read: rows,
                ..JoinWork::default()
            },
            reads: 0.0,
            scanned: self.build * self.size.build_stored,
        };
        self.add(&mut estimate, passes - 1.0, &again);
        let (probe, table) = (self.probe / passes, self.table() / passes);
        let mut pass = self.probe(probe, table, self.size.matching, 1.0 / passes);
        pass.work.select = rows + self.probe * CpuCosts::weight(self.size.probe_row);
        self.add(&mut estimate, passes, &pass);
        estimate
    }

    /// Estimates a join that reads the build columns, of which the key is one more, in place.
    fn array(&self, columns: usize) -> JoinEstimate {
        let mut estimate = Self::start(JoinAlgorithm::Array, 1);
        let stored = self.size.build_stored > 0.0;
        let row = if stored {
            self.size.build_stored
        } else {
            self.build_row()
        };
        let column = row / (columns + 1) as f64;
        let bytes = self.build * column;
        let read = if stored {
            self.medium.slow_read(bytes, column, self.threads)
        } else {
            self.medium.dram_read(bytes)
        };
        let values = self.probe * self.size.matching * columns as f64;
        let work = JoinWork {
            read: self.probe * CpuCosts::weight(self.size.probe_row),
            pair: self.size.pairs as f64,
            gather: values,
            ..JoinWork::default()
        };
        let scanned = self.probe * self.size.probe_stored;
        self.add(
            &mut estimate,
            1.0,
            &Phase {
                work,
                reads: 0.0,
                scanned,
            },
        );
        // Random reads are waited for, all of them at a time that the core has outstanding.
        let waited = values * read / self.threads as f64;
        if stored {
            estimate.transfer += waited
        } else {
            estimate.compute += waited
        }
        estimate
    }
}
