//! Probes of a column with codes of more than 32 bits, or of several columns; and those of optional
//! dimensions, which all rows pass.

use halocline_columns::{CodePredicate, CodeReader, Column, Segment, SelectionVector};

use super::dimension::Dimension;
use super::key::KeyDigit;
use super::narrow::in_room;
use super::pipeline::{READABLE, codes_within, integers};
use super::run::Probe;
use crate::JoinResult;

/// The probe of one segment.
pub(super) struct WideProbe<'a> {
    columns: Vec<WideColumn<'a>>,
    dimension: &'a Dimension,
    /// The numbers of the keys of the selected rows, by row.
    numbers: Vec<u32>,
    codes: Vec<u64>,
    keys: Vec<Option<i64>>,
}

struct WideColumn<'a> {
    reader: CodeReader<'a, u64>,
    column: &'a Column,
    /// Offset from a code to its value.
    base: i64,
    /// True if code 0 is NULL.
    has_null: bool,
    digit: KeyDigit,
}

impl<'a> WideProbe<'a> {
    /// Creates the probe for a segment, and adds the conditions that its bounds imply.
    pub(super) fn for_segment(
        probe: &'a Probe,
        segment: &'a Segment,
        conditions: &mut Vec<(usize, CodePredicate)>,
    ) -> JoinResult<Self> {
        let mut columns = Vec::with_capacity(probe.columns.len());
        for (&number, &digit) in probe.columns.iter().zip(&probe.dimension.digits) {
            let column = segment.column(number);
            let (base, has_null) = integers(column).expect(READABLE);
            match codes_within(digit.low, digit.high, column, base) {
                CodePredicate::Any => {}
                // All rows pass an optional dimension, also those with keys outside of its range.
                _ if probe.dimension.is_optional() => {}
                codes => conditions.push((number, codes)),
            }
            columns.push(WideColumn {
                reader: column.code_reader()?,
                column,
                base,
                has_null,
                digit,
            });
        }
        Ok(Self {
            columns,
            dimension: &probe.dimension,
            numbers: Vec::new(),
            codes: Vec::new(),
            keys: Vec::new(),
        })
    }

    /// Returns true if a row of a chunk can be in the dimension.
    pub(super) fn may_match(&self, chunk: usize) -> JoinResult<bool> {
        if self.dimension.is_optional() {
            return Ok(true);
        }
        for column in &self.columns {
            let (low, high) = column.column.zone(chunk)?;
            let value = |code: u64| i128::from(code) + i128::from(column.base);
            if value(high) < column.digit.low.into() || value(low) > column.digit.high.into() {
                return Ok(false);
            }
        }
        Ok(self.dimension.rows() > 0)
    }

    /// Keeps those of the selected rows, from a block on, that are in the dimension.
    pub(super) fn pass(
        &mut self,
        chunk: usize,
        block: usize,
        selection: &mut SelectionVector,
    ) -> JoinResult<()> {
        let rows = selection.rows();
        self.keys.clear();
        self.keys.resize(rows.len(), Some(0));
        for column in &mut self.columns {
            let codes = in_room(&mut self.codes, rows.len());
            column.reader.read_rows(chunk, block, rows, codes)?;
            for (key, code) in self.keys.iter_mut().zip(codes) {
                *key = key.and_then(|key| Some(key.wrapping_add(column.digit(*code)?)));
            }
        }
        // Later probes remove rows from the selection, so numbers are kept by row and not by position.
        let numbers = in_room(
            &mut self.numbers,
            rows.last().map_or(0, |row| usize::from(*row) + 1),
        );
        for (row, key) in rows.iter().zip(&mut self.keys) {
            let number = self.dimension.number_of_row(*key);
            numbers[usize::from(*row)] = number.unwrap_or(0);
            *key = number.map(i64::from);
        }
        selection.keep_if(|at| self.keys[at].is_some());
        Ok(())
    }

    /// Replaces `numbers` by those of the keys of rows that have passed.
    pub(super) fn numbers(&self, rows: &[u16], numbers: &mut Vec<u32>) {
        numbers.clear();
        numbers.extend(rows.iter().map(|row| self.numbers[usize::from(*row)]));
    }
}

impl WideColumn<'_> {
    /// Returns the contribution of a code to the combined key; `None` if it is NULL or out of the range of
    /// the dimension.
    #[inline]
    fn digit(&self, code: u64) -> Option<i64> {
        if self.has_null && code == 0 {
            return None;
        }
        self.digit.contribution((code as i64).wrapping_add(self.base))
    }
}
