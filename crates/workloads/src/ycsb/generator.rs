//! The operations of one thread.

use super::YcsbWorkload;
use super::record::scramble;
use crate::{SplitMix64, Zipf, ZipfError};

/// The skew of YCSB's request distribution.
const THETA: f64 = 0.99;
/// The longest scan, in records.
const MAX_SCAN: u64 = 100;

/// An operation on a record, which is named by its number (see [`ycsb_key`](crate::ycsb_key)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YcsbOp {
    /// Read the record.
    Read(u64),
    /// Replace the record's value.
    Update(u64),
    /// Add the record.
    Insert(u64),
    /// Read up to `length` records from the key of `start` on.
    Scan {
        /// The record at whose key the scan begins.
        start: u64,
        /// The greatest number of records to read.
        length: u64,
    },
    /// Read the record, then replace its value.
    ReadModifyWrite(u64),
}

/// An endless stream of the operations of one thread.
///
/// Reads, updates and scans name records that were loaded or that the same thread has inserted, so each
/// must find its record.
///
/// ```
/// use halocline_workloads::{YcsbGenerator, YcsbOp, YcsbWorkload};
/// let mut ops = YcsbGenerator::new(YcsbWorkload::C, 1000, 7, 0, 1)?;
/// assert!(matches!(ops.next_op(), YcsbOp::Read(record) if record < 1000));
/// # Ok::<(), halocline_workloads::ZipfError>(())
/// ```
#[derive(Debug, Clone)]
pub struct YcsbGenerator {
    workload: YcsbWorkload,
    zipf: Zipf,
    rng: SplitMix64,
    loaded: u64,
    thread: u64,
    threads: u64,
    inserted: u64,
}

impl YcsbGenerator {
    /// Creates the stream of `thread` out of `threads`, over the records `0..loaded`.
    ///
    /// # Errors
    /// [`ZipfError::NoItems`] if `loaded` is 0.
    ///
    /// # Panics
    /// Panics if `thread` is not below `threads`.
    pub fn new(
        workload: YcsbWorkload,
        loaded: u64,
        seed: u64,
        thread: u64,
        threads: u64,
    ) -> Result<Self, ZipfError> {
        assert!(thread < threads, "thread {thread} of {threads}");
        Ok(Self {
            workload,
            zipf: Zipf::new(loaded, THETA)?,
            rng: SplitMix64::stream(seed, thread),
            loaded,
            thread,
            threads,
            inserted: 0,
        })
    }

    /// Draws the next operation. O(1).
    pub fn next_op(&mut self) -> YcsbOp {
        let reads = self.rng.below(100) < self.workload.read_percent();
        match (self.workload, reads) {
            (YcsbWorkload::D, true) => YcsbOp::Read(self.latest()),
            (YcsbWorkload::E, true) => YcsbOp::Scan {
                start: self.scrambled(),
                length: 1 + self.rng.below(MAX_SCAN),
            },
            (_, true) => YcsbOp::Read(self.scrambled()),
            (YcsbWorkload::D | YcsbWorkload::E, false) => YcsbOp::Insert(self.insert()),
            (YcsbWorkload::F, false) => YcsbOp::ReadModifyWrite(self.scrambled()),
            (_, false) => YcsbOp::Update(self.scrambled()),
        }
    }

    /// Draws a loaded record; the hot ones are spread over all of them.
    fn scrambled(&mut self) -> u64 {
        scramble(self.zipf.sample(&mut self.rng)) % self.loaded
    }

    /// Draws a record by its age: first this thread's inserts, newest first, then the loaded ones.
    fn latest(&mut self) -> u64 {
        let age = self.zipf.sample(&mut self.rng);
        if age < self.inserted {
            self.numbered(self.inserted - 1 - age)
        } else {
            self.loaded - 1 - (age - self.inserted)
        }
    }

    fn insert(&mut self) -> u64 {
        self.inserted += 1;
        self.numbered(self.inserted - 1)
    }

    /// Returns the number of this thread's insert `index`. Threads take turns, so no two share a number.
    fn numbered(&self, index: u64) -> u64 {
        self.loaded + index * self.threads + self.thread
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn ops(workload: YcsbWorkload, thread: u64, threads: u64) -> Vec<YcsbOp> {
        let mut ops = YcsbGenerator::new(workload, 1000, 7, thread, threads).unwrap();
        (0..20_000).map(|_| ops.next_op()).collect()
    }

    #[test]
    fn shares_are_those_of_the_workload() {
        for workload in YcsbWorkload::ALL {
            let reads = ops(workload, 0, 1)
                .iter()
                .filter(|op| matches!(op, YcsbOp::Read(_) | YcsbOp::Scan { .. }))
                .count();
            let percent = reads as f64 / 200.0;
            let expected = workload.read_percent() as f64;
            assert!((percent - expected).abs() < 1.5, "{workload:?}: {percent}");
        }
    }

    #[test]
    fn streams_repeat_and_differ_by_thread() {
        assert_eq!(ops(YcsbWorkload::A, 0, 2), ops(YcsbWorkload::A, 0, 2));
        assert_ne!(ops(YcsbWorkload::A, 0, 2), ops(YcsbWorkload::A, 1, 2));
    }

    #[test]
    fn inserts_are_unique_and_reads_find_their_record() {
        let mut all = HashSet::new();
        for thread in 0..2 {
            let mut own = HashSet::new();
            for op in ops(YcsbWorkload::D, thread, 2) {
                match op {
                    YcsbOp::Insert(record) => {
                        assert!(record >= 1000 && all.insert(record));
                        own.insert(record);
                    }
                    YcsbOp::Read(record) => assert!(record < 1000 || own.contains(&record)),
                    other => panic!("{other:?} in D"),
                }
            }
        }
    }

    #[test]
    fn the_hottest_record_has_its_share() {
        let mut counts = HashMap::new();
        for op in ops(YcsbWorkload::C, 0, 1) {
            let YcsbOp::Read(record) = op else {
                panic!("{op:?} in C")
            };
            *counts.entry(record).or_insert(0u32) += 1;
        }
        let hottest = f64::from(*counts.values().max().unwrap()) / 20_000.0;
        let law = Zipf::new(1000, THETA).unwrap().probability(0);
        assert!((hottest - law).abs() < 0.02, "{hottest} instead of {law}");
    }

    #[test]
    fn scans_have_one_to_a_hundred_records() {
        for op in ops(YcsbWorkload::E, 0, 1) {
            if let YcsbOp::Scan { start, length } = op {
                assert!(start < 1000 && (1..=MAX_SCAN).contains(&length));
            }
        }
    }
}
