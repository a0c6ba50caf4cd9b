//! The queries that advice is based on: selection of a sample and measurement of their CPU time.

use super::IndexShare;
use super::watched::{Meter, Watched};
use crate::elf::Elf;
use crate::{CodePredicate, Result, Tid};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A query of an index, in its codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// [`Elf::exact`] with one code for each dimension.
    Exact(Vec<u64>),
    /// [`Elf::select`] with one predicate for each dimension.
    Select(Vec<CodePredicate>),
}

/// Minimum number of queries that are run, if the sample has as many.
const MIN_QUERIES: usize = 16;
/// Time to run a query on all candidates and their devices, as a multiple of its own time.
const RUN_TIME_FACTOR: u32 = 60;

/// A query of all parts of an index with its CPU time.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeasuredQuery {
    /// Its position in the sample.
    pub(super) at: usize,
    /// CPU time in picoseconds: in total, and before each read.
    pub(super) work: u64,
    pub(super) work_of_touch: u64,
}

impl Query {
    /// Runs the query and drops its result.
    pub(super) fn run(&self, elf: &Elf<Watched>, tids: &mut Vec<Tid>) -> Result<()> {
        match self {
            Self::Exact(point) => {
                black_box(elf.exact(point)?.count());
            }
            Self::Select(predicates) => {
                let selection = elf.select(predicates)?;
                if elf.is_clustered() {
                    selection.ranges(|range| {
                        black_box(range);
                    })?;
                } else {
                    tids.clear();
                    selection.tids_into(tids)?;
                    black_box(&tids);
                }
            }
        }
        Ok(())
    }

    /// Trains copies that follow the queries with it.
    pub(super) fn learn(&self, elf: &Elf<Watched>) -> Result<()> {
        match self {
            Self::Exact(point) => elf.learn_exact(point),
            Self::Select(predicates) => elf.learn_selection(predicates),
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Exact(_) => 0,
            Self::Select(_) => 1,
        }
    }
}

/// Selects as many queries of the sample, evenly spread, as can be run on all candidates within about `most`.
pub(super) fn choose(parts: &[IndexShare<'_>], most: Duration) -> Result<Vec<usize>> {
    let len = parts.iter().map(|part| part.queries.len()).min().unwrap_or(0);
    let spread = |count: usize| (0..count).map(move |i| i * len / count);
    let (mut tids, start, few) = (vec![], Instant::now(), MIN_QUERIES.min(len));
    for at in spread(few) {
        for part in parts {
            part.queries[at].run(&part.elf, &mut tids)?;
        }
    }
    let each = (start.elapsed() / few.max(1) as u32).max(Duration::from_nanos(100)) * RUN_TIME_FACTOR;
    let count = (most.as_nanos() / each.as_nanos()) as usize;
    Ok(spread(count.clamp(few, len)).collect())
}

/// Determines the CPU time of each query: `cpu` on average, or else measured with the lines that it reads in
/// the caches. Queries of a kind are assumed to work equally long for each read.
pub(super) fn work(
    parts: &[IndexShare<'_>],
    chosen: &[usize],
    cpu: Option<Duration>,
) -> Result<Vec<MeasuredQuery>> {
    let meter = Meter::counting();
    let counted: Vec<Elf<Watched>> = parts
        .iter()
        .map(|part| Elf::open(part.elf.bytes().with_meter(&meter)))
        .collect::<Result<_>>()?;
    let (mut tids, mut touches) = (vec![], Vec::with_capacity(chosen.len()));
    let (mut time, mut all, mut queries) = ([Duration::ZERO; 2], [0_u64; 2], [0_u32; 2]);
    for &at in chosen {
        let (before, mut best) = (meter.touches(), Duration::ZERO);
        for (part, counted) in parts.iter().zip(&counted) {
            let query = &part.queries[at];
            query.run(counted, &mut tids)?;
            if cpu.is_none() {
                best += hot(query, &part.elf, &mut tids)?;
            }
        }
        let (kind, own) = (parts[0].queries[at].kind(), meter.touches() - before);
        time[kind] += cpu.unwrap_or(best);
        all[kind] += own;
        queries[kind] += 1;
        touches.push((at, kind, own));
    }
    let picoseconds = |kind: usize| time[kind].as_nanos() as f64 * 1000.0;
    let asked = touches.into_iter().map(|(at, kind, own)| {
        let of_touch = picoseconds(kind) / all[kind].max(1) as f64;
        let work = match all[kind] {
            0 => picoseconds(kind) / f64::from(queries[kind].max(1)),
            _ => of_touch * own as f64,
        };
        MeasuredQuery {
            at,
            work: work as u64,
            work_of_touch: of_touch as u64,
        }
    });
    Ok(asked.collect())
}

/// Measures a query whose data is in the CPU's caches: the minimum of a few runs, each of which repeats a
/// short query.
fn hot(query: &Query, elf: &Elf<Watched>, tids: &mut Vec<Tid>) -> Result<Duration> {
    const SHORT_QUERY: Duration = Duration::from_micros(20);
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        query.run(elf, tids)?;
        let mut once = start.elapsed();
        if once < SHORT_QUERY {
            const REPETITIONS: u32 = 4;
            let start = Instant::now();
            for _ in 0..REPETITIONS {
                query.run(elf, tids)?;
            }
            once = start.elapsed() / REPETITIONS;
        }
        best = best.min(once);
        if once > 100 * SHORT_QUERY {
            break;
        }
    }
    Ok(best)
}
