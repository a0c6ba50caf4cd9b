//! Running a workload against a store: [`YcsbRun`].

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::{YcsbWorkload, ycsb_key, ycsb_value};
use crate::ZipfError;

/// Records of each commit while loading.
const LOAD_COMMIT: u64 = 1000;

/// A key and its value.
pub type YcsbPair = (Vec<u8>, Vec<u8>);

/// A key-value store that workloads run against.
pub trait YcsbStore: Sync {
    /// The error of an operation.
    type Error: Send;

    /// Copies the value of a key to `value`, and returns true if there is one.
    ///
    /// # Errors
    /// Those of the store.
    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Self::Error>;

    /// Sets the values of keys in one commit.
    ///
    /// # Errors
    /// Those of the store.
    fn write(&self, pairs: &[YcsbPair]) -> Result<(), Self::Error>;

    /// Reads up to `length` pairs from a key on, and returns their number.
    ///
    /// # Errors
    /// Those of the store.
    fn scan(&self, from: &[u8], length: usize) -> Result<u64, Self::Error>;
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum YcsbError<E> {
    /// The store failed.
    #[error(transparent)]
    Store(E),
    /// The store has no record that was written.
    #[error("record {0} is missing")]
    Missing(u64),
    /// There are no records.
    #[error(transparent)]
    Zipf(#[from] ZipfError),
    /// A thread panicked.
    #[error("a thread of the workload panicked")]
    Panicked,
}

/// A workload with its size.
#[derive(Debug, Clone, Copy)]
pub struct YcsbRun {
    /// The workload.
    pub workload: YcsbWorkload,
    /// Records that are loaded.
    pub records: u64,
    /// Operations of all threads together.
    pub operations: u64,
    /// Threads, at least 1.
    pub threads: u64,
    /// Operations between two commits of a thread, at least 1.
    pub commit: u64,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// Seed of the operations.
    pub seed: u64,
}

/// The outcome of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct YcsbOutcome {
    /// Operations per second.
    pub rate: f64,
    /// Latencies of all operations in ns, ascending; a commit counts to the operation before it.
    pub latencies: Vec<u64>,
    /// Records that were read.
    pub read: u64,
    /// Records that scans returned.
    pub scanned: u64,
}

impl YcsbOutcome {
    /// Returns the latency in ns that `percent` percent of the operations do not exceed; 0 without
    /// operations.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (self.latencies.len() as f64 * percent / 100.0) as usize;
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get(rank.min(last)).copied().unwrap_or(0)
    }
}

impl YcsbRun {
    /// Returns a record's pair in a version; 0 is the one that [`load`](Self::load) writes.
    pub fn pair(&self, record: u64, version: u64) -> YcsbPair {
        let mut value = vec![0; self.value_bytes];
        ycsb_value(record, version, &mut value);
        (ycsb_key(record).into_bytes(), value)
    }

    /// Writes all records; `progress` is told how many were written, and fails to stop.
    ///
    /// # Errors
    /// Those of the store and of `progress`.
    pub fn load<S: YcsbStore + ?Sized>(
        &self,
        store: &S,
        mut progress: impl FnMut(u64) -> Result<(), S::Error>,
    ) -> Result<(), S::Error> {
        for first in (0..self.records).step_by(LOAD_COMMIT as usize) {
            let records = first..self.records.min(first + LOAD_COMMIT);
            let pairs: Vec<_> = records.map(|record| self.pair(record, 0)).collect();
            store.write(&pairs)?;
            progress(first + pairs.len() as u64)?;
        }
        Ok(())
    }

    /// Runs the operations on a store that was loaded.
    ///
    /// # Errors
    /// The first [`YcsbError`] of any thread.
    ///
    /// # Panics
    /// If `threads` or `commit` is 0.
    pub fn run<S: YcsbStore + ?Sized>(&self, store: &S) -> Result<YcsbOutcome, YcsbError<S::Error>> {
        assert!(self.threads > 0 && self.commit > 0);
        let barrier = Barrier::new(self.threads as usize);
        let ended: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let client = Client::new(store, *self, thread);
                        barrier.wait();
                        // Each thread has a clock of its own: on a busy machine another thread may wake up
                        // late.
                        let start = Instant::now();
                        Ok((client?.run()?, start, Instant::now()))
                    })
                })
                .collect();
            let join = |thread: thread::ScopedJoinHandle<'_, Result<_, YcsbError<S::Error>>>| {
                thread.join().unwrap_or(Err(YcsbError::Panicked))
            };
            threads.into_iter().map(join).collect::<Result<_, _>>()
        })?;
        let start = ended.iter().map(|(_, start, _)| *start).min();
        let end = ended.iter().map(|(.., end)| *end).max();
        let elapsed = end.zip(start).map_or(Duration::ZERO, |(end, start)| end - start);
        let mut outcome = YcsbOutcome::default();
        for (client, ..) in ended {
            outcome.latencies.extend(client.latencies);
            outcome.read += client.read;
            outcome.scanned += client.scanned;
        }
        outcome.rate = outcome.latencies.len() as f64 / elapsed.as_secs_f64();
        outcome.latencies.sort_unstable();
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::sync::Mutex;

    use super::*;

    struct Model(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

    impl YcsbStore for Model {
        type Error = Infallible;

        fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Infallible> {
            let found = self.0.lock().unwrap().get(key).cloned();
            let is_there = found.is_some();
            *value = found.unwrap_or_default();
            Ok(is_there)
        }

        fn write(&self, pairs: &[YcsbPair]) -> Result<(), Infallible> {
            self.0.lock().unwrap().extend(pairs.iter().cloned());
            Ok(())
        }

        fn scan(&self, from: &[u8], length: usize) -> Result<u64, Infallible> {
            let pairs = self.0.lock().unwrap();
            Ok(pairs.range(from.to_vec()..).take(length).count() as u64)
        }
    }

    #[test]
    fn every_workload_finds_its_records() {
        for workload in YcsbWorkload::ALL {
            for (threads, commit) in [(1, 1), (2, 7)] {
                let run = YcsbRun {
                    workload,
                    records: 500,
                    operations: 2000,
                    threads,
                    commit,
                    value_bytes: 20,
                    seed: 3,
                };
                let model = Model(Mutex::default());
                run.load(&model, |_| Ok(())).unwrap();
                let outcome = run.run(&model).unwrap();
                assert_eq!(outcome.latencies.len(), 2000);
                assert!(outcome.latencies.is_sorted() && outcome.rate > 0.0);
                assert!(outcome.percentile(50.0) <= outcome.percentile(99.9));
                assert!(model.0.lock().unwrap().len() >= 500);
            }
        }
        let run = YcsbRun {
            workload: YcsbWorkload::C,
            records: 10,
            operations: 10,
            threads: 1,
            commit: 1,
            value_bytes: 1,
            seed: 3,
        };
        let empty = Model(Mutex::default());
        assert!(matches!(run.run(&empty), Err(YcsbError::Missing(_))));
    }
}
