//! The pipeline over one segment: from blocks of 1024 rows to aggregates.

use halocline_columns::{BLOCK_ROWS, BlockMask, CodePredicate, CodeReader, Column, Segment};

use super::aggregate::Groups;
use super::dimension::{Dense, Dimension, Keys};
use super::measure::Values;
use super::run::{StarJoin, StarStats};
use super::wide::WideProbe;
use crate::Result;

/// A selection vector: positions in a block.
pub(super) struct Selection {
    rows: [u16; BLOCK_ROWS],
    len: usize,
}

/// A column that is probed, in one segment.
struct ProbeOf<'a> {
    reader: CodeReader<'a, u32>,
    column: &'a Column,
    dimension: &'a Dimension,
    /// What to add to a code to get its value.
    base: i64,
    /// Whether code 0 is NULL.
    has_null: bool,
    /// What a group of this dimension counts for in the number of the whole.
    stride: u32,
    /// Codes of the rows in the selection, by position in the block.
    codes: Box<[u32; BLOCK_ROWS]>,
}

/// A probe in one segment.
enum AnyProbe<'a> {
    /// Of one column, whose codes have 32 bits.
    Narrow(ProbeOf<'a>),
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
    few: Box<[u32; BLOCK_ROWS]>,
    wide: Vec<u64>,
    groups: Vec<u32>,
    columns: Vec<Values>,
    /// How many of the probes have read something of the chunk, and one more if the measures have.
    reached: usize,
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
            let column = segment.column(probe.columns[0]);
            let (base, has_null) = integers(column).expect(READABLE);
            if let Keys::Dense(dense) = &probe.dimension.keys {
                match within(dense, column, base) {
                    CodePredicate::Nothing => return Ok(None),
                    CodePredicate::Any => {}
                    bounds => conditions.push((probe.columns[0], bounds)),
                }
            }
            probes.push(AnyProbe::Narrow(ProbeOf {
                reader: column.code_reader()?,
                column,
                dimension: &probe.dimension,
                base,
                has_null,
                stride: join.strides[number],
                codes: Box::new([0; BLOCK_ROWS]),
            }));
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
            selection: Box::new(Selection {
                rows: [0; BLOCK_ROWS],
                len: 0,
            }),
            few: Box::new([0; BLOCK_ROWS]),
            wide: vec![0; BLOCK_ROWS],
            groups: Vec::with_capacity(BLOCK_ROWS),
            reached: 0,
        }))
    }

    /// Runs over one chunk.
    pub(super) fn chunk(&mut self, chunk: usize, groups: &mut Groups, stats: &mut StarStats) -> Result<()> {
        let size = self.segment.chunk_rows();
        let rows = chunk * size..((chunk + 1) * size).min(self.segment.rows());
        stats.rows += rows.len() as u64;
        for probe in &self.probes {
            let may_match = match probe {
                AnyProbe::Narrow(probe) => {
                    let (low, high) = probe.column.zone(chunk)?;
                    probe.may_match(low, high)
                }
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
                self.selection.take(mask);
                result = self.block(chunk, first % size / BLOCK_ROWS, groups, stats);
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
        groups: &mut Groups,
        stats: &mut StarStats,
    ) -> Result<()> {
        stats.selected += self.selection.len as u64;
        for (place, (probe, passed)) in self.probes.iter_mut().zip(&mut stats.passed).enumerate() {
            self.reached = self.reached.max(place + 1);
            match probe {
                AnyProbe::Narrow(probe) => {
                    probe.pass(chunk, block, &mut self.selection, &mut self.few)?;
                }
                AnyProbe::Wide(probe) => {
                    let rows = &mut self.selection.rows[..self.selection.len];
                    self.selection.len = probe.pass(chunk, block, rows)?;
                }
            }
            *passed += self.selection.len as u64;
            if self.selection.len == 0 {
                return Ok(());
            }
        }
        self.reached = self.probes.len() + 1;
        let rows = &self.selection.rows[..self.selection.len];
        self.groups.clear();
        self.groups.resize(rows.len(), 0);
        for probe in &self.probes {
            match probe {
                AnyProbe::Narrow(probe) => probe.add_groups(rows, &mut self.groups),
                AnyProbe::Wide(probe) => probe.add_groups(rows, &mut self.groups),
            }
        }
        groups.add_rows(&self.groups);
        for (column, values) in self.measured.iter_mut().zip(&mut self.columns) {
            column.read(chunk, block, rows, &mut self.wide, values)?;
        }
        for (number, aggregate) in self.join.aggregates.iter().enumerate() {
            let values = aggregate.measure.evaluate(&self.columns, rows.len());
            groups.add(number, &self.groups, &values);
        }
        Ok(())
    }
}

/// What to add to a code of a column to get its value, and whether code 0 is NULL.
pub(super) fn integers(column: &Column) -> Option<(i64, bool)> {
    let space = column.code_space()?;
    Some((space.integer_base()?, space.has_null()))
}

/// The codes of a column between a dimension's least and greatest key.
fn within(dense: &Dense, column: &Column, base: i64) -> CodePredicate {
    let high = i128::from(dense.low) + i128::from(dense.places) - 1;
    match i64::try_from(high) {
        Ok(high) => codes_within(dense.low, high, column, base),
        // There is no key.
        Err(_) => CodePredicate::Nothing,
    }
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

impl Selection {
    fn take(&mut self, mask: &BlockMask) {
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

    /// Keeps the rows for which `keep` is 1. No branch depends on it.
    #[inline(always)]
    fn retain(&mut self, keep: impl Fn(u16) -> usize) {
        let mut kept = 0;
        for at in 0..self.len {
            let row = self.rows[at];
            self.rows[kept] = row;
            kept += keep(row);
        }
        self.len = kept;
    }
}

impl Dense {
    /// The place of a code, the one behind the last for what is out of range.
    #[inline(always)]
    fn place(&self, code: u32, delta: u64) -> usize {
        u64::from(code).wrapping_add(delta).min(u64::from(self.places)) as usize
    }

    #[inline(always)]
    fn has(&self, place: usize) -> usize {
        (self.present[place / 64] >> (place % 64)) as usize & 1
    }
}

impl ProbeOf<'_> {
    /// What to add to a code to get its place.
    fn delta(&self, dense: &Dense) -> u64 {
        self.base.wrapping_sub(dense.low) as u64
    }

    /// Whether a code between these can be in the dimension.
    fn may_match(&self, low: u64, high: u64) -> bool {
        match &self.dimension.keys {
            Keys::Dense(dense) => {
                let value = |code: u64| i128::from(code) + i128::from(self.base);
                let first = i128::from(dense.low);
                value(high) >= first && value(low) < first + i128::from(dense.places)
            }
            Keys::Sparse(_) => self.dimension.rows() > 0,
        }
    }

    /// Reads the codes of the selected rows and keeps those that are in the dimension.
    fn pass(
        &mut self,
        chunk: usize,
        block: usize,
        selection: &mut Selection,
        few: &mut [u32; BLOCK_ROWS],
    ) -> Result<()> {
        if selection.len * 4 >= BLOCK_ROWS {
            self.reader.read(chunk, block, &mut self.codes)?;
        } else {
            let rows = &selection.rows[..selection.len];
            let few = &mut few[..rows.len()];
            self.reader.read_rows(chunk, block, rows, few)?;
            for (row, code) in rows.iter().zip(few) {
                self.codes[usize::from(*row)] = *code;
            }
        }
        let codes = &self.codes;
        if self.has_null {
            selection.retain(|row| usize::from(codes[usize::from(row) % BLOCK_ROWS] != 0));
        }
        match &self.dimension.keys {
            Keys::Dense(dense) => {
                let delta = self.delta(dense);
                selection.retain(|row| dense.has(dense.place(codes[usize::from(row) % BLOCK_ROWS], delta)));
            }
            Keys::Sparse(sparse) => {
                let value = |row: u16| i64::from(codes[usize::from(row)]).wrapping_add(self.base);
                selection.retain(|row| usize::from(sparse.group(value(row)).is_some()));
            }
        }
        Ok(())
    }

    /// Adds what the dimension's groups count for; the rows have passed.
    fn add_groups(&self, rows: &[u16], groups: &mut [u32]) {
        if self.dimension.groups() <= 1 {
            return;
        }
        let codes = &self.codes;
        match &self.dimension.keys {
            Keys::Dense(dense) => {
                let delta = self.delta(dense);
                for (row, group) in rows.iter().zip(groups) {
                    let place = dense.place(codes[usize::from(*row) % BLOCK_ROWS], delta);
                    *group += dense.group_of[place] * self.stride;
                }
            }
            Keys::Sparse(sparse) => {
                for (row, group) in rows.iter().zip(groups) {
                    let value = i64::from(codes[usize::from(*row)]).wrapping_add(self.base);
                    *group += sparse.group(value).unwrap_or(0) * self.stride;
                }
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
