//! Knowledge about the keys of a table that joins have found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use halocline_joins::equi::DenseKeyMap;

/// Knowledge about the keys of a table, by column.
#[derive(Debug, Default)]
pub struct KnownKeys(Mutex<BTreeMap<usize, KeyOrder>>);

/// The order of the keys of a column.
#[derive(Debug, Clone)]
pub enum KeyOrder {
    /// They ascend by one.
    Sequence(Arc<DenseKeyMap>),
    /// They need a map, which is made again each time, as it takes memory.
    Mapped,
    /// They have large gaps, or stand twice.
    NotDense,
}

impl KnownKeys {
    /// Returns the order of the keys of a column, if it is known.
    pub fn get(&self, column: usize) -> Option<KeyOrder> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&column).cloned()
    }

    /// Notes the order of the keys of a column.
    pub fn set(&self, column: usize, keys: KeyOrder) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(column, keys);
    }
}
