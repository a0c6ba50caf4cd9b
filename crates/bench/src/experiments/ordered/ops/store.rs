//! The interface of all contenders, [`Store`]; our trees and the B-tree of the standard library.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{PoisonError, RwLock};

use halocline_ordered::OrderedIndex;

use crate::BenchError;

/// Keys that are handed to a batched get at once.
const BATCH: usize = 1024;

/// Does one kind of operation with each of some keys. Threads may share it.
pub(in crate::experiments::ordered) trait Store: Sync {
    /// Adds entries, each with the [`value`] of its key.
    fn insert(&self, keys: &[u64]) -> Result<(), BenchError>;

    /// Returns the sum of the values of the keys that are present.
    fn get(&self, keys: &[u64]) -> Result<u64, BenchError>;

    /// Returns the same sum as [`get`](Self::get), and looks up many keys at a time if the store can do that.
    fn get_batch(&self, keys: &[u64]) -> Result<u64, BenchError> {
        self.get(keys)
    }

    /// Returns true if the operation handles more than one key at a time.
    fn has_batches(&self) -> bool {
        false
    }

    /// Replaces the values of keys that are there, each by that of the [`next`] round.
    fn update(&self, keys: &[u64]) -> Result<(), BenchError>;

    /// Reads up to `count` entries from each key on and returns the sum of `key ^ value`.
    fn scan(&self, from: &[u64], count: usize) -> Result<u64, BenchError>;

    /// Removes entries.
    fn remove(&self, keys: &[u64]) -> Result<(), BenchError>;
}

/// Returns the sum of what `found` returns for each key.
pub(super) fn sum<E>(keys: &[u64], found: impl Fn(u64) -> Result<u64, E>) -> Result<u64, E> {
    let mut sum = 0_u64;
    for key in keys {
        sum = sum.wrapping_add(found(*key)?);
    }
    Ok(sum)
}

/// Returns the value that a key is inserted with.
pub(in crate::experiments::ordered) fn value(key: u64) -> u64 {
    key.rotate_left(9)
}

/// Returns the value that a key is updated to.
pub(super) fn next(key: u64) -> u64 {
    !key
}

impl<I: Deref<Target = dyn OrderedIndex> + Sync> Store for I {
    fn insert(&self, keys: &[u64]) -> Result<(), BenchError> {
        for key in keys {
            (**self).insert(*key, value(*key))?;
        }
        Ok(())
    }

    fn get(&self, keys: &[u64]) -> Result<u64, BenchError> {
        sum(keys, |key| Ok((**self).get(key)?.unwrap_or(0)))
    }

    fn get_batch(&self, keys: &[u64]) -> Result<u64, BenchError> {
        let mut values = vec![None; BATCH.min(keys.len())];
        let mut sum = 0_u64;
        for keys in keys.chunks(BATCH) {
            let values = &mut values[..keys.len()];
            (**self).get_batch(keys, values)?;
            sum = values
                .iter()
                .flatten()
                .fold(sum, |sum, value| sum.wrapping_add(*value));
        }
        Ok(sum)
    }

    fn has_batches(&self) -> bool {
        true
    }

    fn update(&self, keys: &[u64]) -> Result<(), BenchError> {
        for key in keys {
            (**self).update(*key, next(*key))?;
        }
        Ok(())
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, BenchError> {
        let mut entries = Vec::with_capacity(2 * count);
        let mut sum = 0_u64;
        for from in from {
            entries.clear();
            (**self).scan(*from, count, &mut entries)?;
            for (key, value) in entries.iter().take(count) {
                sum = sum.wrapping_add(key ^ value);
            }
        }
        Ok(sum)
    }

    fn remove(&self, keys: &[u64]) -> Result<(), BenchError> {
        for key in keys {
            (**self).remove(*key)?;
        }
        Ok(())
    }
}

/// The B-tree of the standard library: what no durability costs. Its lock is taken for each operation.
#[derive(Debug, Default)]
pub(super) struct Std(RwLock<BTreeMap<u64, u64>>);

impl Std {
    fn write(&self, change: impl FnOnce(&mut BTreeMap<u64, u64>)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<u64, u64>) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for Std {
    fn insert(&self, keys: &[u64]) -> Result<(), BenchError> {
        for key in keys {
            self.write(|map| {
                map.insert(*key, value(*key));
            });
        }
        Ok(())
    }

    fn get(&self, keys: &[u64]) -> Result<u64, BenchError> {
        let values = keys
            .iter()
            .map(|key| self.read(|map| map.get(key).copied().unwrap_or(0)));
        Ok(values.fold(0, u64::wrapping_add))
    }

    fn update(&self, keys: &[u64]) -> Result<(), BenchError> {
        for key in keys {
            self.write(|map| {
                if let Some(value) = map.get_mut(key) {
                    *value = next(*key);
                }
            });
        }
        Ok(())
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, BenchError> {
        let sum = |map: &BTreeMap<u64, u64>, from: u64| {
            let entries = map.range(from..).take(count).map(|(key, value)| key ^ value);
            entries.fold(0, u64::wrapping_add)
        };
        let sums = from.iter().map(|from| self.read(|map| sum(map, *from)));
        Ok(sums.fold(0, u64::wrapping_add))
    }

    fn remove(&self, keys: &[u64]) -> Result<(), BenchError> {
        for key in keys {
            self.write(|map| {
                map.remove(key);
            });
        }
        Ok(())
    }
}
