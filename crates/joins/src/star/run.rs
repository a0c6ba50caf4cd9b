//! A star join, and running it on all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use halocline_columns::{CodePredicate, Segment};

use super::aggregate::{Aggregate, Groups};
use super::dimension::Dimension;
use super::pipeline::{Pipeline, integers};
use crate::{JoinError, Result};

/// A column of the fact table and the dimension whose keys it holds.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Of the fact table.
    pub column: usize,
    /// What its values are looked up in.
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
}

impl StarJoin {
    /// A join of these probes that computes `aggregates` of expressions over the columns `measured`.
    ///
    /// # Errors
    /// [`JoinError::TooManyGroups`].
    pub fn new(probes: Vec<Probe>, measured: Vec<usize>, aggregates: Vec<Aggregate>) -> Result<StarJoin> {
        let mut groups = 1_u128;
        let mut strides = Vec::with_capacity(probes.len());
        for probe in &probes {
            strides.push(groups as u32);
            groups = groups.saturating_mul(u128::from(probe.dimension.groups().max(1)));
        }
        Groups::new(groups, &aggregates)?;
        Ok(StarJoin {
            probes,
            strides,
            measured,
            aggregates,
            groups,
        })
    }

    /// The columns that are measured.
    pub fn measured(&self) -> &[usize] {
        &self.measured
    }

    /// Whether all columns of a segment that it needs can be read: whole numbers, keys of at most 32 bits.
    pub fn can_read(&self, segment: &Segment) -> bool {
        let keys = self.probes.iter().map(|probe| (probe.column, u32::BITS));
        let measured = self.measured.iter().map(|column| (*column, u64::BITS));
        keys.chain(measured).all(|(column, bits)| {
            let column = segment.column(column);
            integers(column).is_some() && column.code_bits().is_ok_and(|needed| needed <= bits)
        })
    }

    /// Joins the rows of `segments` that match their conditions, on `threads` threads. O(rows).
    ///
    /// # Errors
    /// [`JoinError::Interrupted`] when `interrupted` is set; [`JoinError::Columns`].
    ///
    /// # Panics
    /// If a segment [cannot be read](Self::can_read).
    pub fn run(
        &self,
        segments: &[(&Segment, Vec<(usize, CodePredicate)>)],
        threads: usize,
        interrupted: &AtomicBool,
    ) -> Result<(Groups, StarStats)> {
        let order = self.order(segments);
        let morsels: Vec<(usize, usize)> = segments
            .iter()
            .enumerate()
            .flat_map(|(number, (segment, _))| {
                (0..segment.rows().div_ceil(segment.chunk_rows().max(1))).map(move |chunk| (number, chunk))
            })
            .collect();
        let next = AtomicUsize::new(0);
        let work = || -> Result<(Groups, StarStats)> {
            let mut groups = Groups::new(self.groups, &self.aggregates)?;
            let mut stats = StarStats {
                passed: vec![0; order.len()],
                order: order.clone(),
                ..StarStats::default()
            };
            let mut open: Option<(usize, Option<Pipeline<'_>>)> = None;
            while let Some(&(number, chunk)) = morsels.get(next.fetch_add(1, Ordering::Relaxed)) {
                if interrupted.load(Ordering::Relaxed) {
                    return Err(JoinError::Interrupted);
                }
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
        let results: Vec<Result<(Groups, StarStats)>> = std::thread::scope(|scope| {
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
            stats
                .passed
                .iter_mut()
                .zip(of_thread.passed)
                .for_each(|(all, more)| *all += more);
        }
        Ok((groups, stats))
    }

    /// The order of probes: those first that throw away most rows for what they cost (the rank of predicate ordering). A probe costs
    /// the bits of its column, and what it waits for where its bytes do not fit a core's cache.
    fn order(&self, segments: &[(&Segment, Vec<(usize, CodePredicate)>)]) -> Vec<usize> {
        let largest = segments.iter().max_by_key(|(segment, _)| segment.rows());
        let rank = |probe: &Probe| {
            let Some((column, (base, _))) = largest
                .map(|(segment, _)| segment.column(probe.column))
                .and_then(|column| Some((column, integers(column)?)))
            else {
                return 0.0;
            };
            let high = column.code_space().map_or(0, |space| space.max_code());
            let share = probe.dimension.share_of(base, base.saturating_add_unsigned(high));
            let bits = f64::from(column.code_bits().unwrap_or(u32::BITS));
            let waits = match probe.dimension.probe_bytes() {
                ..0x4000 => 0.0,
                0x4000..0x2_0000 => 8.0,
                0x2_0000..0x40_0000 => 32.0,
                _ => 128.0,
            };
            let hashed = if probe.dimension.is_dense() { 0.0 } else { 64.0 };
            (1.0 - share) / (16.0 + bits + waits + hashed)
        };
        let mut order: Vec<usize> = (0..self.probes.len()).collect();
        order.sort_by(|a, b| rank(&self.probes[*b]).total_cmp(&rank(&self.probes[*a])));
        order
    }
}
