//! RocksDB: a log-structured merge tree.

use std::path::Path;

use rocksdb::{DB, Direction, Error, IteratorMode, Options, WriteBatch, WriteOptions};

use super::{Change, PeerStore, number, sum, sum_of_entries};

/// A database with its default column family.
pub(super) struct Rocks(DB);

impl Rocks {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Ok(Self(DB::open(&options, path)?))
    }
}

impl PeerStore for Rocks {
    const NAME: &'static str = "RocksDB";
    type Error = Error;

    fn commit(&self, keys: &[u64], change: Change) -> Result<(), Error> {
        let mut batch = WriteBatch::default();
        for key in keys {
            if let Some(value) = change(*key) {
                batch.put(key.to_be_bytes(), value.to_be_bytes());
            } else {
                batch.delete(key.to_be_bytes());
            }
        }
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        self.0.write_opt(batch, &durable)
    }

    fn get(&self, keys: &[u64]) -> Result<u64, Error> {
        sum(keys, |key| {
            let found = self.0.get_pinned(key.to_be_bytes())?;
            Ok(found.map_or(0, |found| number(&found)))
        })
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, Error> {
        sum(from, |from| {
            let from = from.to_be_bytes();
            let entries = self.0.iterator(IteratorMode::From(&from, Direction::Forward));
            let entries = entries.take(count);
            sum_of_entries(entries.map(|entry| entry.map(|(key, value)| (number(&key), number(&value)))))
        })
    }
}
