//! Equi-joins of all algorithms at several memory limits, with the cost model's estimates beside them.
//!
//! `cargo bench -p halocline-joins --bench equi_speed`. A build side of unique keys (8 bytes) and payload (8
//! bytes), shuffled but for the array join, is joined with a probe side twice as long, whose keys are drawn
//! uniformly or by a Zipf distribution; both payloads are summed. Environment variables change the setup:
//!
//! - `HALOCLINE_BENCH_ROWS`: rows of the build side (32,000,000; 1,000 without `--bench`);
//! - `HALOCLINE_BENCH_THREADS`: the number of threads (2);
//! - `HALOCLINE_BENCH_SPILL`: the directory for spilled rows (the temporary one);
//! - `HALOCLINE_BENCH_ONLY`: runs only algorithms whose name contains this.
#![allow(clippy::print_stdout, reason = "a report")]

use std::env;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use halocline_costs::join::{JoinAlgorithm, JoinSize, choose};
use halocline_costs::machine::{CpuCosts, MediumCosts};
use halocline_joins::JoinResult;
use halocline_joins::equi::{
    ArrayRows, BatchSource, DenseKeyMap, EquiJoin, FileSpillSpace, JoinBudget, JoinContext, JoinKind,
    JoinSource, OUTPUT_ROWS, SpillSpace,
};
use halocline_media::HugeVec;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of a row in a hash table.
const TABLE_ROW: usize = 25;

fn number(name: &str, default: usize) -> AnyResult<usize> {
    Ok(env::var(name).map_or(Ok(default), |value| value.parse())?)
}

fn batch(keys: &[i64]) -> AnyResult<RecordBatch> {
    let payload: ArrayRef = Arc::new(keys.iter().map(|key| key & 1023).collect::<Int64Array>());
    let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    Ok(RecordBatch::try_from_iter([("key", keys), ("payload", payload)])?)
}

fn source(keys: &[i64]) -> AnyResult<BatchSource> {
    let batches = keys
        .chunks(OUTPUT_ROWS)
        .map(batch)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(BatchSource::new(batches[0].schema(), batches))
}

/// Returns the seconds of CPU time that this process has taken; 0 where there is no `/proc`.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Draws keys below `keys` with the probability of rank k proportional to 1 / (k + 1)^0.9, by inversion of
/// the integral.
fn zipf(random: &mut SmallRng, keys: usize) -> i64 {
    let power = 0.1;
    let most = (keys as f64 + 1.0).powf(power) - 1.0;
    let rank = (random.random::<f64>() * most + 1.0).powf(1.0 / power) - 1.0;
    (rank as usize).min(keys - 1) as i64
}

/// Measures random reads from DRAM, and the spill directory.
fn medium(directory: &Path, largest: usize) -> AnyResult<MediumCosts> {
    let mut random = SmallRng::seed_from_u64(2);
    let mut latency = Vec::new();
    for bytes in [16 << 10, 512 << 10, 8 << 20, 64 << 20, 512 << 20] {
        if bytes > largest && bytes > 16 << 10 {
            break;
        }
        let mut array = HugeVec::<u64>::zeroed(bytes / 8)?;
        array.fill(1);
        let places: Vec<u32> = (0..1 << 20)
            .map(|_| random.random_range(0..array.len() as u32))
            .collect();
        let read = || {
            places
                .iter()
                .map(|place| array[*place as usize])
                .fold(0, u64::wrapping_add)
        };
        black_box(array.iter().sum::<u64>() + read());
        let start = Instant::now();
        black_box(read());
        latency.push((bytes, start.elapsed().as_secs_f64() / places.len() as f64));
    }
    let (spill, block) = (FileSpillSpace::new(directory), vec![7; 256 << 10]);
    let blocks = (largest / block.len()).clamp(1, 1000);
    let start = Instant::now();
    let ranges = (0..blocks)
        .map(|_| spill.write(&block))
        .collect::<JoinResult<Vec<_>>>()?;
    let write = (blocks * block.len()) as f64 / start.elapsed().as_secs_f64();
    let (start, mut bytes) = (Instant::now(), Vec::new());
    for range in ranges {
        spill.read(range, &mut bytes)?;
    }
    let read = (blocks * block.len()) as f64 / start.elapsed().as_secs_f64();
    println!(
        "spill space: {:.1} GB/s written, {:.1} GB/s read, by one thread",
        write / 1e9,
        read / 1e9
    );
    for (bytes, seconds) in &latency {
        println!(
            "random read from {:6} KiB of DRAM: {:.1} ns",
            bytes >> 10,
            seconds * 1e9
        );
    }
    let both = |rate: f64| [(1, rate), (2, rate * 1.8)];
    Ok(MediumCosts::new(
        &both(read),
        &both(write),
        4096,
        &latency,
        &latency,
    ))
}

struct Setup {
    rows: usize,
    threads: usize,
    directory: std::path::PathBuf,
    only: String,
    join: EquiJoin,
    ordered: ArrayRows,
    medium: MediumCosts,
}

impl Setup {
    /// Runs all algorithms in some memory.
    fn run(&self, name: &str, build: &BatchSource, probe: &BatchSource, divisor: usize) -> AnyResult {
        let table = self.rows * TABLE_ROW;
        let limit = if divisor == 1 { table * 2 } else { table / divisor };
        let size = JoinSize {
            build_rows: self.rows as u64,
            probe_rows: self.rows as u64 * 2,
            build_stored: 0.0,
            probe_stored: 0.0,
            build_row: TABLE_ROW as f64,
            probe_row: 16.0,
            pairs: self.rows as u64 * 2,
            matching: 1.0,
            dense_columns: Some(1),
            rereadable: true,
        };
        let choice = choose(&size, limit, self.threads, &self.medium, &CpuCosts::default());
        let mut estimates = choice.estimates().to_vec();
        estimates.sort_by_key(|estimate| estimate.algorithm.to_string());
        for estimate in estimates {
            let algorithm = estimate.algorithm;
            if !algorithm.to_string().contains(&self.only) {
                continue;
            }
            let (spill, cancelled) = (FileSpillSpace::new(&self.directory), AtomicBool::new(false));
            let threads = NonZeroUsize::new(self.threads).unwrap_or(NonZeroUsize::MIN);
            let context = JoinContext {
                threads,
                budget: JoinBudget::new(limit),
                spill: &spill,
                writers: threads,
                cancelled: &cancelled,
            };
            let (sum, found) = (AtomicI64::new(0), AtomicUsize::new(0));
            let sink = |batch: RecordBatch| {
                let column = |column: usize| batch.column(column).as_primitive::<Int64Type>();
                let total = |column: &Int64Array| column.values().iter().sum::<i64>();
                sum.fetch_add(total(column(0)) + total(column(1)), Ordering::Relaxed);
                found.fetch_add(batch.num_rows(), Ordering::Relaxed);
                Ok(())
            };
            let (start, cpu) = (Instant::now(), cpu_seconds());
            match algorithm {
                JoinAlgorithm::Hashed(algorithm) => {
                    self.join.run(algorithm, build, probe, &context, &sink)?;
                }
                JoinAlgorithm::Array => {
                    let keys = DenseKeyMap::detect(&self.ordered, 0, &context.budget)?.ok_or("dense keys")?;
                    self.join
                        .run_array(&self.ordered, &keys, probe, &context, &sink)?;
                }
            }
            println!(
                "{name:8} M=1/{divisor} {algorithm:14} {:6} ms (model {:6.0}, CPU {:6.0}), {} rows, sum {}, peak {} of {} MiB, \
                 spilled {} MiB",
                start.elapsed().as_millis(),
                estimate.seconds() * 1e3,
                (cpu_seconds() - cpu) * 1e3,
                found.into_inner(),
                sum.into_inner(),
                context.budget.peak() >> 20,
                limit >> 20,
                spill.len() >> 20
            );
        }
        Ok(())
    }
}

fn main() -> AnyResult {
    // `cargo test` runs every benchmark once, without this argument.
    let measured = env::args().any(|argument| argument == "--bench");
    let rows = number("HALOCLINE_BENCH_ROWS", if measured { 32_000_000 } else { 1000 })?;
    let directory = env::var_os("HALOCLINE_BENCH_SPILL").map_or_else(env::temp_dir, Into::into);
    let mut keys: Vec<i64> = (0..rows as i64).collect();
    let setup = Setup {
        rows,
        threads: number("HALOCLINE_BENCH_THREADS", 2)?,
        only: env::var("HALOCLINE_BENCH_ONLY").unwrap_or_default(),
        join: EquiJoin::new(JoinKind::Inner, vec![0], vec![0]).with_output(vec![1], vec![1]),
        ordered: ArrayRows::new(batch(&keys)?),
        medium: medium(&directory, rows * TABLE_ROW)?,
        directory,
    };
    let mut random = SmallRng::seed_from_u64(1);
    keys.shuffle(&mut random);
    let build = source(&keys)?;
    drop(keys);
    debug_assert_eq!(
        setup.join.row_bytes(&build.schema(), &build.schema()).ok(),
        Some((TABLE_ROW, 16))
    );
    for (name, is_zipf) in [("uniform", false), ("zipf 0.9", true)] {
        let draw = |_| {
            if is_zipf {
                zipf(&mut random, rows)
            } else {
                random.random_range(0..rows as i64)
            }
        };
        let keys: Vec<i64> = (0..rows * 2).map(draw).collect();
        let probe = source(&keys)?;
        drop(keys);
        for divisor in [1, 4, 8] {
            setup.run(name, &build, &probe, divisor)?;
        }
    }
    Ok(())
}
