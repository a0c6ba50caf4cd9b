//! The pipeline over one segment: from stripes of some blocks to aggregates.
//!
//! The remaining rows of a stripe are a bit mask per block while they are many, and then one selection vector
//! for all blocks, which the next stripes share if few of their rows remain: fixed costs per pass are shared
//! by many rows, and their lines are fetched concurrently.
//!
//! A stripe is eight blocks of 1,024 rows. While more than a sixth of the rows is left (a thirtieth if keys
//! are stored as runs), a probe looks up all of them and a bit mask says what stays; later probes use a
//! selection vector. Rows of following stripes join it, up to about a thousand or the end of the chunk. Keys
//! that lie side by side without a gap, and are not grouped by, become a condition instead of a probe.

use std::collections::BTreeMap;

use halocline_columns::{BLOCK_ROWS, CodePredicate, Column, Segment, SelectionVector, rows_in};

use super::aggregation::{Aggregation, Probed};
use super::group_table::GroupTable;
use super::narrow::NarrowProbe;
use super::plan::JoinPlan;
use super::rows::BatchRows;
use super::run::{StarJoin, StarStats};
use super::stripe::{PendingSelection, STRIPE, Stripe};
use super::wide::WideProbe;
use crate::JoinResult;

/// Number of rows from which a selection is processed: enough to overlap many accesses to memory.
const MIN_SELECTION_ROWS: usize = 1024;

/// Number of remaining rows of a block from which the block is aggregated by itself if there is no probe.
const MIN_WHOLE_BLOCK_ROWS: usize = 256;

/// A probe of one segment.
enum SegmentProbe<'a> {
    /// A single column with codes of 32 bits.
    Narrow(Box<NarrowProbe<'a>>),
    Wide(WideProbe<'a>),
}

/// The precondition that the caller ensures by [`StarJoin::can_read`].
pub(super) const READABLE: &str = "a star join reads whole numbers";

/// The pipeline over one segment, with its buffers.
pub(super) struct Pipeline<'a> {
    join: &'a StarJoin,
    segment: &'a Segment,
    conditions: Vec<(usize, CodePredicate)>,
    /// The probes in the order of execution, and their positions in the join.
    probes: Vec<SegmentProbe<'a>>,
    order: &'a [usize],
    stripe: Stripe,
    /// Remaining rows of stripes, and where they are.
    selection: SelectionVector,
    few: PendingSelection,
    /// Room for codes of the remaining rows.
    codes: Vec<u32>,
    /// The number of the group of each of these rows by the probes alone.
    groups: Vec<u32>,
    /// For each probe of the join, the numbers of the keys of these rows, if its dimension has numbers.
    numbers: Vec<Vec<u32>>,
    aggregation: Aggregation<'a>,
    /// Number of blocks of the chunk that each probe has read, in order, followed by that of the measures.
    blocks_read: Vec<u64>,
}

impl<'a> Pipeline<'a> {
    /// Returns the pipeline over a segment; `None` if no row of it can match.
    ///
    /// # Panics
    /// If it [cannot be read](StarJoin::can_read).
    pub(super) fn for_segment(
        plan: &'a JoinPlan<'_>,
        (number, segment): (usize, &'a Segment),
        conditions: &[(usize, CodePredicate)],
    ) -> JoinResult<Option<Self>> {
        let (join, order) = (plan.join, &plan.order);
        let of_segment = number;
        let mut conditions = conditions.to_vec();
        if conditions
            .iter()
            .any(|(_, predicate)| *predicate == CodePredicate::Nothing)
        {
            return Ok(None);
        }
        let mut probes = Vec::with_capacity(order.len());
        for &number in order {
            let probe = &join.probes[number];
            let translation = plan.translations.get(number, of_segment);
            let narrow = match probe.columns.as_slice() {
                [column] if !probe.dimension.is_optional() => {
                    segment.column(*column).code_bits()? <= u32::BITS
                }
                _ => false,
            };
            if !narrow {
                let wide = WideProbe::for_segment(probe, segment, &mut conditions)?;
                probes.push(SegmentProbe::Wide(wide));
                continue;
            }
            match NarrowProbe::for_segment(probe, translation, segment, &mut conditions)? {
                Some(narrow) => probes.push(SegmentProbe::Narrow(Box::new(narrow))),
                None => return Ok(None),
            }
        }
        Ok(Some(Pipeline {
            aggregation: Aggregation::for_segment(plan, (of_segment, segment))?,
            join,
            segment,
            conditions,
            probes,
            stripe: Stripe::default(),
            selection: SelectionVector::default(),
            few: PendingSelection::default(),
            codes: Vec::new(),
            groups: Vec::new(),
            numbers: vec![Vec::new(); order.len()],
            order,
            blocks_read: vec![0; order.len() + 1],
        }))
    }

    /// Runs over one chunk.
    pub(super) fn chunk(
        &mut self,
        chunk: usize,
        groups: &mut GroupTable<'_>,
        stats: &mut StarStats,
    ) -> JoinResult<()> {
        let size = self.segment.chunk_rows();
        let rows = chunk * size..((chunk + 1) * size).min(self.segment.rows());
        stats.rows += rows.len() as u64;
        for probe in &self.probes {
            let may_match = match probe {
                SegmentProbe::Narrow(probe) => probe.may_match(chunk)?,
                SegmentProbe::Wide(probe) => probe.may_match(chunk)?,
            };
            if !may_match {
                return Ok(());
            }
        }
        // The closure borrows the whole pipeline, so the conditions are taken out of it meanwhile.
        let (segment, conditions) = (self.segment, std::mem::take(&mut self.conditions));
        let mut result = Ok(());
        let found = segment.select_blocks(&conditions, rows, |first, mask| {
            let block = first % size / BLOCK_ROWS;
            // Blocks come in order: one of another stripe completes the current stripe.
            if block / STRIPE != self.stripe.block / STRIPE && result.is_ok() {
                result = self.stripe(groups, stats);
            }
            let stripe = &mut self.stripe;
            (stripe.chunk, stripe.block) = (chunk, block / STRIPE * STRIPE);
            stripe.masks[block % STRIPE] = *mask;
            stripe.present |= 1 << (block % STRIPE);
        });
        self.conditions = conditions;
        found?;
        result?;
        self.stripe(groups, stats)?;
        self.few(groups, stats)?;
        self.count_reads(chunk, stats)
    }

    /// Counts what was read of a chunk: columns with a condition that its zone does not decide, and blocks
    /// that the pipeline got to of the others.
    fn count_reads(&mut self, chunk: usize, stats: &mut StarStats) -> JoinResult<()> {
        let mut blocks_of: BTreeMap<usize, u64> = BTreeMap::new();
        for (number, codes) in &self.conditions {
            let (low, high) = self.segment.column(*number).zone(chunk)?;
            // A condition that the zone decides is not evaluated, whether it keeps all rows of the chunk or
            // none.
            let decided = match codes {
                CodePredicate::Set(_) => low == high,
                codes => codes
                    .bounds()
                    .is_none_or(|(from, to)| high < from || to < low || from <= low && high <= to),
            };
            if !decided {
                blocks_of.insert(*number, u64::MAX);
            }
        }
        let probes = stats
            .order
            .iter()
            .map(|number| &self.join.probes[*number].columns);
        let mut note = |column: usize, blocks: u64| {
            let of_column = blocks_of.entry(column).or_default();
            *of_column = of_column.saturating_add(blocks);
        };
        for (columns, blocks) in probes.zip(&mut self.blocks_read) {
            let blocks = std::mem::take(blocks);
            columns.iter().for_each(|column| note(*column, blocks));
        }
        let blocks = self.blocks_read.last_mut().map_or(0, std::mem::take);
        let groups = self.join.group_columns.iter().map(|group| group.column);
        let filters = self
            .join
            .filters
            .iter()
            .filter_map(|filter| filter.conditions.first());
        let filters = filters.flatten().map(|(column, _)| *column);
        (self.join.measured.iter().filter_map(|source| source.fact()))
            .chain(groups)
            .chain(filters)
            .for_each(|column| note(column, blocks));
        for (number, blocks) in blocks_of {
            let info = self.segment.column(number).chunk_info(chunk)?;
            let all = (info.rows as u64).div_ceil(BLOCK_ROWS as u64).max(1);
            let bytes = (info.bytes * blocks.min(all)).div_ceil(all);
            stats.bytes += bytes;
            stats.units += bytes.div_ceil(self.join.unit);
        }
        Ok(())
    }

    /// Processes the selected rows of the current stripe and empties it: by masks while many rows remain;
    /// then the rows that remain join the others in the selection.
    fn stripe(&mut self, groups: &mut GroupTable<'_>, stats: &mut StarStats) -> JoinResult<()> {
        let mut left = self.stripe.rows();
        stats.selected += left as u64;
        let (chunk, block) = (self.stripe.chunk, self.stripe.block);
        let (mut place, mut is_rough) = (0, false);
        // Masks pay while many rows of each block remain, and where keys are slots. All other probes use a
        // selection.
        while left > 0
            && let Some(SegmentProbe::Narrow(probe)) = self.probes.get_mut(place)
            && probe.looks_all_up(chunk, left / self.stripe.present.count_ones() as usize)?
        {
            let present = self.stripe.present;
            self.blocks_read[place] += u64::from(present.count_ones());
            let (first, last) = (present.trailing_zeros(), present.ilog2());
            probe.reads(chunk, block + first as usize..block + last as usize + 1)?;
            (self.stripe).keep(|block, mask| probe.keep(chunk, block, mask))?;
            left = self.stripe.rows();
            is_rough = probe.is_rough(chunk)?;
            // Several keys share a rough bit, so the rows are only candidates. The same probe looks at them
            // once more, one by one.
            if is_rough {
                break;
            }
            stats.passed[place] += left as u64;
            place += 1;
        }
        let present = std::mem::take(&mut self.stripe.present);
        if left == 0 {
            return Ok(());
        }
        if !self.few.takes(chunk, block, place) {
            self.few(groups, stats)?;
            self.few = PendingSelection::at(chunk, block, place);
        }
        for at in (0..STRIPE).filter(|at| present >> at & 1 == 1) {
            let mask = self.stripe.masks[at];
            let rows = rows_in(&mask);
            // Without probes nothing removes further rows: a block of which many match is decoded as a whole.
            if self.probes.is_empty() && (rows >= MIN_WHOLE_BLOCK_ROWS || self.aggregation.only_counts()) {
                self.blocks_read[0] += 1;
                let rows = BatchRows::Block(&mask, rows);
                (self.aggregation).add((chunk, block + at), rows, Probed::default(), groups)?;
                continue;
            }
            self.few.add(1, is_rough);
            self.selection.push(block + at - self.few.block, &mask);
        }
        if self.selection.len() >= MIN_SELECTION_ROWS {
            self.few(groups, stats)
        } else {
            Ok(())
        }
    }

    /// Processes the rows in the selection and empties it.
    fn few(&mut self, groups: &mut GroupTable<'_>, stats: &mut StarStats) -> JoinResult<()> {
        let PendingSelection {
            chunk, block, place, ..
        } = self.few;
        let (unread, blocks) = self.few.take_blocks();
        let probes = self.probes.iter_mut().zip(&mut stats.passed);
        for (number, (probe, passed)) in probes.enumerate().skip(place) {
            if self.selection.is_empty() {
                return Ok(());
            }
            // The first probe may have read some of these blocks by rough bits already.
            self.blocks_read[number] += if number == place { unread } else { blocks };
            match probe {
                SegmentProbe::Narrow(probe) => {
                    probe.pass(chunk, block, &mut self.selection, &mut self.codes)?;
                }
                SegmentProbe::Wide(probe) => probe.pass(chunk, block, &mut self.selection)?,
            }
            *passed += self.selection.len() as u64;
        }
        if self.selection.is_empty() {
            return Ok(());
        }
        self.blocks_read[self.probes.len()] += blocks;
        let aggregated = self.aggregate(chunk, block, groups);
        self.selection.clear();
        aggregated
    }

    /// Adds the rows in the selection, which are relative to a block, to the aggregates.
    fn aggregate(&mut self, chunk: usize, block: usize, groups: &mut GroupTable<'_>) -> JoinResult<()> {
        let rows = self.selection.rows();
        self.groups.clear();
        self.groups.resize(rows.len(), 0);
        for (probe, &number) in self.probes.iter_mut().zip(self.order) {
            let (dimension, stride) = (&self.join.probes[number].dimension, self.join.strides[number]);
            // Such a dimension only excludes rows.
            if !dimension.has_numbers() {
                continue;
            }
            let numbers = &mut self.numbers[number];
            match probe {
                SegmentProbe::Narrow(probe) => probe.numbers((chunk, block), rows, numbers)?,
                SegmentProbe::Wide(probe) => probe.numbers(rows, numbers),
            }
            dimension.add_groups(numbers, stride, &mut self.groups);
        }
        let rows = BatchRows::List(rows);
        let probed = Probed {
            groups: &self.groups,
            numbers: &self.numbers,
        };
        self.aggregation.add((chunk, block), rows, probed, groups)
    }
}

/// Returns the offset from a code of a column to its value, and whether code 0 is NULL.
pub(super) fn integers(column: &Column) -> Option<(i64, bool)> {
    let space = column.code_space()?;
    Some((space.integer_base()?, space.has_null()))
}

/// Returns the codes of an integer column between two values.
pub(super) fn codes_within(low: i64, high: i64, column: &Column, base: i64) -> CodePredicate {
    let Some(space) = column.code_space() else {
        return CodePredicate::Any;
    };
    let code_of = |value: i64| i128::from(value) - i128::from(base);
    let (least, most) = (i128::from(space.has_null()), i128::from(space.max_code()));
    let (low, high) = (code_of(low).max(least), code_of(high).min(most));
    match (low > high, low == least && high == most) {
        (true, _) => CodePredicate::Nothing,
        (_, true) => CodePredicate::Any,
        _ => CodePredicate::range(low as u64, high as u64),
    }
}
