//! Strings as keys of a dimension.
//!
//! The rows of the dimension are numbered, and the numbers are its keys. A string of the fact table is looked
//! up once: a table by the codes of its dictionary translates to the numbers. Strings are equal if their
//! bytes are.

use std::collections::HashMap;

use halocline_columns::{CodeSpace, Column, Dictionary};

use super::run::{SegmentRows, StarJoin};
use crate::JoinResult;

/// The number of strings that are not in the dimension, and of NULL.
pub(super) const ABSENT: u32 = u32::MAX;

/// Most strings of a dictionary that are looked up, which is done on one thread and is not interrupted.
const MAX_STRINGS: usize = 1 << 20;

/// Bytes of DRAM of an entry of the map, without the string.
const ENTRY: usize = 40;

/// The numbers of strings.
#[derive(Debug, Clone, Default)]
pub(super) struct StringKeys {
    numbers: HashMap<Box<[u8]>, u32>,
    bytes: usize,
}

impl StringKeys {
    /// Returns the number of a string, which gets the next one if it is new.
    pub(super) fn add(&mut self, string: &[u8]) -> u32 {
        if let Some(number) = self.number(string) {
            return number;
        }
        let next = self.numbers.len() as u32;
        self.bytes += string.len() + ENTRY;
        self.numbers.insert(string.into(), next);
        next
    }

    /// Returns the number of a string in the dimension.
    pub(super) fn number(&self, string: &[u8]) -> Option<u32> {
        self.numbers.get(string).copied()
    }

    /// Returns the number of bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the numbers of the codes of a column; empty if it has no dictionary.
    fn translation(&self, column: &Column) -> JoinResult<Vec<u32>> {
        let mut numbers = Vec::new();
        if let Some((space, dictionary)) = dictionary(column) {
            // If there are NULLs, code 0 stands for them, and they equal no string.
            numbers.resize(usize::from(space.has_null()), ABSENT);
            for rank in 0..dictionary.len() as u64 {
                let string = dictionary.string(rank)?;
                numbers.push(self.number(string).unwrap_or(ABSENT));
            }
        }
        Ok(numbers)
    }
}

/// Returns true if the strings of a column can be the keys of a star join: it has a dictionary of at most
/// 2^20 strings. O(1).
pub fn has_string_keys(column: &Column) -> bool {
    dictionary(column).is_some_and(|(_, dictionary)| dictionary.len() <= MAX_STRINGS)
}

fn dictionary(column: &Column) -> Option<(&CodeSpace, &Dictionary)> {
    let space = column.code_space()?;
    Some((space, space.dictionary()?))
}

/// The numbers of the strings of the fact table: for each probe by strings and each segment, by code.
pub(super) struct Translations(Vec<Vec<Vec<u32>>>);

impl Translations {
    /// Looks up the strings of all dictionaries. O(strings).
    ///
    /// # Errors
    /// A dictionary is damaged.
    pub(super) fn new(join: &StarJoin, segments: &[SegmentRows<'_>]) -> JoinResult<Translations> {
        let of_probes = join.probes.iter().map(|probe| {
            let Some(strings) = probe.dimension.strings() else {
                return Ok(Vec::new());
            };
            let columns = segments
                .iter()
                .map(|(segment, _)| segment.column(probe.columns[0]));
            columns.map(|column| strings.translation(column)).collect()
        });
        of_probes.collect::<JoinResult<_>>().map(Translations)
    }

    /// Returns the numbers by the codes of a segment; `None` if the keys of the probe are integers.
    pub(super) fn get(&self, probe: usize, segment: usize) -> Option<&[u32]> {
        self.0[probe].get(segment).map(Vec::as_slice)
    }
}
