//! Failures of inputs, the spill space and the sink, and cancellation: the join ends with that error and
//! leaves nothing.

use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::model::{KeyType, RandomInput, join, random_keys, run_with};
use crate::equi::*;
use crate::{JoinError, JoinResult};

const SPILLING: [Algorithm; 4] = [
    Algorithm::Hybrid,
    Algorithm::Grace,
    Algorithm::Segmented { parts: 4, spilled: 2 },
    Algorithm::NestedLoops,
];

/// A spill space whose `fails`-th access fails.
struct FaultySpill {
    inner: FileSpillSpace,
    left: AtomicI64,
    fails_reads: bool,
    damages: bool,
    ranges: AtomicI64,
}

impl FaultySpill {
    fn new(fails: i64, fails_reads: bool, damages: bool) -> FaultySpill {
        FaultySpill {
            inner: FileSpillSpace::new(std::env::temp_dir()),
            left: AtomicI64::new(fails),
            fails_reads,
            damages,
            ranges: AtomicI64::new(0),
        }
    }

    fn is_due(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    fn error(&self, operation: &'static str, bytes: usize) -> JoinError {
        JoinError::Spill {
            place: self.place(),
            operation,
            bytes,
            source: io::ErrorKind::StorageFull.into(),
        }
    }
}

impl SpillSpace for FaultySpill {
    fn place(&self) -> String {
        "faulty".to_owned()
    }

    fn unit(&self) -> usize {
        self.inner.unit()
    }

    fn write(&self, bytes: &[u8]) -> JoinResult<SpillRange> {
        if !self.fails_reads && !self.damages && self.is_due() {
            return Err(self.error("write", bytes.len()));
        }
        let range = self.inner.write(bytes)?;
        self.ranges.fetch_add(1, Ordering::Relaxed);
        Ok(range)
    }

    fn read(&self, range: SpillRange, bytes: &mut Vec<u8>) -> JoinResult<()> {
        if self.fails_reads && self.is_due() {
            return Err(self.error("read", bytes.len()));
        }
        self.inner.read(range, bytes)?;
        if self.damages && self.is_due() {
            bytes[20] ^= 1;
        }
        Ok(())
    }

    fn free(&self, range: SpillRange) {
        self.ranges.fetch_sub(1, Ordering::Relaxed);
        self.inner.free(range);
    }
}

fn inputs() -> (RandomInput, RandomInput) {
    let mut random = StdRng::seed_from_u64(8);
    let build = random_keys(&mut random, 6000, 5000, 0.01);
    let probe = random_keys(&mut random, 6000, 5000, 0.01);
    let build = RandomInput::new(KeyType::Int64, build, true, &mut random);
    let probe = RandomInput::new(KeyType::Int64, probe, false, &mut random);
    (build, probe)
}

#[test]
fn a_failing_medium_ends_the_join() {
    let (build, probe) = inputs();
    let (build, probe) = (build.source(), probe.source());
    let join = join(JoinKind::FullOuter, KeyType::Int64);
    for algorithm in &SPILLING[..3] {
        for (fails_reads, damages) in [(false, false), (true, false), (false, true)] {
            let mut failed = 0;
            for fails in [1, 2, 3, 10, 40, 100] {
                let spill = FaultySpill::new(fails, fails_reads, damages);
                let budget = JoinBudget::new(100 << 10);
                let result = run_with(&join, *algorithm, (&build, &probe), (&budget, &spill));
                assert_eq!(spill.ranges.load(Ordering::Relaxed), 0, "ranges are given back");
                let Err(error) = result else { continue };
                assert!(error.to_string().starts_with("faulty: "), "{error}");
                assert_eq!(
                    damages,
                    matches!(error, JoinError::SpillDamaged { .. }),
                    "{error}"
                );
                failed += 1;
            }
            assert!(failed >= 4, "{algorithm:?}: {failed}");
        }
    }
}

fn context<'a>(spill: &'a FileSpillSpace, cancelled: &'a AtomicBool) -> JoinContext<'a> {
    JoinContext {
        threads: NonZeroUsize::new(3).unwrap(),
        budget: JoinBudget::new(100 << 10),
        spill,
        writers: NonZeroUsize::MIN,
        cancelled,
    }
}

#[test]
fn errors_of_the_sink_and_cancellation_end_the_join() {
    let (build, probe) = inputs();
    let (build, probe) = (build.source(), probe.source());
    let join = join(JoinKind::FullOuter, KeyType::Int64);
    for algorithm in SPILLING {
        for after in [1, 2, 20] {
            let (spill, cancelled) = (FileSpillSpace::new(std::env::temp_dir()), AtomicBool::new(false));
            let context = context(&spill, &cancelled);
            let count = AtomicUsize::new(0);
            let failing = |_| {
                if count.fetch_add(1, Ordering::Relaxed) + 1 == after {
                    return Err(JoinError::Sink("full".into()));
                }
                Ok(())
            };
            let error = join
                .run(algorithm, &build, &probe, &context, &failing)
                .unwrap_err();
            assert_eq!(error.to_string(), "cannot process the rows of the join: full");
            assert_eq!(context.budget.used(), 0);
            let count = AtomicUsize::new(0);
            let cancelling = |_| {
                if count.fetch_add(1, Ordering::Relaxed) + 1 == after {
                    cancelled.store(true, Ordering::Relaxed);
                }
                Ok(())
            };
            let error = join
                .run(algorithm, &build, &probe, &context, &cancelling)
                .unwrap_err();
            assert!(matches!(error, JoinError::Interrupted));
            assert_eq!(context.budget.used(), 0);
        }
    }
}

/// A source that fails, or cannot be read again.
struct FaultySource {
    inner: BatchSource,
    fails_at: usize,
    reads: AtomicUsize,
}

impl JoinSource for FaultySource {
    fn schema(&self) -> arrow_schema::SchemaRef {
        self.inner.schema()
    }

    fn morsels(&self) -> usize {
        self.inner.morsels()
    }

    fn read(&self, morsel: usize, each: &mut EachBatch<'_>) -> JoinResult<()> {
        if self.reads.fetch_add(1, Ordering::Relaxed) + 1 == self.fails_at {
            return Err(JoinError::Source("gone".into()));
        }
        self.inner.read(morsel, each)
    }

    fn rows_estimate(&self) -> Option<u64> {
        None
    }

    fn is_rereadable(&self) -> bool {
        false
    }
}

#[test]
fn a_failing_source_ends_the_join() {
    let (build, probe) = inputs();
    let source = |input: &RandomInput, fails_at| FaultySource {
        inner: input.source(),
        fails_at,
        reads: AtomicUsize::new(0),
    };
    let join = join(JoinKind::Inner, KeyType::Int64);
    let spill = FileSpillSpace::new(std::env::temp_dir());
    for algorithm in SPILLING {
        let again = matches!(algorithm, Algorithm::Segmented { .. });
        for (build, probe) in [
            (source(&build, 2), source(&probe, 0)),
            (source(&build, 0), source(&probe, 2)),
        ] {
            let budget = JoinBudget::new(100 << 10);
            let error = run_with(&join, algorithm, (&build, &probe), (&budget, &spill)).unwrap_err();
            let is_once = matches!(error, JoinError::ReadOnce);
            assert!(
                is_once == again || error.to_string().ends_with("gone"),
                "{algorithm:?}: {error}"
            );
        }
        let (build, probe) = (source(&build, 0), source(&probe, 0));
        let budget = JoinBudget::new(100 << 10);
        let result = run_with(&join, algorithm, (&build, &probe), (&budget, &spill));
        let is_once = matches!(result, Err(JoinError::ReadOnce));
        assert_eq!(
            is_once,
            again || algorithm == Algorithm::NestedLoops,
            "{algorithm:?}"
        );
    }
}

#[test]
fn the_join_in_dram_says_that_memory_is_short() {
    let (build, probe) = inputs();
    let (build, probe) = (build.source(), probe.source());
    let join = join(JoinKind::Inner, KeyType::Int64);
    let (spill, budget) = (
        FileSpillSpace::new(std::env::temp_dir()),
        JoinBudget::new(100 << 10),
    );
    let error = run_with(&join, Algorithm::Hash, (&build, &probe), (&budget, &spill)).unwrap_err();
    assert!(
        matches!(error, JoinError::JoinMemory { limit: 102_400, .. }),
        "{error}"
    );
    assert!(spill.is_empty());
}

/// Counts the threads that write at a time.
struct CountingSpill {
    inner: FileSpillSpace,
    writing: AtomicI64,
    most: AtomicI64,
}

impl SpillSpace for CountingSpill {
    fn place(&self) -> String {
        self.inner.place()
    }

    fn unit(&self) -> usize {
        self.inner.unit()
    }

    fn write(&self, bytes: &[u8]) -> JoinResult<SpillRange> {
        let writing = self.writing.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(writing, Ordering::SeqCst);
        std::thread::yield_now();
        assert_eq!(bytes.len() % self.unit(), 0, "whole units");
        let range = self.inner.write(bytes);
        self.writing.fetch_sub(1, Ordering::SeqCst);
        range
    }

    fn read(&self, range: SpillRange, bytes: &mut Vec<u8>) -> JoinResult<()> {
        self.inner.read(range, bytes)
    }

    fn free(&self, range: SpillRange) {
        self.inner.free(range);
    }
}

#[test]
fn few_threads_write_at_a_time() {
    let (build, probe) = inputs();
    let (build, probe) = (build.source(), probe.source());
    let join = join(JoinKind::Inner, KeyType::Int64);
    for writers in [1, 2] {
        let spill = CountingSpill {
            inner: FileSpillSpace::new(std::env::temp_dir()),
            writing: AtomicI64::new(0),
            most: AtomicI64::new(0),
        };
        let cancelled = AtomicBool::new(false);
        let context = JoinContext {
            threads: NonZeroUsize::new(6).unwrap(),
            budget: JoinBudget::new(100 << 10),
            spill: &spill,
            writers: NonZeroUsize::new(writers).unwrap(),
            cancelled: &cancelled,
        };
        join.run(Algorithm::Grace, &build, &probe, &context, &|_| Ok(()))
            .unwrap();
        assert!((1..=writers as i64).contains(&spill.most.into_inner()));
    }
}
