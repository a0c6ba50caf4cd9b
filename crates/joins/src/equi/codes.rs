//! Codes of strings that two columns of stored tables share, so that a join compares numbers instead of
//! strings and decodes no key.
//!
//! Strings of a column are stored as ranks in the dictionary of their segment. If all segments of both
//! columns have the same dictionary, as those of a table that is joined with itself, the ranks are the codes.
//! Else the strings of the build side are numbered, and a table for each segment translates ranks to these
//! numbers. Strings that only the probe side has get one code, which no row of the build side has.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::UInt32Array;
use halocline_columns::{Column, Dictionary, Segment, Table};

use crate::JoinResult;

/// The code of strings that the build side has not.
const ABSENT: u32 = u32::MAX;

/// Most strings of all dictionaries that are translated. The map of them takes some MiB for a moment, which no
/// memory limit counts.
const MAX_STRINGS: usize = 1 << 16;

/// The codes of a column of a table.
#[derive(Debug, Clone)]
pub struct KeyCodes {
    column: usize,
    /// The code of each rank, by segment; `None` if the ranks are the codes.
    translations: Option<Arc<[Vec<u32>]>>,
}

impl KeyCodes {
    /// Returns the codes that a column of the build table and one of the probe table share; `None` if strings
    /// of either are stored without a dictionary, or there are more than 65,536 strings in all
    /// dictionaries and these differ. O(strings); O(bytes of strings) if dictionaries differ.
    ///
    /// # Errors
    /// [`JoinError::Columns`](crate::JoinError::Columns) if a dictionary is damaged.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn shared(
        (build, build_column): (&Table, usize),
        (probe, probe_column): (&Table, usize),
    ) -> JoinResult<Option<(KeyCodes, KeyCodes)>> {
        let codes = |column, translations| KeyCodes { column, translations };
        let (Some(own), Some(others)) = (
            dictionaries(build, build_column),
            dictionaries(probe, probe_column),
        ) else {
            return Ok(None);
        };
        let mut all = own.iter().chain(&others);
        let first = all.next();
        let mut is_shared = true;
        for other in all {
            is_shared &= first.is_some_and(|first| is_same(first, other));
        }
        if is_shared {
            return Ok(Some((codes(build_column, None), codes(probe_column, None))));
        }
        if own.iter().chain(&others).map(Dictionary::len).sum::<usize>() > MAX_STRINGS {
            return Ok(None);
        }
        let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut number = |dictionary: &Dictionary, is_build: bool| -> JoinResult<Vec<u32>> {
            let mut translation = Vec::with_capacity(dictionary.len());
            for rank in 0..dictionary.len() as u64 {
                let string = dictionary.string(rank)?;
                let next = numbers.len() as u32;
                translation.push(match (numbers.get(string), is_build) {
                    (Some(number), _) => *number,
                    (None, false) => ABSENT,
                    (None, true) => *numbers.entry(string.to_vec()).or_insert(next),
                });
            }
            Ok(translation)
        };
        let own = own.iter().map(|dictionary| number(dictionary, true));
        let own = own.collect::<JoinResult<Vec<_>>>()?;
        let others = others.iter().map(|dictionary| number(dictionary, false));
        let others = others.collect::<JoinResult<Vec<_>>>()?;
        Ok(Some((
            codes(build_column, Some(own.into())),
            codes(probe_column, Some(others.into())),
        )))
    }

    /// Returns the number of strings in all dictionaries of two columns; `None` if strings of either are
    /// stored without a dictionary, or there are more than 65,536. O(segments).
    ///
    /// # Panics
    /// If there is no such column.
    pub fn strings(build: (&Table, usize), probe: (&Table, usize)) -> Option<u64> {
        let (own, others) = (dictionaries(build.0, build.1)?, dictionaries(probe.0, probe.1)?);
        let strings = own.iter().chain(&others).map(Dictionary::len).sum::<usize>();
        (strings <= MAX_STRINGS).then_some(strings as u64)
    }

    /// Returns the column of the table.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Returns true if ranks are codes, as all dictionaries are the same.
    pub fn are_ranks(&self) -> bool {
        self.translations.is_none()
    }

    /// Returns the codes of rows of a segment, read by `ranks`: [`Column::scan_ranks`] or
    /// [`Column::gather_ranks`]. NULL stays NULL.
    ///
    /// # Errors
    /// Those of `ranks`.
    ///
    /// # Panics
    /// If `segment`, the number of the segment, is not one of the table.
    pub fn codes(
        &self,
        (number, segment): (usize, &Segment),
        ranks: impl FnOnce(&Column) -> halocline_columns::Result<UInt32Array>,
    ) -> JoinResult<UInt32Array> {
        let ranks = ranks(segment.column(self.column))?;
        Ok(match &self.translations {
            None => ranks,
            Some(translations) => {
                // A NULL has any rank, of a dictionary that may be empty.
                let translation = &translations[number];
                ranks.unary(|rank| translation.get(rank as usize).copied().unwrap_or(ABSENT))
            }
        })
    }
}

/// Returns the dictionary of each segment.
fn dictionaries(table: &Table, column: usize) -> Option<Vec<Dictionary>> {
    let segments = table.segments().iter();
    let of_segment = |segment: &Segment| segment.column(column).code_space()?.dictionary().cloned();
    segments.map(of_segment).collect()
}

fn is_same(one: &Dictionary, other: &Dictionary) -> bool {
    one.len() == other.len() && one.bytes_len() == other.bytes_len() && one.iter().eq(other.iter())
}
