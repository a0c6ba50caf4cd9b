//! A dimension as the probes see it: which keys are in it, and the group each belongs to.
//!
//! Keys that do not lie too far apart are positions of a bit vector, and of an array of group numbers if they lie densely. Others are
//! looked up in a hash table of at least twice as many places (linear probing).

use halocline_columns::PlaceBits;

use super::key::{Digit, digits};
use crate::{JoinError, Result};

/// Up to so many places per key are dense: a bit and a group number each.
const SPARSE: u128 = 64;

/// Dimensions of fewer places than this have bits whatever they hold: 1 MiB.
const SMALL: u128 = 1 << 23;

/// Those of fewer places than this have an array of group numbers too.
const SMALL_GROUPS: u128 = 1 << 16;

/// What is in a dimension; immutable, shared by threads.
#[derive(Debug, Clone)]
pub struct Dimension {
    pub(super) keys: Keys,
    /// How the columns of a key make one of 64 bits.
    pub(super) digits: Vec<Digit>,
    rows: usize,
    groups: u32,
}

#[derive(Debug, Clone)]
pub(super) enum Keys {
    Dense(Dense),
    Sparse(Sparse),
}

/// Keys from `low` on. A place behind the last is in no dimension, so that what is out of range has one.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    pub(super) low: i64,
    pub(super) present: PlaceBits,
    pub(super) group_of: GroupOf,
}

/// The groups of places whose bit is set.
#[derive(Debug, Clone)]
pub(super) enum GroupOf {
    /// There is one.
    One,
    Bytes(Vec<u8>),
    Words(Vec<u16>),
    Wide(Vec<u32>),
    /// By key less the least one.
    Hashed(Sparse),
}

/// Keys and groups by hash; [`FREE`] has none.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    table: Vec<(i64, u32)>,
    shift: u32,
}

const FREE: u32 = u32::MAX;

/// Collects the rows of a dimension.
#[derive(Debug)]
pub struct DimensionBuilder {
    columns: usize,
    /// One after the other, of each row all columns.
    keys: Vec<i64>,
    /// Of each row; rows behind the last belong to group 0.
    groups: Vec<u32>,
    /// Whether a key may come again.
    exists: bool,
}

impl Default for DimensionBuilder {
    fn default() -> Self {
        Self::new(1)
    }
}

impl DimensionBuilder {
    /// A dimension without rows, whose keys have so many columns.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(columns: usize) -> Self {
        assert!(columns > 0, "a key has a column");
        Self {
            columns,
            keys: Vec::new(),
            groups: Vec::new(),
            exists: false,
        }
    }

    /// The same, if its rows are only looked for: a key may come more than once, and there is one group.
    #[must_use]
    pub fn existence(mut self) -> Self {
        self.exists = true;
        self
    }

    /// Rows that were added.
    pub fn rows(&self) -> usize {
        self.keys.len() / self.columns
    }

    /// Bytes of DRAM that these take.
    pub fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<i64>() + self.groups.capacity() * size_of::<u32>()
    }

    /// Adds a row of this key, which belongs to a group: numbers from 0 on. Rows whose key is NULL match nothing and are not added.
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

    /// The dimension, with as many groups as the greatest number tells. O(rows + places).
    ///
    /// # Errors
    /// [`JoinError::DuplicateKey`]; [`JoinError::KeyTooWide`].
    pub fn finish(self) -> Result<Dimension> {
        let digits = digits(&self.keys, self.columns)?;
        let of_rows = self.groups.iter().copied().chain(std::iter::repeat(0));
        let keys = self.keys.chunks_exact(self.columns).map(|key| {
            let parts = digits
                .iter()
                .zip(key)
                .filter_map(|(digit, value)| digit.of(*value));
            parts.fold(0, i64::wrapping_add)
        });
        let (low, high) = keys
            .clone()
            .fold(None, |bounds: Option<(i64, i64)>, key| match bounds {
                None => Some((key, key)),
                Some((low, high)) => Some((low.min(key), high.max(key))),
            })
            .unwrap_or((0, -1));
        let groups = self
            .groups
            .iter()
            .max()
            .map_or(u32::from(self.rows() > 0), |group| group + 1);
        let places = (i128::from(high) - i128::from(low) + 1) as u128;
        let rows = keys.zip(of_rows);
        let (keys, rows) =
            if places <= SMALL || places <= SPARSE * self.rows() as u128 && places < u128::from(u32::MAX) {
                let (count, places) = (self.rows(), places as u32);
                let (dense, rows) = Dense::of(rows, (low, places), (count, groups), self.exists)?;
                (Keys::Dense(dense), rows)
            } else {
                let (sparse, rows) = Sparse::of(rows, self.rows(), self.exists)?;
                (Keys::Sparse(sparse), rows)
            };
        Ok(Dimension {
            keys,
            digits,
            rows,
            groups,
        })
    }
}

impl Dense {
    /// Keys from `low` on, and how many there are.
    fn of(
        rows: impl Iterator<Item = (i64, u32)> + Clone,
        (low, places): (i64, u32),
        (count, groups): (usize, u32),
        exists: bool,
    ) -> Result<(Dense, usize)> {
        let mut different = 0;
        let mut present = PlaceBits::new(places);
        let rows = rows.map(|(key, group)| (key.wrapping_sub(low) as u32, group));
        for (place, _) in rows.clone() {
            if !present.set(place) {
                different += 1;
            } else if !exists {
                let key = low.wrapping_add(place.into());
                return Err(JoinError::DuplicateKey { key });
            }
        }
        let is_array = u128::from(places) <= SMALL_GROUPS.max(SPARSE * count as u128);
        let group_of = match groups {
            0 | 1 => GroupOf::One,
            _ if !is_array => {
                let rows = rows.map(|(place, group)| (i64::from(place), group));
                GroupOf::Hashed(Sparse::of(rows, count, exists)?.0)
            }
            2..=0x100 => GroupOf::Bytes(by_place(rows, places, |group| group as u8)),
            0x101..=0x1_0000 => GroupOf::Words(by_place(rows, places, |group| group as u16)),
            _ => GroupOf::Wide(by_place(rows, places, |group| group)),
        };
        let dense = Dense {
            low,
            present,
            group_of,
        };
        Ok((dense, different))
    }

    /// The group of a key, if it is there.
    fn group(&self, key: i64) -> Option<u32> {
        let place = u32::try_from(i128::from(key) - i128::from(self.low)).ok()?;
        let mut group = [0];
        self.group_of.add(&[place], 1, &mut group);
        (self.present.has(place) == 1).then_some(group[0])
    }
}

/// Groups by place, as numbers of a type that holds them.
fn by_place<G: Copy + Default>(
    rows: impl Iterator<Item = (u32, u32)>,
    places: u32,
    narrow: impl Fn(u32) -> G,
) -> Vec<G> {
    let mut group_of = vec![G::default(); places as usize];
    rows.for_each(|(place, group)| group_of[place as usize] = narrow(group));
    group_of
}

impl GroupOf {
    /// Adds `stride` times the group of each of these places, which have one, to `groups`.
    pub(super) fn add(&self, places: &[u32], stride: u32, groups: &mut [u32]) {
        /// Of an array; of places without a group, some number.
        fn add<G: Copy + Into<u32>>(group_of: &[G], places: &[u32], stride: u32, groups: &mut [u32]) {
            for (place, group) in places.iter().zip(groups) {
                let of_place = group_of
                    .get(*place as usize)
                    .map_or(0, |of_place| (*of_place).into());
                *group += of_place * stride;
            }
        }
        match self {
            GroupOf::One => {}
            GroupOf::Bytes(group_of) => add(group_of, places, stride, groups),
            GroupOf::Words(group_of) => add(group_of, places, stride, groups),
            GroupOf::Wide(group_of) => add(group_of, places, stride, groups),
            GroupOf::Hashed(group_of) => {
                for (place, group) in places.iter().zip(groups) {
                    *group += group_of.group(i64::from(*place)).unwrap_or(0) * stride;
                }
            }
        }
    }

    /// Bytes of DRAM.
    fn bytes(&self) -> usize {
        match self {
            GroupOf::One => 0,
            GroupOf::Bytes(group_of) => size_of_val(&**group_of),
            GroupOf::Words(group_of) => size_of_val(&**group_of),
            GroupOf::Wide(group_of) => size_of_val(&**group_of),
            GroupOf::Hashed(sparse) => size_of_val(&*sparse.table),
        }
    }
}

impl Sparse {
    /// At most so many keys, and how many there are.
    fn of(rows: impl Iterator<Item = (i64, u32)>, most: usize, exists: bool) -> Result<(Sparse, usize)> {
        let mut different = 0;
        let size = (most * 2).next_power_of_two().max(2);
        let mut sparse = Sparse {
            table: vec![(0, FREE); size],
            shift: u64::BITS - size.trailing_zeros(),
        };
        for (key, group) in rows {
            match sparse.find(key) {
                Ok(_) if exists => {}
                Ok(_) => return Err(JoinError::DuplicateKey { key }),
                Err(free) => {
                    sparse.table[free] = (key, group);
                    different += 1;
                }
            }
        }
        Ok((sparse, different))
    }

    /// The group of a key, or the place where it would be.
    fn find(&self, key: i64) -> Result<u32, usize> {
        let mut at = ((key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        loop {
            match self.table[at] {
                (_, FREE) => return Err(at),
                (other, group) if other == key => return Ok(group),
                _ => at = (at + 1) % self.table.len(),
            }
        }
    }

    /// The group of a key that is there.
    pub(super) fn group(&self, key: i64) -> Option<u32> {
        self.find(key).ok()
    }
}

impl Dimension {
    /// Rows of different keys.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of its keys.
    pub fn columns(&self) -> usize {
        self.digits.len()
    }

    /// Groups that its rows belong to.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// The group of a key that digits make, if it is there.
    pub(super) fn group(&self, key: i64) -> Option<u32> {
        match &self.keys {
            Keys::Dense(dense) => dense.group(key),
            Keys::Sparse(sparse) => sparse.group(key),
        }
    }

    /// Bytes of DRAM that a probe may touch to tell whether a key is there.
    pub fn probe_bytes(&self) -> usize {
        match &self.keys {
            Keys::Dense(dense) => dense.present.bytes(),
            Keys::Sparse(sparse) => size_of_val(&*sparse.table),
        }
    }

    /// Bytes of DRAM that it takes.
    pub fn bytes(&self) -> usize {
        match &self.keys {
            Keys::Dense(dense) => dense.present.bytes() + dense.group_of.bytes(),
            Keys::Sparse(sparse) => size_of_val(&*sparse.table),
        }
    }

    /// Whether keys are positions of an array.
    pub fn is_dense(&self) -> bool {
        matches!(self.keys, Keys::Dense(_))
    }

    /// How many of the keys between two, inclusive, are in it: the share of a fact table's rows that match, if their keys are uniform.
    pub fn share_of(&self, low: i64, high: i64) -> f64 {
        let span = i128::from(high) - i128::from(low) + 1;
        (self.rows as f64 / span.max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(i64, u32)]) -> Result<Dimension> {
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
        let Keys::Sparse(sparse) = &dimension.keys else {
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
    fn a_key_that_comes_twice_is_refused() {
        for far in [1, 1 << 40] {
            let error = of(&[(3, 0), (3 + far, 0), (3, 1)]).expect_err("twice");
            assert!(matches!(error, JoinError::DuplicateKey { key: 3 }), "{error}");
        }
    }
}
