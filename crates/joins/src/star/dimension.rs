//! Dimensions: the keys that probes look up, and the group of each key.
//!
//! Keys of a limited range are slots of a bit vector, and also of an array of group numbers if they are
//! dense. Others are looked up in a hash table with at least twice as many slots (linear probing).
//!
//! Two rows of one key are refused, unless rows are only looked for (a semi join). An anti join looks for the
//! keys of a range that no row has.

use super::dense::{DenseKeys, SPARSE};
use super::key::{KeyDigit, digits};
use super::sparse::HashedKeys;
use crate::{JoinError, JoinResult};

/// Number of slots (1 MiB of bits) below which dimensions always use a bit vector.
const SMALL: u128 = 1 << 23;

/// A dimension; immutable and shared by threads.
#[derive(Debug, Clone)]
pub struct Dimension {
    pub(super) keys: KeyLookup,
    /// The digits that combine the columns of a key to 64 bits.
    pub(super) digits: Vec<KeyDigit>,
    rows: usize,
    groups: u32,
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

    /// Returns the number of added rows.
    pub fn rows(&self) -> usize {
        self.keys.len() / self.columns
    }

    /// Returns the number of bytes of DRAM that the builder occupies.
    pub fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<i64>() + self.groups.capacity() * size_of::<u32>()
    }

    /// Adds a row with this key and group; groups are numbered from 0. Rows with a NULL in the key match
    /// nothing and must not be added.
    ///
    /// # Panics
    /// If the key has another number of columns.
    pub fn push(&mut self, key: &[i64], group: u32) {
        assert_eq!(key.len(), self.columns, "columns of a key");
        if !self.exists && (group > 0 || !self.groups.is_empty()) {
            self.groups.resize(self.rows(), 0);
            self.groups.push(group);
        }
        self.keys.extend_from_slice(key);
    }

    /// Adds rows: their keys, row by row, and the group of each. Without groups, they belong to group 0.
    ///
    /// # Panics
    /// If the last key is incomplete, or the number of groups is neither 0 nor that of the keys.
    pub fn extend(&mut self, keys: &[i64], groups: &[u32]) {
        let rows = keys.len() / self.columns;
        assert_eq!(keys.len(), rows * self.columns, "columns of a key");
        assert!(groups.is_empty() || groups.len() == rows, "a group for each key");
        let grouped = !self.groups.is_empty() || groups.iter().any(|group| *group > 0);
        if grouped && !self.exists {
            self.groups.resize(self.rows(), 0);
            self.groups.extend_from_slice(groups);
        }
        self.keys.extend_from_slice(keys);
    }

    /// Builds the dimension. The largest group number determines the number of groups. O(rows + slots).
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
        let (keys, rows) =
            if places <= SMALL || places <= SPARSE * count as u128 && places < u128::from(u32::MAX) {
                let (dense, rows) = DenseKeys::of(rows, (low, places as u32), (count, groups), self.exists)?;
                (KeyLookup::DenseKeys(dense), rows)
            } else {
                let (sparse, rows) = HashedKeys::of(rows, count, self.exists)?;
                (KeyLookup::HashedKeys(sparse), rows)
            };
        Ok(Dimension {
            keys,
            digits,
            rows,
            groups,
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

    /// Returns the group of a key combined from digits, if the key is in the dimension.
    pub(super) fn group(&self, key: i64) -> Option<u32> {
        match &self.keys {
            KeyLookup::DenseKeys(dense) => dense.group(key),
            KeyLookup::HashedKeys(sparse) => sparse.group(key),
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
        match &self.keys {
            KeyLookup::DenseKeys(dense) => dense.bytes(),
            KeyLookup::HashedKeys(sparse) => sparse.bytes(),
        }
    }

    /// Returns true if keys are slots of a bit vector.
    pub fn is_dense(&self) -> bool {
        matches!(self.keys, KeyLookup::DenseKeys(_))
    }

    /// Returns the share of the keys between two, inclusive, that are in the dimension: the selectivity for
    /// uniform keys.
    pub fn share_of(&self, low: i64, high: i64) -> f64 {
        let span = i128::from(high) - i128::from(low) + 1;
        (self.rows as f64 / span.max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(sparse.group(key), Some(group));
            assert_eq!(sparse.group(key + 1), None);
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
            builder.extend(keys, &[]);
            builder.finish()
        };
        let some = of(&[7, 5, 7, 100, -100], 5, 9).expect("few keys");
        let has = |key: i64| some.group(key).is_some();
        assert_eq!(
            [4, 5, 6, 7, 8, 9, 10].map(has),
            [false, false, true, false, true, true, false]
        );
        assert_eq!((some.rows(), some.groups()), (3, 1));
        let all = of(&[], i64::MAX - 2, i64::MAX).expect("few keys");
        assert_eq!((all.rows(), all.group(i64::MAX)), (3, Some(0)));
        let none = of(&[1, 2], 1, 2).expect("few keys");
        assert_eq!((none.rows(), none.group(1)), (0, None));
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
