//! Dimensions: the keys that probes look up, and the group of each key.
//!
//! Keys of a limited range are slots of a bit vector, and also of an array of group numbers if they are
//! dense. Others are looked up in a hash table with at least twice as many slots (linear probing).
//!
//! Strings are numbered, and the numbers are the keys.
//!
//! A key has a number, by which its group and the values that measures read are found: its slot, or in a hash
//! table that of its row (or, without such values, of its group). In an outer join, all keys that the
//! dimension has not share a number, whose values are NULL.
//!
//! Two rows of one key are refused, unless rows are only looked for (a semi join). An anti join looks for the
//! keys of a range that no row has.

use super::dense::DenseKeys;
use super::key::KeyDigit;
use super::payload::Payload;
use super::sparse::HashedKeys;
use super::strings::StringKeys;

/// A dimension; immutable and shared by threads.
#[derive(Debug, Clone)]
pub struct Dimension {
    pub(super) keys: KeyLookup,
    /// The digits that combine the columns of a key to 64 bits.
    pub(super) digits: Vec<KeyDigit>,
    pub(super) rows: usize,
    pub(super) groups: u32,
    pub(super) payload: Payload,
    /// The numbers of strings, which are the keys.
    pub(super) strings: Option<StringKeys>,
    /// The number of keys that are not in the dimension, if rows of the fact table with such keys pass.
    pub(super) absent_number: Option<u32>,
    /// The group of each row of hashed keys with a payload; empty if there is one group.
    pub(super) group_of_row: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(super) enum KeyLookup {
    DenseKeys(DenseKeys),
    HashedKeys(HashedKeys),
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

    /// Returns the number of a row of the fact table with a key, if it is not NULL; `None` if the row does
    /// not pass.
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
            // Without a payload the number of a hashed key is that of its group.
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
    use super::super::dimension_builder::DimensionBuilder;
    use super::*;
    use crate::{JoinError, JoinResult};

    fn group(dimension: &Dimension, key: i64) -> Option<u32> {
        let mut groups = [0];
        dimension.number(key).map(|number| {
            dimension.add_groups(&[number], 1, &mut groups);
            groups[0]
        })
    }

    fn dimension_of(rows: &[(i64, u32)]) -> JoinResult<Dimension> {
        let mut builder = DimensionBuilder::default();
        rows.iter().for_each(|&(key, group)| builder.push(&[key], group));
        builder.finish()
    }

    #[test]
    fn keys_far_apart_are_hashed() {
        let rows: Vec<(i64, u32)> = (0..1000).map(|i| (i * 1_000_003 - 77, i as u32 % 7)).collect();
        let dimension = dimension_of(&rows).expect("unique");
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
            dimension_of(&[(i64::MIN, 0), (i64::MIN + 9, 1)])
                .expect("unique")
                .is_dense()
        );
        assert!(
            !dimension_of(&[(i64::MIN, 0), (i64::MAX, 1)])
                .expect("unique")
                .is_dense()
        );
        let none = dimension_of(&[]).expect("unique");
        assert_eq!((none.rows(), none.groups()), (0, 0));
    }

    #[test]
    fn absent_keys_are_those_of_the_range_without_rows() {
        let of = |keys: &[i64], low: i64, high: i64| {
            let mut builder = DimensionBuilder::default().absence(low, high);
            builder.extend(keys.to_vec(), &[], vec![]);
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
            let error = dimension_of(&[(3, 0), (3 + far, 0), (3, 1)]).expect_err("twice");
            assert!(matches!(error, JoinError::DuplicateKey { key: 3 }), "{error}");
        }
    }
}
