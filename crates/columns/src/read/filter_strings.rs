//! Conditions on columns of strings, which a segment may carry: [`Segment::with_string_conditions`].
//!
//! The bounds of a chunk decide what they can; the rest goes block by block through [`StringsFilter`]. The
//! strings of a dictionary are compared once each, and then their codes.

use crate::codec::strings::chunk::StringsChunk;
use crate::codec::strings::filter::StringsFilter;
use crate::error::damaged;
use crate::format::BLOCK;
use crate::kernel::BlockMask;
use crate::read::column::Column;
use crate::read::row_selection::RowSelection;
use crate::read::segment::Segment;
use crate::read::select::{Found, clip, is_empty};
use crate::read::space::CodeSpace;
use crate::read::string_predicate::StringPredicate;
use crate::write::physical::Physical;
use crate::{CodePredicate, ColumnsError, Result};
use arrow_schema::DataType;

/// Blocks that are filtered at once.
const RUN: usize = 8;

/// Conditions on strings that selected rows of a segment must match.
#[derive(Debug, Clone, Default)]
pub(crate) struct StringConditions {
    /// Those on columns with a dictionary.
    pub(crate) codes: Vec<(usize, CodePredicate)>,
    strings: Vec<(usize, StringPredicate)>,
}

impl StringConditions {
    /// Adds conditions on the columns of a segment.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`], [`ColumnsError::Damaged`].
    pub(crate) fn add(&mut self, segment: &Segment, predicates: &[(usize, StringPredicate)]) -> Result<()> {
        for (number, predicate) in predicates {
            let column = segment.column(*number);
            column.check_strings()?;
            match column.code_space() {
                Some(space) => self.codes.push((*number, space.matching(predicate)?)),
                None => self.strings.push((*number, predicate.clone())),
            }
        }
        Ok(())
    }

    /// Returns the evaluation of the conditions on columns without a dictionary.
    pub(crate) fn evaluation<'a>(&'a self, segment: &'a Segment) -> StringsEvaluation<'a> {
        let column = |(number, predicate): &'a (usize, StringPredicate)| ColumnStrings {
            column: segment.column(*number),
            predicate,
            open: None,
        };
        StringsEvaluation {
            columns: self.strings.iter().map(column).collect(),
            blocks: segment.chunk_rows() / BLOCK,
        }
    }
}

/// Conditions on strings while rows of a segment are selected, in order.
pub(crate) struct StringsEvaluation<'a> {
    columns: Vec<ColumnStrings<'a>>,
    /// Blocks of a chunk.
    blocks: usize,
}

impl StringsEvaluation<'_> {
    /// Calls `each` with those of `found` that match, in order.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub(crate) fn pass(&mut self, found: &Found<'_>, each: &mut impl FnMut(Found<'_>)) -> Result<()> {
        match found {
            Found::All(rows) => {
                for block in rows.start / BLOCK..rows.end.div_ceil(BLOCK) {
                    let mut mask = [u64::MAX; BLOCK / 64];
                    clip(&mut mask, block * BLOCK, rows);
                    self.pass_block(block, mask, each)?;
                }
                Ok(())
            }
            Found::Some(first, mask) => self.pass_block(first / BLOCK, **mask, each),
        }
    }

    fn pass_block(
        &mut self,
        block: usize,
        mut mask: BlockMask,
        each: &mut impl FnMut(Found<'_>),
    ) -> Result<()> {
        let (chunk, in_chunk) = (block / self.blocks, block % self.blocks);
        for column in &mut self.columns {
            if !is_empty(&mask) {
                column.keep(chunk, in_chunk, std::slice::from_mut(&mut mask))?;
            }
        }
        if !is_empty(&mask) {
            each(Found::Some(block * BLOCK, &mask));
        }
        Ok(())
    }

    /// Keeps the selected rows that match.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub(crate) fn filter(&mut self, selection: &mut RowSelection) -> Result<()> {
        for column in &mut self.columns {
            selection.for_each_run(self.blocks, RUN, |chunk, from, masks| {
                column.keep(chunk, from, masks)
            })?;
        }
        Ok(())
    }
}

/// A condition on a column of strings without codes, and the chunk it is evaluated on.
struct ColumnStrings<'a> {
    column: &'a Column,
    predicate: &'a StringPredicate,
    open: Option<(usize, ChunkFilter<'a>)>,
}

/// A condition on a chunk, as far as its bounds leave it open.
enum ChunkFilter<'a> {
    All,
    Nothing,
    Some(Box<(StringsChunk<'a>, StringsFilter<'a>)>),
}

impl<'a> ColumnStrings<'a> {
    /// Clears the bits of rows that do not match, of consecutive blocks of a chunk from one on.
    fn keep(&mut self, number: usize, from: usize, masks: &mut [BlockMask]) -> Result<()> {
        // A filter remembers what it has found out about a chunk, so it serves all blocks of the chunk.
        if self.open.as_ref().is_none_or(|(of, _)| *of != number) {
            self.open = Some((number, self.chunk(number)?));
        }
        match self.open.as_mut().map(|(_, filter)| filter) {
            Some(ChunkFilter::Some(filter)) => {
                let (chunk, filter) = &mut **filter;
                let kept = filter.keep(chunk, from, masks);
                kept.map_err(|what| damaged(self.column.place(number), what))?;
            }
            Some(ChunkFilter::Nothing) => masks.fill([0; BLOCK / 64]),
            Some(ChunkFilter::All) | None => {}
        }
        Ok(())
    }

    fn chunk(&self, number: usize) -> Result<ChunkFilter<'a>> {
        let (column, predicate) = (self.column, self.predicate);
        let entry = column.entry(number)?;
        let of_null = (entry.nulls > 0).then(|| predicate.matches(None));
        let has_values = entry.nulls < entry.rows;
        let of_values = if has_values {
            predicate.of_zone(entry.min, entry.max)
        } else {
            of_null
        };
        Ok(match (of_values, of_null) {
            (Some(true), None | Some(true)) => ChunkFilter::All,
            (Some(false), None | Some(false)) => ChunkFilter::Nothing,
            _ => {
                let filter = StringsFilter::new(predicate, of_values);
                ChunkFilter::Some(Box::new((column.strings(number)?, filter)))
            }
        })
    }
}

impl Column {
    /// Estimates the share of rows that match a condition on strings without codes, from the bounds of the
    /// chunks. O(chunks).
    pub fn estimated_share(&self, predicate: &StringPredicate) -> f64 {
        let rows_of = |chunk: usize| -> f64 {
            let Ok(entry) = self.entry(chunk) else {
                // Reading it tells.
                return 0.0;
            };
            let values = u64::from(entry.rows - entry.nulls);
            let of_values = match values {
                0 => 0.0,
                _ => predicate.share(entry.min, entry.max, values),
            };
            let nulls = if predicate.matches(None) {
                f64::from(entry.nulls)
            } else {
                0.0
            };
            of_values * values as f64 + nulls
        };
        let matching: f64 = (0..self.chunks()).map(rows_of).sum();
        matching / self.rows().max(1) as f64
    }

    fn check_strings(&self) -> Result<()> {
        let is_strings = Physical::from_data_type(self.data_type()) == Some(Physical::Bytes);
        if is_strings {
            return Ok(());
        }
        Err(ColumnsError::TypeMismatch {
            column: self.name().into(),
            expected: self.data_type().clone(),
            got: DataType::Utf8,
        })
    }
}

impl CodeSpace {
    /// Returns the condition on codes that is true for the strings of the dictionary that match `predicate`.
    /// O(strings): each string is tested.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`] if the space has no dictionary of strings, [`ColumnsError::Damaged`].
    pub fn matching(&self, predicate: &StringPredicate) -> Result<CodePredicate> {
        let is_strings = Physical::from_data_type(self.data_type()) == Some(Physical::Bytes);
        let Some(dictionary) = self.dictionary().filter(|_| is_strings) else {
            return Err(ColumnsError::TypeMismatch {
                column: "code space".into(),
                expected: self.data_type().clone(),
                got: DataType::Utf8,
            });
        };
        let mut codes: Vec<u64> = self
            .null_code()
            .filter(|_| predicate.matches(None))
            .into_iter()
            .collect();
        let shift = u64::from(self.has_null());
        for rank in 0..dictionary.len() as u64 {
            if predicate.matches(Some(dictionary.string(rank)?)) {
                codes.push(rank + shift);
            }
        }
        Ok(CodePredicate::set(codes))
    }
}
