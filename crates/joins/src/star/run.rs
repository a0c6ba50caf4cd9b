//! A star join, and running it on all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use halocline_columns::{CodePredicate, Segment};

use super::aggregate::{Aggregate, GroupStates};
use super::decoded::DecodedRows;
use super::dimension::Dimension;
use super::narrow::NarrowProbe;
use super::order::ProbeCost;
use super::pipeline::{Pipeline, integers};
use crate::{JoinError, Result};

/// Columns of the fact table and the dimension whose keys they hold.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Of the fact table, as many as the dimension's keys have.
    pub columns: Vec<usize>,
    /// What their values are looked up in.
    pub dimension: Arc<Dimension>,
}

/// A star join. The number of a row's group is `sum(group in probe i * product(groups of the probes before i))`.
#[derive(Debug, Clone)]
pub struct StarJoin {
    pub(super) probes: Vec<Probe>,
    pub(super) strides: Vec<u32>,
    /// Columns of the fact table that [`Measure::Column`](super::Measure::Column) numbers.
    pub(super) measured: Vec<usize>,
    pub(super) aggregates: Vec<Aggregate>,
    groups: u128,
    /// Bytes of a unit.
    pub(super) unit: u64,
}

/// What a join has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StarStats {
    /// Rows of the fact table.
    pub rows: u64,
    /// Those that its own conditions left.
    pub selected: u64,
    /// Those that each probe left, in the order in which they were done.
    pub passed: Vec<u64>,
    /// The probes in that order.
    pub order: Vec<usize>,
    /// Bytes of the fact table that were read: chunks of columns with conditions as a whole, and of the others the blocks
    /// ([`BLOCK_ROWS`](halocline_columns::BLOCK_ROWS)) that had rows left.
    pub bytes: u64,
    /// The same in units of the medium.
    pub units: u64,
}

/// What a thread takes at a time.
enum StarMorsel<'a> {
    /// A chunk of a segment.
    Chunk(usize, usize),
    /// Rows that are in none.
    Decoded(&'a DecodedRows),
}

impl StarJoin {
    /// A join of these probes that computes `aggregates` of expressions over the columns `measured`.
    ///
    /// # Errors
    /// [`JoinError::TooManyGroups`].
    ///
    /// # Panics
    /// If a probe has not as many columns as its dimension's keys.
    pub fn new(probes: Vec<Probe>, measured: Vec<usize>, aggregates: Vec<Aggregate>) -> Result<StarJoin> {
        let mut groups = 1_u128;
        let mut strides = Vec::with_capacity(probes.len());
        for probe in &probes {
            assert_eq!(probe.columns.len(), probe.dimension.columns(), "columns of a key");
            strides.push(groups as u32);
            groups = groups.saturating_mul(u128::from(probe.dimension.groups().max(1)));
        }
        GroupStates::new(groups, &aggregates)?;
        Ok(StarJoin {
            probes,
            strides,
            measured,
            aggregates,
            groups,
            unit: 64,
        })
    }

    /// Counts what is read in units of so many bytes, a line if it is not said.
    #[must_use]
    pub fn with_unit(mut self, bytes: u64) -> StarJoin {
        self.unit = bytes.max(1);
        self
    }

    /// Bytes of DRAM that each thread keeps groups in.
    pub fn group_bytes(&self) -> usize {
        GroupStates::bytes_of(self.groups, &self.aggregates)
    }

    /// The columns that are measured.
    pub fn measured(&self) -> &[usize] {
        &self.measured
    }

    /// Whether all columns of a segment that it needs can be read: whole numbers.
    pub fn can_read(&self, segment: &Segment) -> bool {
        let keys = self.probes.iter().flat_map(|probe| &probe.columns);
        keys.chain(&self.measured)
            .all(|column| integers(segment.column(*column)).is_some())
    }

    /// Joins the rows of `segments` that match their conditions and those that are in none, on `threads` threads. O(rows).
    ///
    /// # Errors
    /// [`JoinError::Interrupted`] when `interrupted` is set; [`JoinError::Overflow`]; [`JoinError::Columns`].
    ///
    /// # Panics
    /// If a segment [cannot be read](Self::can_read).
    pub fn run(
        &self,
        segments: &[(&Segment, Vec<(usize, CodePredicate)>)],
        decoded: &[DecodedRows],
        threads: usize,
        interrupted: &AtomicBool,
    ) -> Result<(GroupStates, StarStats)> {
        let order = self.order(segments)?;
        let chunks = segments.iter().enumerate().flat_map(|(number, (segment, _))| {
            (0..segment.rows().div_ceil(segment.chunk_rows().max(1)))
                .map(move |chunk| StarMorsel::Chunk(number, chunk))
        });
        let morsels: Vec<StarMorsel<'_>> = chunks.chain(decoded.iter().map(StarMorsel::Decoded)).collect();
        let next = AtomicUsize::new(0);
        let work = || -> Result<(GroupStates, StarStats)> {
            let mut groups = GroupStates::new(self.groups, &self.aggregates)?;
            let mut stats = StarStats {
                passed: vec![0; order.len()],
                order: order.clone(),
                ..StarStats::default()
            };
            let mut open: Option<(usize, Option<Pipeline<'_>>)> = None;
            while let Some(morsel) = morsels.get(next.fetch_add(1, Ordering::Relaxed)) {
                if interrupted.load(Ordering::Relaxed) {
                    return Err(JoinError::Interrupted);
                }
                let (number, chunk) = match *morsel {
                    StarMorsel::Chunk(number, chunk) => (number, chunk),
                    StarMorsel::Decoded(rows) => {
                        self.decoded(rows, &order, &mut groups, &mut stats)?;
                        continue;
                    }
                };
                if open.as_ref().is_none_or(|(other, _)| *other != number) {
                    let (segment, conditions) = &segments[number];
                    open = Some((number, Pipeline::of(self, segment, conditions, &order)?));
                }
                if let Some((_, Some(pipeline))) = &mut open {
                    pipeline.chunk(chunk, &mut groups, &mut stats)?;
                }
            }
            Ok((groups, stats))
        };
        let threads = threads.clamp(1, morsels.len().max(1));
        let results: Vec<Result<(GroupStates, StarStats)>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut results = vec![work()];
            for other in others {
                results.push(
                    other
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                );
            }
            results
        });
        let mut results = results.into_iter();
        let (mut groups, mut stats) = match results.next() {
            Some(first) => first?,
            None => return Err(JoinError::Interrupted),
        };
        for result in results {
            let (more, of_thread) = result?;
            groups.merge(&more);
            stats.rows += of_thread.rows;
            stats.selected += of_thread.selected;
            stats.bytes += of_thread.bytes;
            stats.units += of_thread.units;
            stats
                .passed
                .iter_mut()
                .zip(of_thread.passed)
                .for_each(|(all, more)| *all += more);
        }
        Ok((groups, stats))
    }

    /// The order of probes, by what some blocks of the largest segment tell. Bounds of keys would tell too little: a date
    /// as a number leaves most numbers between the first day and the last unused.
    fn order(&self, segments: &[(&Segment, Vec<(usize, CodePredicate)>)]) -> Result<Vec<usize>> {
        let largest = segments.iter().max_by_key(|(segment, _)| segment.rows());
        let mut costs = Vec::with_capacity(self.probes.len());
        for probe in &self.probes {
            let columns = largest.map_or_else(Vec::new, |(segment, _)| {
                let columns = probe.columns.iter().map(|column| segment.column(*column));
                columns.collect::<Vec<_>>()
            });
            let mut cost = ProbeCost::of(&columns, &probe.dimension);
            if let Some((segment, _)) = largest.filter(|_| self.probes.len() > 1) {
                cost.share = sampled(probe, segment)?.or(cost.share);
            }
            costs.push(cost);
        }
        Ok(ProbeCost::order(&costs))
    }
}

/// The share of a segment's rows that a probe keeps, in a sample; `None` if it is one that is not sampled.
fn sampled(probe: &Probe, segment: &Segment) -> Result<Option<f64>> {
    let [column] = probe.columns[..] else {
        return Ok(None);
    };
    if segment.column(column).code_bits()? > u32::BITS || segment.rows() == 0 {
        return Ok(None);
    }
    match NarrowProbe::of(probe, 1, segment, &mut Vec::new())? {
        Some(mut narrow) => narrow.sample(segment).map(Some),
        None => Ok(Some(0.0)),
    }
}
