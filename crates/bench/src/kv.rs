//! Stores and trees as workloads see them: [`StoreTarget`], [`TreeTarget`].

use halocline_ordered::{OrderedIndex, Range};
use halocline_store::{Store, Stores, WriteBatch};
use halocline_workloads::{YcsbPair, YcsbStore};

use crate::BenchError;

/// A store.
#[derive(Debug)]
pub struct StoreTarget {
    stores: Stores,
    store: Store,
}

impl StoreTarget {
    /// Returns a target for one of these stores.
    pub fn new(stores: Stores, store: Store) -> Self {
        Self { stores, store }
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns all stores of its pool.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }
}

impl YcsbStore for StoreTarget {
    type Error = BenchError;

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, BenchError> {
        let found = self.store.get(key)?;
        let is_there = found.is_some();
        *value = found.unwrap_or_default();
        Ok(is_there)
    }

    fn write(&self, pairs: &[YcsbPair]) -> Result<(), BenchError> {
        if let [(key, value)] = pairs {
            return Ok(self.store.put(key, value)?);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in pairs {
            batch.put(&self.store, key, value)?;
        }
        Ok(self.stores.write(batch)?)
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64, BenchError> {
        let mut scan = self.store.scan(from..).with_limit(length);
        let mut count = 0;
        while let Some(pair) = scan.next_ref() {
            std::hint::black_box(pair?);
            count += 1;
        }
        Ok(count)
    }
}

/// A tree: of each key it has the number, of each value the first eight bytes. Every change is durable by
/// itself, whatever the commits.
pub struct TreeTarget(pub Box<dyn OrderedIndex>);

impl TreeTarget {
    /// Returns the number of a key that [`ycsb_key`](halocline_workloads::ycsb_key) made.
    fn number(key: &[u8]) -> Result<u64, BenchError> {
        let digits = str::from_utf8(key).ok().and_then(|key| key.strip_prefix("user"));
        let number = digits.and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| BenchError::Setup("a tree takes keys of YCSB only".to_owned()))
    }
}

impl YcsbStore for TreeTarget {
    type Error = BenchError;

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, BenchError> {
        let found = self.0.get(Self::number(key)?)?;
        value.clear();
        value.extend(found.unwrap_or(0).to_le_bytes());
        Ok(found.is_some())
    }

    fn write(&self, pairs: &[YcsbPair]) -> Result<(), BenchError> {
        for (key, value) in pairs {
            let mut bytes = [0; 8];
            let len = value.len().min(8);
            bytes[..len].copy_from_slice(&value[..len]);
            self.0.upsert(Self::number(key)?, u64::from_le_bytes(bytes))?;
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64, BenchError> {
        let mut count = 0;
        for entry in Range::new(&*self.0, Self::number(from)?..).take(length) {
            std::hint::black_box(entry?);
            count += 1;
        }
        Ok(count)
    }
}
