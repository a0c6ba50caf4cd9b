//! The pipeline over one segment: from blocks of 1024 rows to aggregates.

use halocline_columns::{BLOCK_ROWS, BlockMask, CodePredicate, CodeReader, Column, Segment};

use super::aggregate::Groups;
use super::kernel::count;
use super::measure::Values;
use super::narrow::NarrowProbe;
use super::run::{StarJoin, StarStats};
use super::wide::WideProbe;
use crate::Result;

/// So many rows of a block were left for it to be likely that those of the next one lie in most of its lines.
const DENSE: usize = 8;

/// A selection vector: positions in a block.
pub(super) struct Selection {
    pub(super) rows: [u16; BLOCK_ROWS],
    pub(super) len: usize,
}

/// A probe in one segment.
enum AnyProbe<'a> {
    /// Of one column, whose codes have 32 bits.
    Narrow(Box<NarrowProbe<'a>>),
    Wide(WideProbe<'a>),
}

/// A column that is measured.
struct MeasuredOf<'a> {
    reader: CodeReader<'a, u64>,
    base: i64,
    has_null: bool,
}

/// What the caller has made sure of by [`StarJoin::can_read`].
pub(super) const READABLE: &str = "a star join reads whole numbers";

/// The pipeline, with room for a block.
pub(super) struct Pipeline<'a> {
    join: &'a StarJoin,
    segment: &'a Segment,
    conditions: Vec<(usize, CodePredicate)>,
    probes: Vec<AnyProbe<'a>>,
    measured: Vec<MeasuredOf<'a>>,
    selection: Box<Selection>,
    wide: Vec<u64>,
    groups: Vec<u32>,
    columns: Vec<Values>,
    /// How many of the probes have read something of the chunk, and one more if the measures have.
    reached: usize,
    values: Values,
    room: Vec<Values>,
    /// Whether a row of the block before was left for its measures.
    dense: bool,
}

impl<'a> Pipeline<'a> {
    /// Of a segment; nothing if no row of it can take part.
    ///
    /// # Panics
    /// If it [cannot be read](StarJoin::can_read).
    pub(super) fn of(
        join: &'a StarJoin,
        segment: &'a Segment,
        conditions: &[(usize, CodePredicate)],
        order: &[usize],
    ) -> Result<Option<Self>> {
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
            let narrow = match probe.columns.as_slice() {
                [column] => segment.column(*column).code_bits()? <= u32::BITS,
                _ => false,
            };
            if !narrow {
                let wide = WideProbe::of(probe, join.strides[number], segment, &mut conditions)?;
                probes.push(AnyProbe::Wide(wide));
                continue;
            }
            match NarrowProbe::of(probe, join.strides[number], segment, &mut conditions)? {
                Some(narrow) => probes.push(AnyProbe::Narrow(Box::new(narrow))),
                None => return Ok(None),
            }
        }
        let mut measured = Vec::with_capacity(join.measured.len());
        for &column in &join.measured {
            let column = segment.column(column);
            let (base, has_null) = integers(column).expect(READABLE);
            measured.push(MeasuredOf {
                reader: column.code_reader()?,
                base,
                has_null,
            });
        }
        Ok(Some(Pipeline {
            join,
            segment,
            conditions,
            probes,
            columns: vec![Values::default(); measured.len()],
            measured,
            selection: Box::default(),
            wide: vec![0; BLOCK_ROWS],
            groups: Vec::with_capacity(BLOCK_ROWS),
            reached: 0,
            values: Values::default(),
            room: Vec::new(),
            dense: false,
        }))
    }

    /// Runs over one chunk.
    pub(super) fn chunk(&mut self, chunk: usize, groups: &mut Groups, stats: &mut StarStats) -> Result<()> {
        let size = self.segment.chunk_rows();
        let rows = chunk * size..((chunk + 1) * size).min(self.segment.rows());
        stats.rows += rows.len() as u64;
        for probe in &self.probes {
            let may_match = match probe {
                AnyProbe::Narrow(probe) => probe.may_match(chunk)?,
                AnyProbe::Wide(probe) => probe.may_match(chunk)?,
            };
            if !may_match {
                return Ok(());
            }
        }
        let (segment, conditions) = (self.segment, std::mem::take(&mut self.conditions));
        let mut result = Ok(());
        let found = segment.select_blocks(&conditions, rows, |first, mask| {
            if result.is_ok() {
                result = self.block(chunk, first % size / BLOCK_ROWS, *mask, groups, stats);
            }
        });
        self.conditions = conditions;
        found?;
        result?;
        self.count_reads(chunk, stats)
    }

    /// Counts what was read of a chunk: columns with a condition that its zone does not decide, and those that the pipeline got to.
    fn count_reads(&mut self, chunk: usize, stats: &mut StarStats) -> Result<()> {
        let mut columns = Vec::new();
        for (number, codes) in &self.conditions {
            let (low, high) = self.segment.column(*number).zone(chunk)?;
            let decided = match codes {
                CodePredicate::Set(_) => low == high,
                codes => codes
                    .bounds()
                    .is_none_or(|(from, to)| high < from || to < low || from <= low && high <= to),
            };
            if !decided {
                columns.push(*number);
            }
        }
        let probes = &self.join.probes;
        let reached = std::mem::take(&mut self.reached);
        for number in stats.order.iter().take(reached) {
            columns.extend(&probes[*number].columns);
        }
        if reached > probes.len() {
            columns.extend(&self.join.measured);
        }
        columns.sort_unstable();
        columns.dedup();
        for number in columns {
            let bytes = self.segment.column(number).chunk_info(chunk)?.bytes;
            stats.bytes += bytes;
            stats.units += bytes.div_ceil(self.join.unit);
        }
        Ok(())
    }

    /// Runs over what is selected of a block.
    fn block(
        &mut self,
        chunk: usize,
        block: usize,
        mut mask: BlockMask,
        groups: &mut Groups,
        stats: &mut StarStats,
    ) -> Result<()> {
        if self.dense {
            // The rows that will be left lie anywhere in the block: their lines come while it is probed.
            for column in &mut self.measured {
                column.reader.prefetch(chunk, block)?;
            }
            self.reached = self.probes.len() + 1;
        }
        let mut left = count(&mask);
        stats.selected += left as u64;
        let (mut vector, selection) = (false, &mut *self.selection);
        for (place, (probe, passed)) in self.probes.iter_mut().zip(&mut stats.passed).enumerate() {
            self.reached = self.reached.max(place + 1);
            let of_all = match probe {
                AnyProbe::Narrow(probe) if !vector => probe.pass_all(chunk, block, left, &mut mask)?,
                _ => false,
            };
            if of_all {
                left = count(&mask);
            } else {
                if !vector {
                    selection.take(&mask);
                    vector = true;
                }
                match probe {
                    AnyProbe::Narrow(probe) => probe.pass(chunk, block, selection)?,
                    AnyProbe::Wide(probe) => {
                        let rows = &mut selection.rows[..selection.len];
                        selection.len = probe.pass(chunk, block, rows)?;
                    }
                }
                left = selection.len;
            }
            *passed += left as u64;
            if left == 0 {
                break;
            }
        }
        self.dense = left >= DENSE;
        if left == 0 {
            return Ok(());
        }
        self.reached = self.probes.len() + 1;
        if !vector {
            selection.take(&mask);
        }
        let rows = &selection.rows[..selection.len];
        self.groups.clear();
        self.groups.resize(rows.len(), 0);
        for probe in &mut self.probes {
            match probe {
                AnyProbe::Narrow(probe) => probe.add_groups(chunk, block, rows, &mut self.groups)?,
                AnyProbe::Wide(probe) => probe.add_groups(rows, &mut self.groups),
            }
        }
        groups.add_rows(&self.groups);
        for (column, values) in self.measured.iter_mut().zip(&mut self.columns) {
            column.read(chunk, block, rows, &mut self.wide, values)?;
        }
        for (number, aggregate) in self.join.aggregates.iter().enumerate() {
            let (values, room) = (&mut self.values, &mut self.room);
            aggregate
                .measure
                .evaluate(&self.columns, rows.len(), values, room);
            groups.add(number, &self.groups, values);
        }
        Ok(())
    }
}

/// What to add to a code of a column to get its value, and whether code 0 is NULL.
pub(super) fn integers(column: &Column) -> Option<(i64, bool)> {
    let space = column.code_space()?;
    Some((space.integer_base()?, space.has_null()))
}

/// The codes of a column of whole numbers between two.
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

impl Default for Selection {
    fn default() -> Self {
        Self {
            rows: [0; BLOCK_ROWS],
            len: 0,
        }
    }
}

impl Selection {
    pub(super) fn take(&mut self, mask: &BlockMask) {
        self.len = 0;
        for (at, word) in mask.iter().enumerate() {
            let mut word = *word;
            if word == u64::MAX {
                for row in 0..64 {
                    self.rows[self.len + row] = (at * 64 + row) as u16;
                }
                self.len += 64;
                continue;
            }
            while word != 0 {
                self.rows[self.len] = (at * 64) as u16 + word.trailing_zeros() as u16;
                self.len += 1;
                word &= word - 1;
            }
        }
    }
}

impl MeasuredOf<'_> {
    fn read(
        &mut self,
        chunk: usize,
        block: usize,
        rows: &[u16],
        codes: &mut [u64],
        values: &mut Values,
    ) -> Result<()> {
        let codes = &mut codes[..rows.len()];
        self.reader.read_rows(chunk, block, rows, codes)?;
        let base = self.base;
        values.values.clear();
        values
            .values
            .extend(codes.iter().map(|code| (*code as i64).wrapping_add(base)));
        values.valid.clear();
        if self.has_null {
            values.valid.extend(codes.iter().map(|code| *code != 0));
        }
        Ok(())
    }
}
