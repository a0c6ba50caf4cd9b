//! Memory that equi-joins take, as the kernel counts it: at most a tenth more than their limit, and a
//! constant.
//!
//! A process of its own with one test, so that nothing else allocates. Linux only.
#![cfg(target_os = "linux")]

use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use halocline_joins::JoinResult;
use halocline_joins::equi::{
    Algorithm, EachBatch, EquiJoin, FileSpillSpace, JoinBudget, JoinContext, JoinKind, JoinSource,
};
use halocline_media::keep_little_heap;

const ROWS: i64 = 1_500_000;
const LIMIT: usize = 24 << 20;
const THREADS: usize = 2;
/// Bytes for batches and the buffers of a thread: those that do not grow with the data.
const CONSTANT: u64 = 4 << 20;

/// Bytes in anonymous resident pages, counted page by page.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    kibibytes.unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// Rows that are made when they are read.
struct Generated<'a> {
    schema: SchemaRef,
    has_text: bool,
    batches: AtomicU64,
    peak: &'a AtomicU64,
}

impl<'a> Generated<'a> {
    fn new(has_text: bool, peak: &'a AtomicU64) -> Generated<'a> {
        let mut fields = vec![Field::new("key", DataType::Int64, false)];
        fields.push(if has_text {
            Field::new("payload", DataType::Utf8, false)
        } else {
            Field::new("payload", DataType::Int64, false)
        });
        Generated {
            schema: Arc::new(Schema::new(fields)),
            has_text,
            batches: AtomicU64::new(0),
            peak,
        }
    }
}

impl JoinSource for Generated<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn morsels(&self) -> usize {
        (ROWS as usize).div_ceil(8192)
    }

    fn read(&self, morsel: usize, each: &mut EachBatch<'_>) -> JoinResult<()> {
        let first = morsel as i64 * 8192;
        let keys = || (first..(first + 8192).min(ROWS)).map(|row| row * 7919 % ROWS);
        let payload: ArrayRef = if self.has_text {
            Arc::new(
                keys()
                    .map(|key| Some(format!("text of {key}")))
                    .collect::<StringArray>(),
            )
        } else {
            Arc::new(keys().collect::<Int64Array>())
        };
        let key: ArrayRef = Arc::new(keys().collect::<Int64Array>());
        if self.batches.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) {
            self.peak.fetch_max(resident(), Ordering::Relaxed);
        }
        each(RecordBatch::try_new(self.schema.clone(), vec![key, payload])?)
    }

    fn rows_estimate(&self) -> Option<u64> {
        None
    }
}

#[test]
fn anonymous_memory_stays_within_the_limit() {
    keep_little_heap(1 << 20);
    let directory = tempfile::tempdir().unwrap();
    for has_text in [false, true] {
        for algorithm in [Algorithm::Hybrid, Algorithm::Grace, Algorithm::NestedLoops] {
            let (peak, rows) = (AtomicU64::new(0), AtomicU64::new(0));
            let (build, probe) = (Generated::new(has_text, &peak), Generated::new(false, &peak));
            let spill = FileSpillSpace::new(directory.path());
            let cancelled = AtomicBool::new(false);
            let context = JoinContext {
                threads: NonZeroUsize::new(THREADS).unwrap(),
                budget: JoinBudget::new(LIMIT),
                spill: &spill,
                writers: NonZeroUsize::MIN,
                cancelled: &cancelled,
            };
            let join = EquiJoin::new(JoinKind::Inner, vec![0], vec![0]).with_output(vec![1], vec![1]);
            let before = resident();
            let sink = |batch: RecordBatch| {
                let count = rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                if count % 32_768 < 8192 {
                    peak.fetch_max(resident(), Ordering::Relaxed);
                }
                Ok(())
            };
            join.run(algorithm, &build, &probe, &context, &sink).unwrap();
            assert_eq!(rows.into_inner(), ROWS as u64);
            let (taken, limit) = (peak.into_inner() - before, LIMIT as u64);
            assert!(
                taken <= limit + limit / 10 + CONSTANT * THREADS as u64,
                "{algorithm:?}, strings {has_text}: {taken} bytes of {limit}, {} counted",
                context.budget.peak()
            );
        }
    }
}
