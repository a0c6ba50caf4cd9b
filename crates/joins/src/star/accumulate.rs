//! The loops that add a batch of rows to the records of their groups.
//!
//! Records are addressed by the index of their first word. Row counts and sums, the most frequent updates,
//! are applied in one pass over the rows; other updates have a loop each. No loop has a branch that depends
//! on data.

use super::layout::{Update, UpdateKind, add_float, add_wide, encoded_max, encoded_min};
use super::measure_values::MeasureValues;

/// The records of the groups of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Records<'a> {
    /// All rows belong to the first record.
    First,
    /// The first word of the record of each row.
    Each(&'a [u32]),
}

/// Most sums that are added together.
const MAX_SUMS: usize = 4;

/// A word of a record, and the values without NULL that are added to it.
type WordSum<'v> = (usize, &'v [i64]);

/// Sums of a batch that wait to be added together: at most [`MAX_SUMS`] of integers and of floats.
#[derive(Default)]
pub(super) struct PendingSums<'v> {
    integers: [WordSum<'v>; MAX_SUMS],
    floats: [WordSum<'v>; MAX_SUMS],
    /// Numbers of sums of integers and of floats.
    numbers: (usize, usize),
}

impl<'v> PendingSums<'v> {
    /// Appends a sum, and returns true if there is room for no further one.
    ///
    /// # Panics
    /// If there was no room.
    pub(super) fn push(&mut self, is_float: bool, sum: WordSum<'v>) -> bool {
        let (sums, number) = if is_float {
            (&mut self.floats, &mut self.numbers.1)
        } else {
            (&mut self.integers, &mut self.numbers.0)
        };
        sums[*number] = sum;
        *number += 1;
        self.numbers.0 + self.numbers.1 == MAX_SUMS
    }

    /// Adds the values to words of the record of each row, and forgets them. Also counts the rows if
    /// `counts_rows`.
    pub(super) fn add(&mut self, words: &mut [u64], records: &[u32], counts_rows: bool) {
        // The flag becomes a constant of the loop, which then has no branch for it.
        if counts_rows {
            self.add_some::<true>(words, records)
        } else {
            self.add_some::<false>(words, records)
        }
        self.numbers = (0, 0);
    }

    fn add_some<const COUNT: bool>(&self, words: &mut [u64], records: &[u32]) {
        /// Calls [`add_each`] with the numbers of sums as constants.
        macro_rules! of_numbers {
            ($(($integers:literal, $floats:literal)),*) => {
                match self.numbers {
                    (0, 0) if !COUNT => {}
                    $(($integers, $floats) => {
                        let integers: [WordSum<'v>; $integers] = std::array::from_fn(|at| self.integers[at]);
                        let floats: [WordSum<'v>; $floats] = std::array::from_fn(|at| self.floats[at]);
                        add_each::<COUNT, $integers, $floats>(words, records, integers, floats);
                    })*
                    _ => unreachable!("no more than {MAX_SUMS} sums wait"),
                }
            };
        }
        // Each pair of numbers has a loop of its own, in which the loops over the sums are unrolled.
        of_numbers![
            (0, 0),
            (1, 0),
            (2, 0),
            (3, 0),
            (4, 0),
            (0, 1),
            (1, 1),
            (2, 1),
            (3, 1),
            (0, 2),
            (1, 2),
            (2, 2),
            (0, 3),
            (1, 3),
            (0, 4)
        ]
    }
}

#[inline(always)]
fn add_each<const COUNT: bool, const INTEGERS: usize, const FLOATS: usize>(
    words: &mut [u64],
    records: &[u32],
    integers: [WordSum<'_>; INTEGERS],
    floats: [WordSum<'_>; FLOATS],
) {
    // The lengths are compared once here, so that the loop need not compare them for each row.
    let of_rows = |(word, values)| {
        let values: &[i64] = values;
        (word, &values[..records.len()])
    };
    let (integers, floats) = (integers.map(of_rows), floats.map(of_rows));
    for (row, record) in records.iter().enumerate() {
        let Some(record) = words.get_mut(*record as usize..) else {
            return;
        };
        if COUNT && let Some(rows) = record.first_mut() {
            *rows += 1;
        }
        for (word, values) in integers {
            if let Some(sum) = record.get_mut(word) {
                *sum = sum.wrapping_add(values[row] as u64);
            }
        }
        for (word, values) in floats {
            if let Some(sum) = record.get_mut(word) {
                add_float(sum, float(values[row]));
            }
        }
    }
}

/// Applies an update to the record of each row.
pub(super) fn update(words: &mut [u64], records: Records<'_>, update: Update, values: &MeasureValues) {
    match records {
        Records::First => update_first(words, update, values),
        Records::Each(records) => update_each(words, records, update, values),
    }
}

fn update_first(words: &mut [u64], update: Update, values: &MeasureValues) {
    let (at, valid) = (update.word, &values.valid[..]);
    let all = values.values.iter().copied();
    let pairs = || all.clone().zip(valid.iter().copied());
    let word = &mut words[at];
    match (update.kind, valid) {
        (UpdateKind::Sum, []) => *word = word.wrapping_add(wrapping_sum(all)),
        (UpdateKind::Sum, _) => {
            let masked = pairs().map(|(value, valid)| if valid { value } else { 0 });
            *word = word.wrapping_add(wrapping_sum(masked));
        }
        (UpdateKind::FloatSum, _) => add_float(word, float_sum(&values.values, valid)),
        // The sum of a batch fits 128 bits, so only one addition has a carry between two words.
        (UpdateKind::WideSum, []) => {
            let sum: i128 = all.map(i128::from).sum();
            add_wide(words, at, sum as u64, (sum >> 64) as u64);
        }
        (UpdateKind::WideSum, _) => {
            let sum: i128 = pairs()
                .filter(|(_, valid)| *valid)
                .map(|(value, _)| i128::from(value))
                .sum();
            add_wide(words, at, sum as u64, (sum >> 64) as u64);
        }
        (UpdateKind::Count, []) => *word += values.values.len() as u64,
        (UpdateKind::Count, _) => *word += valid.iter().map(|valid| u64::from(*valid)).sum::<u64>(),
        (UpdateKind::Min, []) => *word = all.map(encoded_min).fold(*word, u64::max),
        (UpdateKind::Max, []) => *word = all.map(encoded_max).fold(*word, u64::max),
        // A word of 0 is not greater than any encoded value, so that a NULL changes nothing.
        (UpdateKind::Min, _) => {
            let encoded = pairs().map(|(value, valid)| if valid { encoded_min(value) } else { 0 });
            *word = encoded.fold(*word, u64::max);
        }
        (UpdateKind::Max, _) => {
            let encoded = pairs().map(|(value, valid)| if valid { encoded_max(value) } else { 0 });
            *word = encoded.fold(*word, u64::max);
        }
    }
}

/// Partial sums of floats, which break the dependency chain between additions.
const PARTS: usize = 8;

/// Returns the sum of floats; those for which `valid` is false are left out.
fn float_sum(values: &[i64], valid: &[bool]) -> f64 {
    let mut parts = [0.0; PARTS];
    let (chunks, rest) = values.as_chunks::<PARTS>();
    let (valid_chunks, valid_rest) = valid.as_chunks::<PARTS>();
    match valid {
        [] => {
            for chunk in chunks {
                parts
                    .iter_mut()
                    .zip(chunk)
                    .for_each(|(part, bits)| *part += float(*bits));
            }
            parts
                .iter_mut()
                .zip(rest)
                .for_each(|(part, bits)| *part += float(*bits));
        }
        _ => {
            for (chunk, valid) in chunks.iter().zip(valid_chunks) {
                let bits = chunk.iter().zip(valid);
                (parts.iter_mut().zip(bits)).for_each(|(part, bits)| *part += float_or_zero(bits));
            }
            let bits = rest.iter().zip(valid_rest);
            (parts.iter_mut().zip(bits)).for_each(|(part, bits)| *part += float_or_zero(bits));
        }
    }
    parts.iter().sum()
}

#[inline(always)]
fn float(bits: i64) -> f64 {
    f64::from_bits(bits as u64)
}

/// Returns the float if it is valid, else 0.0, which changes no sum that began with 0.0.
#[inline(always)]
fn float_or_zero((bits, valid): (&i64, &bool)) -> f64 {
    float(bits & -i64::from(*valid))
}

fn wrapping_sum(values: impl Iterator<Item = i64>) -> u64 {
    values.fold(0_i64, i64::wrapping_add) as u64
}

fn update_each(words: &mut [u64], records: &[u32], update: Update, values: &MeasureValues) {
    let (at, valid) = (update.word, &values.valid[..]);
    let all = values.values.iter().copied();
    let pairs = all.clone().zip(valid.iter().copied());
    match (update.kind, valid) {
        (UpdateKind::Sum, []) => each(words, records, at, all, |word, value| {
            *word = word.wrapping_add(value as u64);
        }),
        (UpdateKind::Sum, _) => each(words, records, at, pairs, |word, (value, valid)| {
            *word = word.wrapping_add(if valid { value as u64 } else { 0 });
        }),
        (UpdateKind::FloatSum, []) => each(words, records, at, all, |word, bits| {
            add_float(word, float(bits));
        }),
        (UpdateKind::FloatSum, _) => {
            let pairs = values.values.iter().zip(valid);
            each(words, records, at, pairs, |word, pair| {
                add_float(word, float_or_zero(pair));
            });
        }
        // The shift extends the sign of a value to the upper word.
        (UpdateKind::WideSum, []) => {
            for (record, value) in records.iter().zip(all) {
                add_wide(words, *record as usize + at, value as u64, (value >> 63) as u64);
            }
        }
        (UpdateKind::WideSum, _) => {
            for (record, (value, valid)) in records.iter().zip(pairs) {
                let value = if valid { value } else { 0 };
                add_wide(words, *record as usize + at, value as u64, (value >> 63) as u64);
            }
        }
        (UpdateKind::Count, []) => each(words, records, at, all, |word, _| *word += 1),
        (UpdateKind::Count, _) => each(words, records, at, valid.iter(), |word, valid| {
            *word += u64::from(*valid);
        }),
        (UpdateKind::Min, []) => each(words, records, at, all, |word, value| {
            *word = encoded_min(value).max(*word);
        }),
        (UpdateKind::Max, []) => each(words, records, at, all, |word, value| {
            *word = encoded_max(value).max(*word);
        }),
        (UpdateKind::Min, _) => each(words, records, at, pairs, |word, (value, valid)| {
            *word = (*word).max(if valid { encoded_min(value) } else { 0 });
        }),
        (UpdateKind::Max, _) => each(words, records, at, pairs, |word, (value, valid)| {
            *word = (*word).max(if valid { encoded_max(value) } else { 0 });
        }),
    }
}

#[inline(always)]
fn each<T>(
    words: &mut [u64],
    records: &[u32],
    at: usize,
    values: impl Iterator<Item = T>,
    change: impl Fn(&mut u64, T),
) {
    for (record, value) in records.iter().zip(values) {
        if let Some(word) = words.get_mut(*record as usize + at) {
            change(word, value);
        }
    }
}
