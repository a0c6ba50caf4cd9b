//! Dimensions: the keys that probes look up, and the group of each key.
//!
//! Keys of a limited range are slots of a bit vector, and also of an array of group numbers if they are
//! dense. Others are looked up in a hash table with at least twice as many slots (linear probing).
//!
//! Strings are numbered, and the numbers are the keys.
//!
//! Two rows of one key are refused, unless rows are only looked for (a semi join). An anti join looks for the
//! keys of a range that no row has.

use super::dense::{DenseKeys, SPARSE};
use super::key::{KeyDigit, digits};
use super::measure_values::MeasureValues;
use super::payload::Payload;
use super::sparse::HashedKeys;
use super::strings::StringKeys;
use crate::{JoinError, JoinResult};

/// Number of slots (1 MiB of bits) below which dimensions always use a bit vector.
const SMALL: u128 = 1 << 23;

/// Most slots per key of a dense dimension with a payload, and the number of slots below which keys of such a
/// dimension are always dense.
const SPARSE_PAYLOAD: u128 = 8;
const SMALL_PAYLOAD: u128 = 1 << 16;

/// A dimension; immutable and shared by threads.
#[derive(Debug, Clone)]
pub struct Dimension {
    pub(super) keys: KeyLookup,
    /// The digits that combine the columns of a key to 64 bits.
    pub(super) digits: Vec<KeyDigit>,
    rows: usize,
    groups: u32,
    payload: Payload,
    /// The numbers of strings, which are the keys.
    strings: Option<StringKeys>,
    /// The number of keys that are not in the dimension, if rows of the fact table with such keys pass.
    pub(super) absent_number: Option<u32>,
    /// The group of each row of hashed keys with a payload; empty if there is one group.
    group_of_row: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(super) enum KeyLookup {
    DenseKeys(DenseKeys),
    HashedKeys(HashedKeys),
}

/// A builder of dimensions.
#[derive(Debug)]
pub struct DimensionBuilder {
    columns: usize,
    /// The keys, row by row.
    keys: Vec<i64>,
    /// The group of each row; further rows belong to group 0.
    groups: Vec<u32>,
    /// True if keys may repeat.
    exists: bool,
    /// The first and the last key of a dimension that has all keys between them but the added ones.
    absent: Option<(i64, i64)>,
    /// The columns of the payload, with a value for each row.
    payload: Vec<MeasureValues>,
    /// True if rows of the fact table pass whose key no row has.
    is_optional: bool,
    /// The numbers of strings, which are the keys.
    strings: Option<StringKeys>,
}

impl Default for DimensionBuilder {
    fn default() -> Self {
        Self::new(1)
    }
}

impl DimensionBuilder {
    /// Creates a builder for keys of `columns` columns.
    ///
    /// # Panics
    /// If `columns` is 0.
    pub fn new(columns: usize) -> Self {
        assert!(columns > 0, "a key has a column");
        Self {
            columns,
            keys: Vec::new(),
            groups: Vec::new(),
            exists: false,
            absent: None,
            payload: Vec::new(),
            is_optional: false,
            strings: None,
        }
    }

    /// Creates a builder for keys that are strings, in one column.
    pub fn of_strings() -> Self {
        Self {
            strings: Some(StringKeys::default()),
            ..Self::default()
        }
    }

    /// Restricts the dimension to existence tests: keys may repeat, and there is one group.
    #[must_use]
    pub fn existence(mut self) -> Self {
        self.exists = true;
        self
    }

    /// Restricts the dimension to tests that no row has a key: it has all keys from `low` to `high`, both
    /// inclusive, but those that are added, which may repeat.
    ///
    /// # Panics
    /// If keys have several columns.
    #[must_use]
    pub fn absence(mut self, low: i64, high: i64) -> Self {
        assert_eq!(self.columns, 1, "columns of a key");
        self.exists = true;
        self.absent = Some((low, high));
        self
    }

    /// Adds a payload of as many columns: values of its rows that measures read.
    ///
    /// # Panics
    /// If there are rows.
    #[must_use]
    pub fn payload(mut self, columns: usize) -> Self {
        assert!(self.keys.is_empty(), "rows have been added without values");
        self.payload.resize(columns, MeasureValues::default());
        self
    }

    /// Lets rows of the fact table pass whose key no row of the dimension has, with NULLs as payload: the join
    /// becomes an outer join. Such a dimension has one group.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Returns the number of added rows.
    pub fn rows(&self) -> usize {
        self.keys.len() / self.columns
    }

    /// Returns the number of bytes of DRAM that the builder occupies.
    pub fn bytes(&self) -> usize {
        let payload: usize = self.payload.iter().map(MeasureValues::bytes).sum();
        let payload = payload + self.strings.as_ref().map_or(0, StringKeys::bytes);
        self.keys.capacity() * size_of::<i64>() + self.groups.capacity() * size_of::<u32>() + payload
    }

    /// Adds a row with this key and group, without a payload; groups are numbered from 0. Rows with a NULL in
    /// the key match nothing and must not be added.
    ///
    /// # Panics
    /// If the key has another number of columns, or there is a payload.
    pub fn push(&mut self, key: &[i64], group: u32) {
        assert_eq!(key.len(), self.columns, "columns of a key");
        assert!(self.payload.is_empty(), "a row has a value of each column");
        if !self.exists && (group > 0 || !self.groups.is_empty()) {
            self.groups.resize(self.rows(), 0);
            self.groups.push(group);
        }
        self.keys.extend_from_slice(key);
    }

    /// Adds rows: their keys, row by row, the group of each, and the columns of their payload. Without groups,
    /// they belong to group 0.
    ///
    /// # Panics
    /// If the last key is incomplete, the number of groups is neither 0 nor that of the keys, or the payload
    /// has another number of columns or values.
    pub fn extend(&mut self, keys: &[i64], groups: &[u32], payload: &[MeasureValues]) {
        let rows = keys.len() / self.columns;
        assert_eq!(keys.len(), rows * self.columns, "columns of a key");
        assert!(groups.is_empty() || groups.len() == rows, "a group for each key");
        assert_eq!(payload.len(), self.payload.len(), "columns of the payload");
        for (all, more) in self.payload.iter_mut().zip(payload) {
            assert_eq!(more.len(), rows, "a value for each key");
            all.append(more);
        }
        let grouped = !self.groups.is_empty() || groups.iter().any(|group| *group > 0);
        if grouped && !self.exists {
            self.groups.resize(self.rows(), 0);
            self.groups.extend_from_slice(groups);
        }
        self.keys.extend_from_slice(keys);
    }

    /// Adds rows whose keys are strings, with their groups and payload as [`extend`](Self::extend) does.
    ///
    /// # Panics
    /// If keys are [not strings](Self::of_strings); see [`extend`](Self::extend).
    pub fn extend_strings<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
        groups: &[u32],
        payload: &[MeasureValues],
    ) {
        let strings = self.strings.as_mut().expect("keys are strings");
        let keys = Vec::from_iter(keys.map(|string| i64::from(strings.add(string))));
        self.extend(&keys, groups, payload);
    }

    /// Builds the dimension. The largest group number determines the number of groups. O(rows + slots).
    ///
    /// # Panics
    /// If it is [optional](Self::optional) and has several groups.
    ///
    /// # Errors
    /// [`JoinError::DuplicateKey`](crate::JoinError::DuplicateKey);
    /// [`JoinError::KeyTooWide`](crate::JoinError::KeyTooWide).
    pub fn finish(self) -> JoinResult<Dimension> {
        if let Some(range) = self.absent {
            return absent(&self.keys, range);
        }
        let digits = digits(&self.keys, self.columns)?;
        let of_rows = self.groups.iter().copied().chain(std::iter::repeat(0));
        let count = self.rows();
        let keys = match self.columns {
            1 => self.keys,
            columns => {
                let parts_of = |key| {
                    let parts = digits.iter().zip(key);
                    parts.filter_map(|(digit, value): (&KeyDigit, &i64)| digit.of(*value))
                };
                let keys = self.keys.chunks_exact(columns);
                keys.map(|key| parts_of(key).fold(0, i64::wrapping_add)).collect()
            }
        };
        let low = keys.iter().min().copied().unwrap_or(0);
        let high = keys.iter().max().copied().unwrap_or(-1);
        let groups = self
            .groups
            .iter()
            .max()
            .map_or(u32::from(count > 0), |group| group + 1);
        let places = (i128::from(high) - i128::from(low) + 1) as u128;
        let rows = keys.iter().copied().zip(of_rows);
        assert!(
            groups <= 1 || !self.is_optional,
            "an optional dimension has one group"
        );
        let mut payload = Payload::new(self.payload);
        let mut group_of_row = Vec::new();
        let is_dense = match payload.is_empty() {
            true => places <= SMALL || places <= SPARSE * count as u128 && places < u128::from(u32::MAX),
            false => {
                places
                    <= SMALL_PAYLOAD
                        .max(SPARSE_PAYLOAD * count as u128)
                        .min(u32::MAX.into())
            }
        };
        let (keys, rows) = if is_dense {
            let found = DenseKeys::of(rows, (low, places as u32), (count, groups), self.exists)?;
            let slots = keys.iter().map(|key| key.wrapping_sub(low) as u32);
            payload = payload.moved(slots, places as u32, self.is_optional);
            (KeyLookup::DenseKeys(found.0), found.1)
        } else if payload.is_empty() {
            let (sparse, rows) = HashedKeys::of(rows, count, self.exists)?;
            (KeyLookup::HashedKeys(sparse), rows)
        } else {
            let numbered = keys.iter().copied().zip(0..);
            let (sparse, rows) = HashedKeys::of(numbered, count, self.exists)?;
            if self.is_optional {
                payload = payload.moved(0..count as u32, count as u32, true);
            }
            group_of_row = self.groups;
            if groups > 1 {
                group_of_row.resize(count, 0);
            }
            (KeyLookup::HashedKeys(sparse), rows)
        };
        Ok(Dimension {
            keys,
            digits,
            rows,
            groups,
            strings: self.strings,
            absent_number: self.is_optional.then(|| payload.numbers().saturating_sub(1)),
            payload,
            group_of_row,
        })
    }
}

/// Returns a dimension of the keys of a range that are not among `keys`.
fn absent(keys: &[i64], (low, high): (i64, i64)) -> JoinResult<Dimension> {
    let places = (i128::from(high) - i128::from(low) + 1).max(0) as u128;
    let places = u32::try_from(places).map_err(|_| JoinError::KeyTooWide { columns: 1 })?;
    let dense = DenseKeys::absent(keys, low, places);
    let rows = dense.present.count();
    Ok(Dimension {
        digits: digits(&[low, high], 1)?,
        rows: rows as usize,
        groups: u32::from(rows > 0),
        keys: KeyLookup::DenseKeys(dense),
        payload: Payload::default(),
        strings: None,
        absent_number: None,
        group_of_row: Vec::new(),
    })
}

impl Dimension {
    /// Returns the number of distinct keys.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns of its keys.
    pub fn columns(&self) -> usize {
        self.digits.len()
    }

    /// Returns the number of groups.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Returns true if the numbers of keys are needed: they have different groups, or a payload.
    pub(super) fn has_numbers(&self) -> bool {
        self.groups > 1 || !self.payload.is_empty()
    }

    /// Returns the key of a string, for [decoded rows](super::DecodedRows); `None` if no row has it.
    pub fn key_of_string(&self, string: &[u8]) -> Option<i64> {
        self.strings.as_ref()?.number(string).map(i64::from)
    }

    /// Returns the strings, if they are the keys.
    pub(super) fn strings(&self) -> Option<&StringKeys> {
        self.strings.as_ref()
    }

    /// Returns true if rows of the fact table pass whose key is not in the dimension.
    pub fn is_optional(&self) -> bool {
        self.absent_number.is_some()
    }

    /// Returns the columns that measures read, by the numbers of keys.
    pub(super) fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Returns the number of a row of the fact table with a key, if it is not NULL; none if the row does not
    /// pass.
    #[inline]
    pub(super) fn number_of_row(&self, key: Option<i64>) -> Option<u32> {
        key.and_then(|key| self.number(key)).or(self.absent_number)
    }

    /// Returns the number of a key combined from digits, if the key is in the dimension.
    pub(super) fn number(&self, key: i64) -> Option<u32> {
        match &self.keys {
            KeyLookup::DenseKeys(dense) => dense.slot(key),
            KeyLookup::HashedKeys(sparse) => sparse.number(key),
        }
    }

    /// Adds `stride` times the group of each of these numbers, which are those of keys, to `groups`.
    pub(super) fn add_groups(&self, numbers: &[u32], stride: u32, groups: &mut [u32]) {
        if self.groups <= 1 {
            return;
        }
        let pairs = numbers.iter().zip(&mut *groups);
        match &self.keys {
            KeyLookup::DenseKeys(dense) => dense.group_of.add(numbers, stride, groups),
            KeyLookup::HashedKeys(_) if self.payload.is_empty() => {
                pairs.for_each(|(number, group)| *group += number * stride);
            }
            KeyLookup::HashedKeys(_) => {
                pairs.for_each(|(row, group)| *group += self.group_of_row[*row as usize] * stride);
            }
        }
    }

    /// Returns the number of bytes of DRAM that an existence test may access.
    pub fn probe_bytes(&self) -> usize {
        match &self.keys {
            KeyLookup::DenseKeys(dense) => dense.present.bytes(),
            KeyLookup::HashedKeys(sparse) => sparse.bytes(),
        }
    }

    /// Returns the number of bytes of DRAM that the dimension occupies.
    pub fn bytes(&self) -> usize {
        let keys = match &self.keys {
            KeyLookup::DenseKeys(dense) => dense.bytes(),
            KeyLookup::HashedKeys(sparse) => sparse.bytes(),
        };
        let strings = self.strings.as_ref().map_or(0, StringKeys::bytes);
        keys + strings + self.payload.bytes() + size_of_val(&*self.group_of_row)
    }

    /// Returns true if keys are slots of a bit vector.
    pub fn is_dense(&self) -> bool {
        matches!(self.keys, KeyLookup::DenseKeys(_))
    }

    /// Returns the share of the keys between two, inclusive, that are in the dimension: the selectivity for
    /// uniform keys.
    pub fn share_of(&self, low: i64, high: i64) -> f64 {
        if self.is_optional() {
            return 1.0;
        }
        let span = i128::from(high) - i128::from(low) + 1;
        (self.rows as f64 / span.max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(dimension: &Dimension, key: i64) -> Option<u32> {
        let mut groups = [0];
        dimension.number(key).map(|number| {
            dimension.add_groups(&[number], 1, &mut groups);
            groups[0]
        })
    }

    fn of(rows: &[(i64, u32)]) -> JoinResult<Dimension> {
        let mut builder = DimensionBuilder::default();
        rows.iter().for_each(|&(key, group)| builder.push(&[key], group));
        builder.finish()
    }

    #[test]
    fn keys_far_apart_are_hashed() {
        let rows: Vec<(i64, u32)> = (0..1000).map(|i| (i * 1_000_003 - 77, i as u32 % 7)).collect();
        let dimension = of(&rows).expect("unique");
        assert!(!dimension.is_dense());
        assert_eq!((dimension.rows(), dimension.groups()), (1000, 7));
        let KeyLookup::HashedKeys(sparse) = &dimension.keys else {
            panic!("not sparse")
        };
        for (key, group) in rows {
            assert_eq!(sparse.number(key), Some(group));
            assert_eq!(sparse.number(key + 1), None);
        }
    }

    #[test]
    fn keys_of_a_range_are_dense() {
        assert!(
            of(&[(i64::MIN, 0), (i64::MIN + 9, 1)])
                .expect("unique")
                .is_dense()
        );
        assert!(!of(&[(i64::MIN, 0), (i64::MAX, 1)]).expect("unique").is_dense());
        let none = of(&[]).expect("unique");
        assert_eq!((none.rows(), none.groups()), (0, 0));
    }

    #[test]
    fn absent_keys_are_those_of_the_range_without_rows() {
        let of = |keys: &[i64], low: i64, high: i64| {
            let mut builder = DimensionBuilder::default().absence(low, high);
            builder.extend(keys, &[], &[]);
            builder.finish()
        };
        let some = of(&[7, 5, 7, 100, -100], 5, 9).expect("few keys");
        let has = |key: i64| some.number(key).is_some();
        assert_eq!(
            [4, 5, 6, 7, 8, 9, 10].map(has),
            [false, false, true, false, true, true, false]
        );
        assert_eq!((some.rows(), some.groups()), (3, 1));
        let all = of(&[], i64::MAX - 2, i64::MAX).expect("few keys");
        assert_eq!((all.rows(), group(&all, i64::MAX)), (3, Some(0)));
        let none = of(&[1, 2], 1, 2).expect("few keys");
        assert_eq!((none.rows(), none.number(1)), (0, None));
        assert_eq!(of(&[3], 1, 0).expect("no keys").rows(), 0);
        let error = of(&[3], i64::MIN, i64::MAX).expect_err("too many keys");
        assert!(matches!(error, JoinError::KeyTooWide { .. }), "{error}");
    }

    #[test]
    fn a_key_that_comes_twice_is_refused() {
        for far in [1, 1 << 40] {
            let error = of(&[(3, 0), (3 + far, 0), (3, 1)]).expect_err("twice");
            assert!(matches!(error, JoinError::DuplicateKey { key: 3 }), "{error}");
        }
    }
}
