//! A star join and its parallel execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use halocline_columns::{CodePredicate, Segment};

use super::aggregate::{Aggregate, GroupStates};
use super::decoded::DecodedRows;
use super::dimension::Dimension;
use super::narrow::NarrowProbe;
use super::order::ProbeCost;
use super::pipeline::{Pipeline, integers};
use crate::{JoinError, JoinResult};

/// A dimension and the columns of the fact table that are looked up in it.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Columns of the fact table, as many as the keys of the dimension have.
    pub columns: Vec<usize>,
    /// The dimension.
    pub dimension: Arc<Dimension>,
}

/// A star join. The number of a row's group is `sum(group in probe i * product(groups of the probes before
/// i))`.
#[derive(Debug, Clone)]
pub struct StarJoin {
    pub(super) probes: Vec<Probe>,
    pub(super) strides: Vec<u32>,
    /// Columns of the fact table, which [`Measure::Column`](super::Measure::Column) refers to by position.
    pub(super) measured: Vec<usize>,
    pub(super) aggregates: Vec<Aggregate>,
    groups: u128,
    /// Bytes of an access unit of the medium.
    pub(super) unit: u64,
}

/// Statistics of a join.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StarStats {
    /// Rows of the fact table.
    pub rows: u64,
    /// Rows that match the conditions on the fact table.
    pub selected: u64,
    /// Rows that passed each probe, in the order of execution.
    pub passed: Vec<u64>,
    /// The probes in the order of execution.
    pub order: Vec<usize>,
    /// Bytes of the fact table that were read: whole chunks of columns with conditions, and of the others
    /// the blocks ([`BLOCK_ROWS`](halocline_columns::BLOCK_ROWS)) that had remaining rows.
    pub bytes: u64,
    /// The same in access units of the medium.
    pub units: u64,
}

/// A unit of work of a thread.
enum StarMorsel<'a> {
    /// A chunk of a segment.
    Chunk(usize, usize),
    /// Rows that are in no segment.
    Decoded(&'a DecodedRows),
}

impl StarJoin {
    /// Creates a join of these probes that computes `aggregates` of expressions over the columns `measured`.
    ///
    /// # Errors
    /// [`JoinError::TooManyGroups`].
    ///
    /// # Panics
    /// If the number of columns of a probe differs from that of the keys of its dimension.
    pub fn new(probes: Vec<Probe>, measured: Vec<usize>, aggregates: Vec<Aggregate>) -> JoinResult<StarJoin> {
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

    /// Sets the access unit in which reads are counted; by default a line.
    #[must_use]
    pub fn with_unit(mut self, bytes: u64) -> StarJoin {
        self.unit = bytes.max(1);
        self
    }

    /// Returns the number of bytes of DRAM that the groups of each thread occupy.
    pub fn group_bytes(&self) -> usize {
        GroupStates::bytes_of(self.groups, &self.aggregates)
    }

    /// Returns the columns that measures refer to.
    pub fn measured(&self) -> &[usize] {
        &self.measured
    }

    /// Returns true if all required columns of a segment can be read, which must be integers.
    pub fn can_read(&self, segment: &Segment) -> bool {
        let keys = self.probes.iter().flat_map(|probe| &probe.columns);
        keys.chain(&self.measured)
            .all(|column| integers(segment.column(*column)).is_some())
    }

    /// Joins the rows of `segments` that match their conditions, and decoded rows, on `threads` threads.
    /// O(rows).
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
    ) -> JoinResult<(GroupStates, StarStats)> {
        let order = self.order(segments)?;
        let chunks = segments.iter().enumerate().flat_map(|(number, (segment, _))| {
            (0..segment.rows().div_ceil(segment.chunk_rows().max(1)))
                .map(move |chunk| StarMorsel::Chunk(number, chunk))
        });
        let morsels: Vec<StarMorsel<'_>> = chunks.chain(decoded.iter().map(StarMorsel::Decoded)).collect();
        let next = AtomicUsize::new(0);
        let work = || -> JoinResult<(GroupStates, StarStats)> {
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
        let results: Vec<JoinResult<(GroupStates, StarStats)>> = std::thread::scope(|scope| {
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

    /// Returns the order of the probes, by a sample of blocks of the largest segment. Bounds of the keys
    /// would not suffice: a date as a number leaves most numbers between the first day and the last one
    /// unused.
    fn order(&self, segments: &[(&Segment, Vec<(usize, CodePredicate)>)]) -> JoinResult<Vec<usize>> {
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

/// Returns the share of the rows of a segment that pass a probe, in a sample; `None` for probes that are not
/// sampled.
fn sampled(probe: &Probe, segment: &Segment) -> JoinResult<Option<f64>> {
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
