//! A star join and its parallel execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use halocline_columns::{CodePredicate, ScanAhead, Segment, SegmentReads};
use halocline_costs::join::ProbeCost;

use super::aggregate::Aggregate;
use super::aggregate_filter::AggregateFilter;
use super::aggregation::floats;
use super::decoded::DecodedRows;
use super::dimension::Dimension;
use super::group_column::GroupColumn;
use super::group_table::{GroupTable, MemoryLimit};
use super::groups::Groups;
use super::measure::MeasureSource;
use super::merge::Merge;
use super::narrow::NarrowProbe;
use super::order::probe_cost;
use super::pipeline::{Pipeline, integers};
use super::plan::JoinPlan;
use super::strings::{Translations, has_string_keys};
use crate::{JoinError, JoinResult};

/// A segment of the fact table, and the conditions on its rows.
pub type SegmentRows<'a> = (&'a Segment, Vec<(usize, CodePredicate)>);

/// A dimension and the columns of the fact table that are looked up in it.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Columns of the fact table, one for each key column of the dimension.
    pub columns: Vec<usize>,
    /// The dimension.
    pub dimension: Arc<Dimension>,
}

/// A star join, also one without dimensions: an aggregate over the rows of one table.
///
/// The number of a row's group is a sum of parts, one for each probe and then one for each group column: the
/// number of the row's group in the dimension or of its value in the column, multiplied by the sizes of the
/// parts before.
#[derive(Debug, Clone)]
pub struct StarJoin {
    pub(super) probes: Vec<Probe>,
    pub(super) strides: Vec<u32>,
    /// Columns of the fact table and of payloads, which [`Measure::Column`](super::Measure::Column) and
    /// [`Measure::FloatColumn`](super::Measure::FloatColumn) refer to by position.
    pub(super) measured: Vec<MeasureSource>,
    pub(super) aggregates: Vec<Aggregate>,
    pub(super) group_columns: Vec<GroupColumn>,
    pub(super) filters: Vec<AggregateFilter>,
    /// Number of combinations of the groups of all probes.
    pub(super) probed_groups: u64,
    /// The same with the numbers of all group columns.
    pub(super) groups: u128,
    /// Bytes of an access unit of the medium.
    pub(super) unit: u64,
    /// Columns of the fact table whose chunks are read ahead.
    ahead: Vec<usize>,
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
    /// [`JoinError::TooManyGroups`] if 32 bits cannot number the groups of the probes.
    ///
    /// # Panics
    /// If the number of columns of a probe differs from that of the keys of its dimension.
    pub fn new(
        probes: Vec<Probe>,
        measured: Vec<MeasureSource>,
        aggregates: Vec<Aggregate>,
    ) -> JoinResult<StarJoin> {
        let mut groups = 1_u128;
        let mut strides = Vec::with_capacity(probes.len());
        for probe in &probes {
            assert_eq!(probe.columns.len(), probe.dimension.columns(), "columns of a key");
            // A factor that is cut off here means more groups than 32 bits can number, which is refused
            // below.
            strides.push(groups as u32);
            groups = groups.saturating_mul(u128::from(probe.dimension.groups().max(1)));
        }
        check_groups(groups, u32::MAX.into())?;
        Ok(StarJoin {
            probes,
            strides,
            measured,
            aggregates,
            group_columns: Vec::new(),
            filters: Vec::new(),
            probed_groups: groups as u64,
            groups,
            unit: 64,
            ahead: Vec::new(),
        })
    }

    /// Groups by columns of the fact table as well.
    ///
    /// # Errors
    /// [`JoinError::TooManyGroups`] if 64 bits cannot number the combinations.
    pub fn group_by(mut self, columns: Vec<GroupColumn>) -> JoinResult<StarJoin> {
        let sizes = columns.iter().map(|column| u128::from(column.size.max(1)));
        self.groups = sizes.fold(self.groups, u128::saturating_mul);
        check_groups(self.groups, u64::MAX)?;
        self.group_columns = columns;
        Ok(self)
    }

    /// Sets the conditions on the rows of aggregates, which [`Aggregate::filter`] refers to by position.
    #[must_use]
    pub fn filter(mut self, filters: Vec<AggregateFilter>) -> StarJoin {
        self.filters = filters;
        self
    }

    /// Sets the access unit in which reads are counted; by default a line.
    #[must_use]
    pub fn with_unit(mut self, bytes: u64) -> StarJoin {
        self.unit = bytes.max(1);
        self
    }

    /// Reads the chunks of these columns of the fact table ahead, for a file of which a part is not in
    /// memory; see [`ScanAhead`]. By default none.
    #[must_use]
    pub fn with_read_ahead(mut self, columns: Vec<usize>) -> StarJoin {
        self.ahead = columns;
        self
    }

    /// Returns the columns that measures refer to.
    pub fn measured(&self) -> &[MeasureSource] {
        &self.measured
    }

    /// Returns true if all required columns of a segment can be read: keys must be integers or strings as
    /// those of dimensions, measured columns integers or floats as the measures say, group columns and
    /// those of conditions must have codes.
    pub fn can_read(&self, segment: &Segment) -> bool {
        let of_integers = |probe: &&Probe| probe.dimension.strings().is_none();
        let keys = (self.probes.iter().filter(of_integers)).flat_map(|probe| &probe.columns);
        let conditions = self.filters.iter().flat_map(|filter| &filter.conditions);
        let conditions = conditions.flatten().map(|(column, _)| *column);
        let mut coded = self
            .group_columns
            .iter()
            .map(|group| group.column)
            .chain(conditions);
        let mut measured = self.measured.iter().enumerate();
        let strings = (self.probes.iter()).all(|probe| {
            let has_dictionary = || has_string_keys(segment.column(probe.columns[0]));
            probe.dimension.strings().is_none() || has_dictionary()
        });
        strings
            && keys
                .copied()
                .all(|column| integers(segment.column(column)).is_some())
            && measured.all(|(position, source)| {
                let MeasureSource::Fact(column) = source else {
                    return true;
                };
                let mut measures = self.aggregates.iter().map(|aggregate| &aggregate.measure);
                if measures.any(|measure| measure.reads_floats(position)) {
                    floats(segment.column(*column)).is_some()
                } else {
                    integers(segment.column(*column)).is_some()
                }
            })
            && coded.all(|column| segment.column(column).code_space().is_some())
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
        segments: &[SegmentRows<'_>],
        decoded: &[DecodedRows],
        threads: usize,
        interrupted: &AtomicBool,
    ) -> JoinResult<(Groups, StarStats)> {
        self.run_within(segments, decoded, threads, interrupted, &|_| true)
    }

    /// Does the same as [`run`](Self::run) within a limit of memory for groups: `reserve` is called with the
    /// bytes of each allocation and returns false if less is left.
    ///
    /// # Errors
    /// [`JoinError::Memory`], and those of [`run`](Self::run).
    ///
    /// # Panics
    /// If a segment [cannot be read](Self::can_read).
    pub fn run_within(
        &self,
        segments: &[SegmentRows<'_>],
        decoded: &[DecodedRows],
        threads: usize,
        interrupted: &AtomicBool,
        reserve: &(dyn Fn(usize) -> bool + Sync),
    ) -> JoinResult<(Groups, StarStats)> {
        let plan = JoinPlan::new(self, segments, decoded)?;
        let memory = MemoryLimit(reserve);
        let chunks = segments.iter().enumerate().flat_map(|(number, (segment, _))| {
            (0..segment.rows().div_ceil(segment.chunk_rows().max(1)))
                .map(move |chunk| StarMorsel::Chunk(number, chunk))
        });
        let morsels: Vec<StarMorsel<'_>> = chunks.chain(decoded.iter().map(StarMorsel::Decoded)).collect();
        let next = AtomicUsize::new(0);
        let ahead = (!self.ahead.is_empty()).then(|| self.ahead_of(segments));
        let work = || -> JoinResult<(GroupTable<'_>, StarStats)> {
            let mut groups = GroupTable::new(&plan.layout, plan.grouping, memory)?;
            let mut stats = StarStats {
                passed: vec![0; plan.order.len()],
                order: plan.order.clone(),
                ..StarStats::default()
            };
            let mut open: Option<(usize, Option<Pipeline<'_>>)> = None;
            // Relaxed order suffices: the counter hands out numbers and nothing else. Results are passed on
            // when the threads are joined.
            while let Some(morsel) = morsels.get(next.fetch_add(1, Ordering::Relaxed)) {
                if interrupted.load(Ordering::Relaxed) {
                    return Err(JoinError::Interrupted);
                }
                let (number, chunk) = match *morsel {
                    StarMorsel::Chunk(number, chunk) => (number, chunk),
                    StarMorsel::Decoded(rows) => {
                        plan.decoded(rows, &mut groups, &mut stats)?;
                        continue;
                    }
                };
                // Chunks of a segment are handed out one after the other, so a thread opens a segment once.
                if open.as_ref().is_none_or(|(other, _)| *other != number) {
                    let (segment, conditions) = &segments[number];
                    open = Some((
                        number,
                        Pipeline::for_segment(&plan, (number, segment), conditions)?,
                    ));
                }
                if let Some((_, Some(pipeline))) = &mut open {
                    if let Some(ahead) = &ahead {
                        ahead.begin(number, chunk);
                    }
                    pipeline.chunk(chunk, &mut groups, &mut stats)?;
                }
            }
            Ok((groups, stats))
        };
        let threads = threads.clamp(1, morsels.len().max(1));
        let results: Vec<JoinResult<(GroupTable<'_>, StarStats)>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            // This thread works as well instead of waiting for the others.
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
        let mut stats = StarStats {
            passed: vec![0; plan.order.len()],
            order: plan.order.clone(),
            ..StarStats::default()
        };
        let mut tables = Vec::with_capacity(threads);
        for result in results {
            let (table, of_thread) = result?;
            tables.push(table);
            stats.add(&of_thread);
        }
        let merge = Merge {
            layout: &plan.layout,
            grouping: plan.grouping,
            threads,
            interrupted,
            memory,
        };
        Ok((merge.tables(tables)?, stats))
    }

    /// Returns the read-ahead of these segments.
    fn ahead_of(&self, segments: &[SegmentRows<'_>]) -> ScanAhead {
        let reads = segments.iter().map(|(segment, conditions)| SegmentReads {
            segment: Segment::clone(segment),
            columns: self.ahead.clone(),
            conditions: conditions.clone(),
        });
        ScanAhead::new(reads.collect())
    }

    /// Returns the order of the probes, by a sample of blocks of the largest segment. Bounds of the keys
    /// would not suffice: a date as a number leaves most numbers between the first day and the last one
    /// unused.
    pub(super) fn order(
        &self,
        segments: &[SegmentRows<'_>],
        translations: &Translations,
    ) -> JoinResult<Vec<usize>> {
        let all = segments.iter().enumerate();
        let largest = all.max_by_key(|(_, (segment, _))| segment.rows());
        let mut costs = Vec::with_capacity(self.probes.len());
        for (number, probe) in self.probes.iter().enumerate() {
            let columns = largest.map_or_else(Vec::new, |(_, (segment, _))| {
                let columns = probe.columns.iter().map(|column| segment.column(*column));
                columns.collect::<Vec<_>>()
            });
            let mut cost = probe_cost(&columns, &probe.dimension);
            // A single probe has no order, and the blocks of a sample would be read in vain.
            if let Some((of_segment, (segment, _))) = largest.filter(|_| self.probes.len() > 1) {
                let translation = translations.get(number, of_segment);
                cost.share = sampled(probe, translation, segment)?.or(cost.share);
            }
            costs.push(cost);
        }
        Ok(ProbeCost::order(&costs))
    }
}

impl StarStats {
    /// Adds the statistics of another thread.
    fn add(&mut self, other: &StarStats) {
        self.rows += other.rows;
        self.selected += other.selected;
        self.bytes += other.bytes;
        self.units += other.units;
        let passed = self.passed.iter_mut().zip(&other.passed);
        passed.for_each(|(all, more)| *all += more);
    }
}

/// Checks the number of groups against a limit.
///
/// # Errors
/// [`JoinError::TooManyGroups`] if there are more groups than `most`.
fn check_groups(groups: u128, most: u64) -> JoinResult<()> {
    if groups > most.into() {
        Err(JoinError::TooManyGroups { groups, most })
    } else {
        Ok(())
    }
}

/// Returns the share of the rows of a segment that pass a probe, in a sample; `None` for probes that are not
/// sampled.
fn sampled(probe: &Probe, translation: Option<&[u32]>, segment: &Segment) -> JoinResult<Option<f64>> {
    let [column] = probe.columns[..] else {
        return Ok(None);
    };
    let is_narrow = segment.column(column).code_bits()? <= u32::BITS;
    if !is_narrow || segment.rows() == 0 || probe.dimension.is_optional() {
        return Ok(None);
    }
    match NarrowProbe::for_segment(probe, translation, segment, &mut Vec::new())? {
        Some(mut narrow) => narrow.sample(segment).map(Some),
        None => Ok(Some(0.0)),
    }
}
