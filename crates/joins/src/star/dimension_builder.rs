//! Building of dimensions from rows of keys, groups and values.

use super::dense::{DenseKeys, MAX_SLOTS_PER_KEY};
use super::dimension::{Dimension, KeyLookup};
use super::key::{KeyDigit, digits};
use super::measure_values::MeasureValues;
use super::payload::Payload;
use super::sparse::HashedKeys;
use super::strings::StringKeys;
use crate::{JoinError, JoinResult};

/// Number of slots (1 MiB of bits) up to which dimensions always use a bit vector.
const MAX_ALWAYS_DENSE_SLOTS: u128 = 1 << 23;

/// Most slots per key of a dense dimension with a payload, and the number of slots below which keys of such a
/// dimension are always dense.
const SPARSE_PAYLOAD: u128 = 8;
const SMALL_PAYLOAD: u128 = 1 << 16;

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

    /// Adds a payload of `columns` columns: values of its rows that measures read.
    ///
    /// # Panics
    /// If there are rows.
    #[must_use]
    pub fn payload(mut self, columns: usize) -> Self {
        assert!(self.keys.is_empty(), "rows have been added without values");
        self.payload.resize(columns, MeasureValues::default());
        self
    }

    /// Lets rows of the fact table pass whose key no row of the dimension has, with NULLs as payload: the
    /// join becomes an outer join. Such a dimension has one group.
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
        // Many dimensions have a single group, which takes no memory.
        if !self.exists && (group > 0 || !self.groups.is_empty()) {
            self.groups.resize(self.rows(), 0);
            self.groups.push(group);
        }
        self.keys.extend_from_slice(key);
    }

    /// Adds rows: their keys, row by row, the group of each, and the columns of their payload. Without
    /// groups, they belong to group 0.
    ///
    /// # Panics
    /// If the last key is incomplete, the number of groups is neither 0 nor that of the keys, or the payload
    /// has another number of columns or values.
    pub fn extend(&mut self, keys: Vec<i64>, groups: &[u32], payload: Vec<MeasureValues>) {
        let rows = keys.len() / self.columns;
        assert_eq!(keys.len(), rows * self.columns, "columns of a key");
        assert!(groups.is_empty() || groups.len() == rows, "a group for each key");
        assert_eq!(payload.len(), self.payload.len(), "columns of the payload");
        for (all, more) in self.payload.iter_mut().zip(payload) {
            assert_eq!(more.len(), rows, "a value for each key");
            // All rows may come in a single batch, which is moved and not copied.
            if all.is_empty() {
                *all = more
            } else {
                all.append(&more)
            }
        }
        let grouped = !self.groups.is_empty() || groups.iter().any(|group| *group > 0);
        if grouped && !self.exists {
            self.groups.resize(self.rows(), 0);
            self.groups.extend_from_slice(groups);
        }
        if self.keys.is_empty() {
            self.keys = keys
        } else {
            self.keys.extend_from_slice(&keys)
        }
    }

    /// Adds rows whose keys are strings, with their groups and payload as [`extend`](Self::extend) does.
    ///
    /// # Panics
    /// If keys are [not strings](Self::of_strings); see [`extend`](Self::extend).
    pub fn extend_strings<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
        groups: &[u32],
        payload: Vec<MeasureValues>,
    ) {
        let strings = self.strings.as_mut().expect("keys are strings");
        let keys = Vec::from_iter(keys.map(|string| i64::from(strings.add(string))));
        self.extend(keys, groups, payload);
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
                    parts.filter_map(|(digit, value): (&KeyDigit, &i64)| digit.contribution(*value))
                };
                let keys = self.keys.chunks_exact(columns);
                keys.map(|key| parts_of(key).fold(0, i64::wrapping_add)).collect()
            }
        };
        // Without keys the range ends before it begins, and has no slots.
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
        let is_dense = if payload.is_empty() {
            places <= MAX_ALWAYS_DENSE_SLOTS
                || places <= MAX_SLOTS_PER_KEY * count as u128 && places < u128::from(u32::MAX)
        } else {
            places
                <= SMALL_PAYLOAD
                    .max(SPARSE_PAYLOAD * count as u128)
                    .min(u32::MAX.into())
        };
        let (keys, rows) = if is_dense {
            let found = DenseKeys::build(rows, (low, places as u32), (count, groups), self.exists)?;
            let slots = keys.iter().map(|key| key.wrapping_sub(low) as u32);
            payload = payload.moved(slots, places as u32, self.is_optional);
            (KeyLookup::DenseKeys(found.0), found.1)
        } else if payload.is_empty() {
            let (sparse, rows) = HashedKeys::build(rows, count, self.exists)?;
            (KeyLookup::HashedKeys(sparse), rows)
        } else {
            // The number of a hashed key is its row, where its payload already is.
            let numbered = keys.iter().copied().zip(0..);
            let (sparse, rows) = HashedKeys::build(numbered, count, self.exists)?;
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
