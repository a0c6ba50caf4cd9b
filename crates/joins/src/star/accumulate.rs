//! The loops that add a batch of rows to the records of their groups.
//!
//! A record is found by the number of its first word. Rows and sums, the most frequent changes, are made
//! together for each row; other changes have a loop each. No loop has a branch that depends on data.

use super::layout::{Update, UpdateKind, add_wide, encoded_max, encoded_min};
use super::measure::MeasureValues;

/// The records of the groups of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Records<'a> {
    /// All rows belong to the first record.
    First,
    /// The first word of the record of each row.
    Each(&'a [u32]),
}

/// Most sums that are added together.
pub(super) const SUMS: usize = 4;

/// Adds values to words of the record of each row: at most [`SUMS`] pairs of a word and values without NULL.
/// Also counts the rows if `counts_rows`.
pub(super) fn add_sums(words: &mut [u64], records: &[u32], sums: &[(usize, &[i64])], counts_rows: bool) {
    match counts_rows {
        true => add_some::<true>(words, records, sums),
        false => add_some::<false>(words, records, sums),
    }
}

fn add_some<const COUNT: bool>(words: &mut [u64], records: &[u32], sums: &[(usize, &[i64])]) {
    match *sums {
        [] if !COUNT => {}
        [] => add_each::<COUNT, 0>(words, records, []),
        [a] => add_each::<COUNT, 1>(words, records, [a]),
        [a, b] => add_each::<COUNT, 2>(words, records, [a, b]),
        [a, b, c] => add_each::<COUNT, 3>(words, records, [a, b, c]),
        [a, b, c, d, ..] => add_each::<COUNT, SUMS>(words, records, [a, b, c, d]),
    }
}

#[inline(always)]
fn add_each<const COUNT: bool, const N: usize>(
    words: &mut [u64],
    records: &[u32],
    sums: [(usize, &[i64]); N],
) {
    let sums = sums.map(|(word, values)| (word, &values[..records.len()]));
    for (row, record) in records.iter().enumerate() {
        let Some(record) = words.get_mut(*record as usize..) else {
            return;
        };
        if COUNT && let Some(rows) = record.first_mut() {
            *rows += 1;
        }
        for (word, values) in sums {
            if let Some(sum) = record.get_mut(word) {
                *sum = sum.wrapping_add(values[row] as u64);
            }
        }
    }
}

/// Makes the change of a value for each row.
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
