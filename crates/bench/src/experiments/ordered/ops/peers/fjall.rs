//! fjall: a log-structured merge tree.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};

use super::super::store::{Store, next, value};
use super::{COMMIT, failed, number};
use crate::BenchError;

/// A database with one keyspace.
pub(super) struct Fjall {
    database: Database,
    entries: Keyspace,
}

impl Fjall {
    pub(super) fn open(path: &Path) -> Result<Self, BenchError> {
        let database = Database::builder(path).open().map_err(fail)?;
        let entries = database
            .keyspace("t", KeyspaceCreateOptions::default)
            .map_err(fail)?;
        Ok(Self { database, entries })
    }

    fn commits(
        &self,
        keys: &[u64],
        change: impl Fn(&mut OwnedWriteBatch, &Keyspace, u64),
    ) -> Result<(), BenchError> {
        let commit = |keys: &[u64]| {
            let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
            keys.iter()
                .for_each(|key| change(&mut batch, &self.entries, *key));
            batch.commit()
        };
        keys.chunks(COMMIT).try_for_each(commit).map_err(fail)
    }
}

fn fail(error: fjall::Error) -> BenchError {
    failed("fjall")(&error)
}

impl Store for Fjall {
    fn insert(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |batch, entries, key| {
            batch.insert(entries, key.to_be_bytes(), value(key).to_be_bytes());
        })
    }

    fn get(&self, keys: &[u64]) -> Result<u64, BenchError> {
        let mut sum = 0_u64;
        for key in keys {
            let found = self.entries.get(key.to_be_bytes()).map_err(fail)?;
            sum = sum.wrapping_add(found.map_or(0, |found| number(&found)));
        }
        Ok(sum)
    }

    fn update(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |batch, entries, key| {
            batch.insert(entries, key.to_be_bytes(), next(key).to_be_bytes());
        })
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, BenchError> {
        let mut sum = 0_u64;
        for from in from {
            for entry in self.entries.range(from.to_be_bytes()..).take(count) {
                let (key, value) = entry.into_inner().map_err(fail)?;
                sum = sum.wrapping_add(number(&key) ^ number(&value));
            }
        }
        Ok(sum)
    }

    fn remove(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |batch, entries, key| {
            batch.remove(entries, key.to_be_bytes())
        })
    }
}
