//! redb: a copy-on-write B-tree.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::super::store::{Store, next, value};
use super::{COMMIT, failed};
use crate::BenchError;

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("t");

/// A database with one table.
pub(super) struct Redb(Database);

impl Redb {
    pub(super) fn open(path: &Path) -> Result<Self, BenchError> {
        let opened = Self(Database::create(path).map_err(|error| fail(error.into()))?);
        opened.commits(&[0], |_, _| Ok(()))?;
        Ok(opened)
    }

    fn commits(
        &self,
        keys: &[u64],
        change: impl Fn(&mut redb::Table<'_, u64, u64>, u64) -> Result<(), redb::StorageError>,
    ) -> Result<(), BenchError> {
        let commit = |keys: &[u64]| -> Result<(), redb::Error> {
            let mut writing = self.0.begin_write()?;
            writing.set_durability(Durability::Immediate)?;
            {
                let mut table = writing.open_table(TABLE)?;
                for key in keys {
                    change(&mut table, *key)?;
                }
            }
            Ok(writing.commit()?)
        };
        keys.chunks(COMMIT).try_for_each(commit).map_err(fail)
    }
}

fn fail(error: redb::Error) -> BenchError {
    failed("redb")(&error)
}

impl Store for Redb {
    fn insert(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |table, key| table.insert(key, value(key)).map(drop))
    }

    fn get(&self, keys: &[u64]) -> Result<u64, BenchError> {
        let all = || -> Result<u64, redb::Error> {
            let table = self.0.begin_read()?.open_table(TABLE)?;
            let mut sum = 0_u64;
            for key in keys {
                sum = sum.wrapping_add(table.get(*key)?.map_or(0, |found| found.value()));
            }
            Ok(sum)
        };
        all().map_err(fail)
    }

    fn update(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |table, key| table.insert(key, next(key)).map(drop))
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, BenchError> {
        let all = || -> Result<u64, redb::Error> {
            let table = self.0.begin_read()?.open_table(TABLE)?;
            let mut sum = 0_u64;
            for from in from {
                for entry in table.range(*from..)?.take(count) {
                    let (key, value) = entry?;
                    sum = sum.wrapping_add(key.value() ^ value.value());
                }
            }
            Ok(sum)
        };
        all().map_err(fail)
    }

    fn remove(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |table, key| table.remove(key).map(drop))
    }
}
