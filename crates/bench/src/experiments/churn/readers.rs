//! Readers beside a compaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use halocline_emulator::Watch;
use halocline_engine::{CompactOptions, Database, EngineError};
use halocline_workloads::SplitMix64;

use super::TABLE;
use crate::{BenchError, Reporter, Samples, Settings, config};

/// Limit of what a background compaction writes, in bytes a second.
const BANDWIDTH: u64 = 32 << 20;

/// Load beside the readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// The table written anew, with a limit on bytes a second if there is one.
    Compaction(Option<u64>),
}

impl Beside {
    const ALL: [Self; 3] = [
        Self::Nothing,
        Self::Compaction(Some(BANDWIDTH)),
        Self::Compaction(None),
    ];

    fn name(self) -> String {
        match self {
            Self::Nothing => "undisturbed".to_owned(),
            Self::Compaction(Some(limit)) => format!("beside compaction at {} MiB/s", limit >> 20),
            Self::Compaction(None) => "beside compaction without limit".to_owned(),
        }
    }
}

/// The queries of all readers in one round.
struct Round {
    per_second: f64,
    /// Milliseconds of each, ascending.
    latencies: Vec<f64>,
}

impl Round {
    /// Returns the latency in milliseconds that a fraction of the queries does not exceed; NaN if there are
    /// no queries.
    fn percentile(&self, fraction: f64) -> f64 {
        let at = (self.latencies.len() as f64 * fraction).ceil() as usize;
        self.latencies.get(at.max(1) - 1).copied().unwrap_or(f64::NAN)
    }
}

/// Measures readers alone and beside compactions; turns alternate.
pub(super) fn disturb(
    database: &Database,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let duration = Duration::from_millis(if settings.quick { 200 } else { 5000 });
    let readers = settings.threads();
    let mut rounds: [Vec<Round>; 3] = Default::default();
    round(database, Beside::Nothing, duration / 4, readers, settings.seed)?;
    for repetition in 0..settings.repetitions(3) {
        for (beside, rounds) in Beside::ALL.into_iter().zip(&mut rounds) {
            let seed = settings.seed.wrapping_add(repetition as u64);
            rounds.push(round(database, beside, duration, readers, seed)?);
        }
    }
    for (beside, rounds) in Beside::ALL.into_iter().zip(&rounds) {
        let config = config! {"readers": readers, "seconds": duration.as_secs_f64(), "beside": beside.name()};
        let mut record = |metric: &str, unit: &str, of: &dyn Fn(&Round) -> f64| {
            let samples = Samples::new(rounds.iter().map(of).collect());
            report.samples("halocline", &config, metric, &samples, unit)
        };
        record("throughput", "1/s", &|round| round.per_second)?;
        record("latency_p50", "ms", &|round| round.percentile(0.5))?;
        record("latency_p99", "ms", &|round| round.percentile(0.99))?;
    }
    Ok(())
}

/// Runs the readers for `duration`, beside a compaction if there is one, which begins before the first query
/// and lasts until the end.
fn round(
    database: &Database,
    beside: Beside,
    duration: Duration,
    readers: usize,
    seed: u64,
) -> Result<Round, BenchError> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let compaction = match beside {
            Beside::Nothing => None,
            Beside::Compaction(limit) => {
                let over = &over;
                Some(scope.spawn(move || compact(database, limit, over)))
            }
        };
        let handles: Vec<_> = (0..readers)
            .map(|reader| {
                scope.spawn(move || read(database, duration, SplitMix64::stream(seed, reader as u64)))
            })
            .collect();
        let (mut latencies, mut per_second) = (Vec::new(), 0.0);
        let mut failed = None;
        for handle in handles {
            match joined(handle) {
                Ok((more, seconds)) => {
                    per_second += more.len() as f64 / seconds;
                    latencies.extend(more);
                }
                Err(error) => failed = Some(error),
            }
        }
        over.store(true, Ordering::Relaxed);
        if let Some(compaction) = compaction {
            joined(compaction)?;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        latencies.sort_by(f64::total_cmp);
        Ok(Round {
            per_second,
            latencies,
        })
    })
}

fn joined<T>(handle: thread::ScopedJoinHandle<'_, Result<T, BenchError>>) -> Result<T, BenchError> {
    handle
        .join()
        .unwrap_or_else(|_| Err(BenchError::Setup("a thread of the experiment died".to_owned())))
}

/// Writes the whole table anew, again and again, until it is told to end.
fn compact(database: &Database, bandwidth: Option<u64>, over: &AtomicBool) -> Result<(), BenchError> {
    let options = CompactOptions::default()
        .with_bandwidth(bandwidth)
        .with_full(true);
    loop {
        match database.compact(Some(TABLE), &options, &mut |_| {}, over) {
            Err(EngineError::Cancelled) => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(_) if over.load(Ordering::Relaxed) => return Ok(()),
            Ok(_) => {}
        }
    }
}

/// Asks selections for a while; milliseconds of each, and seconds of all.
fn read(database: &Database, duration: Duration, mut rng: SplitMix64) -> Result<(Vec<f64>, f64), BenchError> {
    let database = database.session();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (begin, all) = (Instant::now(), Watch::start_alone(database.device()));
    let mut latencies = Vec::new();
    while begin.elapsed() < duration {
        let sql = format!(
            "SELECT count(*), sum(l_extendedprice) FROM {TABLE} WHERE l_discount = 0.{:02} AND l_quantity = {} \
             AND l_shipdate BETWEEN DATE '1994-01-01' AND DATE '1994-01-{:02}'",
            rng.below(11),
            1 + rng.below(50),
            1 + rng.below(28)
        );
        let watch = Watch::start_alone(database.device());
        runtime.block_on(async { database.sql(&sql).await?.collect().await })?;
        latencies.push(watch.elapsed().as_secs_f64() * 1e3);
    }
    Ok((latencies, all.elapsed().as_secs_f64()))
}
