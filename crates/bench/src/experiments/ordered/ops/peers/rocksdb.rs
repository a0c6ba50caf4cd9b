//! RocksDB: a log-structured merge tree.

use std::path::Path;

use rocksdb::{DB, Direction, IteratorMode, Options, WriteBatch, WriteOptions};

use super::super::store::{Store, next, value};
use super::{COMMIT, failed, number};
use crate::BenchError;

/// A database with its default column family.
pub(super) struct Rocks(DB);

impl Rocks {
    pub(super) fn open(path: &Path) -> Result<Self, BenchError> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Ok(Self(DB::open(&options, path).map_err(fail)?))
    }

    fn commits(&self, keys: &[u64], change: impl Fn(&mut WriteBatch, u64)) -> Result<(), BenchError> {
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        let commit = |keys: &[u64]| {
            let mut batch = WriteBatch::default();
            keys.iter().for_each(|key| change(&mut batch, *key));
            self.0.write_opt(batch, &durable)
        };
        keys.chunks(COMMIT).try_for_each(commit).map_err(fail)
    }
}

fn fail(error: rocksdb::Error) -> BenchError {
    failed("RocksDB")(&error)
}

impl Store for Rocks {
    fn insert(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |batch, key| {
            batch.put(key.to_be_bytes(), value(key).to_be_bytes())
        })
    }

    fn get(&self, keys: &[u64]) -> Result<u64, BenchError> {
        let mut sum = 0_u64;
        for key in keys {
            let found = self.0.get_pinned(key.to_be_bytes()).map_err(fail)?;
            sum = sum.wrapping_add(found.map_or(0, |found| number(&found)));
        }
        Ok(sum)
    }

    fn update(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |batch, key| {
            batch.put(key.to_be_bytes(), next(key).to_be_bytes())
        })
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, BenchError> {
        let mut sum = 0_u64;
        for from in from {
            let from = from.to_be_bytes();
            let entries = self.0.iterator(IteratorMode::From(&from, Direction::Forward));
            for entry in entries.take(count) {
                let (key, value) = entry.map_err(fail)?;
                sum = sum.wrapping_add(number(&key) ^ number(&value));
            }
        }
        Ok(sum)
    }

    fn remove(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |batch, key| batch.delete(key.to_be_bytes()))
    }
}
