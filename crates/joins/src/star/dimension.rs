//! A dimension as the probes see it: which keys are in it, and the group each belongs to.
//!
//! Keys that lie densely are positions of a bit vector and an array of group numbers; others are looked up in a hash table of
//! at least twice as many places (linear probing).

use crate::{JoinError, Result};

/// Up to so many places per key are dense: a bit and a group number each.
const SPARSE: u128 = 64;

/// Dimensions of fewer places than this are dense whatever they hold.
const SMALL: u128 = 1 << 16;

/// What is in a dimension; immutable, shared by threads.
#[derive(Debug, Clone)]
pub struct Dimension {
    pub(super) keys: Keys,
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
    pub(super) places: u32,
    pub(super) present: Vec<u64>,
    /// Empty if there is one group.
    pub(super) group_of: Vec<u32>,
}

/// Keys and groups by hash; [`FREE`] has none.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    table: Vec<(i64, u32)>,
    shift: u32,
}

const FREE: u32 = u32::MAX;

/// Collects the rows of a dimension.
#[derive(Debug, Default)]
pub struct DimensionBuilder {
    rows: Vec<(i64, u32)>,
}

impl DimensionBuilder {
    /// A dimension without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row of this key, which belongs to a group: numbers from 0 on. Rows whose key is NULL match nothing and are not added.
    pub fn push(&mut self, key: i64, group: u32) {
        self.rows.push((key, group));
    }

    /// The dimension, with as many groups as the greatest number tells. O(rows + places).
    ///
    /// # Errors
    /// [`JoinError::DuplicateKey`].
    pub fn finish(self) -> Result<Dimension> {
        let rows = self.rows;
        let groups = rows.iter().map(|(_, group)| group + 1).max().unwrap_or(0);
        let bounds = rows
            .iter()
            .fold(None, |bounds: Option<(i64, i64)>, &(key, _)| match bounds {
                None => Some((key, key)),
                Some((low, high)) => Some((low.min(key), high.max(key))),
            });
        let (low, high) = bounds.unwrap_or((0, -1));
        let places = (i128::from(high) - i128::from(low) + 1) as u128;
        let keys =
            if places <= SMALL || places <= SPARSE * rows.len() as u128 && places < u128::from(u32::MAX) {
                Keys::Dense(Dense::of(&rows, low, places as u32, groups > 1)?)
            } else {
                Keys::Sparse(Sparse::of(&rows)?)
            };
        Ok(Dimension {
            keys,
            rows: rows.len(),
            groups,
        })
    }
}

impl Dense {
    fn of(rows: &[(i64, u32)], low: i64, places: u32, grouped: bool) -> Result<Dense> {
        let mut present = vec![0; places as usize / 64 + 1];
        let mut group_of = vec![0; if grouped { places as usize + 1 } else { 0 }];
        for &(key, group) in rows {
            let place = key.wrapping_sub(low) as usize;
            let (word, bit) = (&mut present[place / 64], 1 << (place % 64));
            if *word & bit != 0 {
                return Err(JoinError::DuplicateKey { key });
            }
            *word |= bit;
            if grouped {
                group_of[place] = group;
            }
        }
        Ok(Dense {
            low,
            places,
            present,
            group_of,
        })
    }
}

impl Sparse {
    fn of(rows: &[(i64, u32)]) -> Result<Sparse> {
        let size = (rows.len() * 2).next_power_of_two().max(2);
        let mut sparse = Sparse {
            table: vec![(0, FREE); size],
            shift: u64::BITS - size.trailing_zeros(),
        };
        for &(key, group) in rows {
            match sparse.find(key) {
                Ok(_) => return Err(JoinError::DuplicateKey { key }),
                Err(free) => sparse.table[free] = (key, group),
            }
        }
        Ok(sparse)
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
    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Groups that its rows belong to.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Bytes of DRAM that a probe may touch to tell whether a key is there.
    pub fn probe_bytes(&self) -> usize {
        match &self.keys {
            Keys::Dense(dense) => size_of_val(&*dense.present),
            Keys::Sparse(sparse) => size_of_val(&*sparse.table),
        }
    }

    /// Bytes of DRAM that it takes.
    pub fn bytes(&self) -> usize {
        match &self.keys {
            Keys::Dense(dense) => size_of_val(&*dense.present) + size_of_val(&*dense.group_of),
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
        let mut builder = DimensionBuilder::new();
        rows.iter().for_each(|&(key, group)| builder.push(key, group));
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
