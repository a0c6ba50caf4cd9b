//! The record of a group: words of 64 bits, all zero for a group without rows.
//!
//! Word 0 counts rows. A hashed group has its number in word 1. A sum takes one word if the bounds of its
//! argument show that no sum over all rows exceeds 64 bits, else two; a sum of floats is a word with the bits
//! of a double, which are zero for 0.0. Minimum and maximum are stored so that they are the greatest of the
//! words, and zero is less than or equal to all of them; floats are ordered by their bits. Values that are
//! not NULL are counted once for all arguments that are NULL in the same rows, and only if these may be NULL.

use super::aggregate::{Aggregate, Function};
use super::operation::ordered;

/// Flips the order of signed numbers to that of words.
const SIGN: u64 = 1 << 63;

/// The words of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StateLayout {
    /// Number of words.
    pub(super) words: usize,
    /// True if word 1 is the number of the group.
    pub(super) has_number: bool,
    /// The changes that a row makes, but for its count.
    pub(super) updates: Vec<Update>,
    /// The words of each aggregate.
    states: Vec<AggregateState>,
}

/// A change that the value of an expression makes to the record of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) kind: UpdateKind,
    /// The aggregate whose argument it reads.
    pub(super) aggregate: usize,
    /// The first word that it changes.
    pub(super) word: usize,
}

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateKind {
    /// Adds the value to a word.
    Sum,
    /// Adds the value to two words.
    WideSum,
    /// Adds the float to a float.
    FloatSum,
    /// Adds 1 if the value is not NULL.
    Count,
    Min,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AggregateState {
    kind: UpdateKind,
    word: usize,
    /// The word with the number of values that are not NULL; `None` if that is the number of rows.
    count: Option<usize>,
}

impl StateLayout {
    /// Lays out the states of aggregates over at most `rows` rows. `bounds` returns the least and the
    /// greatest value of the argument of an aggregate, and `nulls` the columns whose NULLs make it NULL.
    pub(super) fn new(
        aggregates: &[Aggregate],
        bounds: impl Fn(usize) -> (i128, i128),
        nulls: impl Fn(usize) -> Vec<usize>,
        rows: u64,
        has_number: bool,
    ) -> StateLayout {
        let mut layout = StateLayout {
            words: 1 + usize::from(has_number),
            has_number,
            updates: Vec::new(),
            states: Vec::with_capacity(aggregates.len()),
        };
        let nulls: Vec<Vec<usize>> = (0..aggregates.len()).map(nulls).collect();
        let same = |a: usize, b: usize| nulls[a] == nulls[b] && aggregates[a].filter == aggregates[b].filter;
        for (number, aggregate) in aggregates.iter().enumerate() {
            let counted =
                |update: &&Update| update.kind == UpdateKind::Count && same(update.aggregate, number);
            let count = match layout.updates.iter().find(counted) {
                // Every row counts, and word 0 has their number.
                _ if aggregate.filter.is_none() && nulls[number].is_empty() => None,
                Some(known) => Some(known.word),
                None => Some(layout.add(UpdateKind::Count, number, 1)),
            };
            let (low, high) = bounds(number);
            let most = low.unsigned_abs().max(high.unsigned_abs());
            // The bound holds for the sum of any part of the rows as well, so additions need no check in any
            // order.
            let fits = most.saturating_mul(rows.into()) <= i64::MAX as u128;
            let kind = match aggregate.function {
                Function::Sum if aggregate.measure.is_float() => UpdateKind::FloatSum,
                Function::Sum if fits => UpdateKind::Sum,
                Function::Sum => UpdateKind::WideSum,
                Function::Count => UpdateKind::Count,
                Function::Min => UpdateKind::Min,
                Function::Max => UpdateKind::Max,
            };
            let word = match kind {
                UpdateKind::Count => count.unwrap_or(0),
                UpdateKind::WideSum => layout.add(kind, number, 2),
                kind => layout.add(kind, number, 1),
            };
            layout.states.push(AggregateState { kind, word, count });
        }
        layout
    }

    fn add(&mut self, kind: UpdateKind, aggregate: usize, words: usize) -> usize {
        let word = self.words;
        self.updates.push(Update {
            kind,
            aggregate,
            word,
        });
        self.words += words;
        word
    }

    /// Returns the number of a group, if its record has it.
    pub(super) fn number(&self, record: &[u64]) -> Option<u64> {
        self.has_number.then(|| record[1])
    }

    /// Returns the number of values of an aggregate that are not NULL.
    pub(super) fn count(&self, record: &[u64], aggregate: usize) -> u64 {
        record[self.states[aggregate].count.unwrap_or(0)]
    }

    /// Returns the sum, minimum or maximum of an aggregate of floats; `None` if all values were NULL.
    pub(super) fn float(&self, record: &[u64], aggregate: usize) -> Option<f64> {
        let state = self.states[aggregate];
        if self.count(record, aggregate) == 0 {
            return None;
        }
        let word = record[state.word];
        Some(f64::from_bits(match state.kind {
            UpdateKind::Min => ordered(decoded_min(word)) as u64,
            UpdateKind::Max => ordered(decoded_max(word)) as u64,
            _ => word,
        }))
    }

    /// Returns the sum, minimum or maximum of an aggregate of integers; `None` if all values were NULL.
    pub(super) fn value(&self, record: &[u64], aggregate: usize) -> Option<i128> {
        let state = self.states[aggregate];
        if self.count(record, aggregate) == 0 {
            return None;
        }
        let word = record[state.word];
        Some(match state.kind {
            UpdateKind::WideSum => i128::from(record[state.word + 1] as i64) << 64 | i128::from(word),
            UpdateKind::Min => (decoded_min(word)).into(),
            UpdateKind::Max => (decoded_max(word)).into(),
            UpdateKind::Sum | UpdateKind::FloatSum | UpdateKind::Count => (word as i64).into(),
        })
    }

    /// Merges the record of another thread for the same group into one.
    pub(super) fn merge(&self, record: &mut [u64], other: &[u64]) {
        record[0] += other[0];
        for Update { kind, word, .. } in &self.updates {
            let word = *word;
            match kind {
                UpdateKind::Sum | UpdateKind::Count => record[word] = record[word].wrapping_add(other[word]),
                UpdateKind::WideSum => add_wide(record, word, other[word], other[word + 1]),
                UpdateKind::FloatSum => add_float(&mut record[word], f64::from_bits(other[word])),
                UpdateKind::Min | UpdateKind::Max => record[word] = record[word].max(other[word]),
            }
        }
    }
}

/// Adds a number of 128 bits to two words.
#[inline(always)]
pub(super) fn add_wide(words: &mut [u64], at: usize, low: u64, high: u64) {
    if let Some([to_low, to_high]) = words.get_mut(at..at + 2) {
        let (sum, carry) = to_low.overflowing_add(low);
        *to_low = sum;
        *to_high = to_high.wrapping_add(high).wrapping_add(carry.into());
    }
}

/// Adds a float to the one in a word.
#[inline(always)]
pub(super) fn add_float(word: &mut u64, float: f64) {
    *word = (f64::from_bits(*word) + float).to_bits();
}

/// Returns the word for a value of which the greatest is looked for.
#[inline(always)]
pub(super) fn encoded_max(value: i64) -> u64 {
    value as u64 ^ SIGN
}

/// Returns the word for a value of which the least is looked for.
#[inline(always)]
pub(super) fn encoded_min(value: i64) -> u64 {
    !encoded_max(value)
}

fn decoded_max(word: u64) -> i64 {
    (word ^ SIGN) as i64
}

fn decoded_min(word: u64) -> i64 {
    decoded_max(!word)
}
