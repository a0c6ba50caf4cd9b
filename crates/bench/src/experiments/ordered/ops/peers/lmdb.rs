//! LMDB, through heed: a copy-on-write B-tree in a mapped file.
#![allow(unsafe_code, reason = "LMDB maps a file that others could change")]

use std::path::Path;

use heed::byteorder::BigEndian;
use heed::types::U64;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, RwTxn};

use super::super::store::{Store, next, value};
use super::{COMMIT, failed};
use crate::BenchError;

type Entries = Database<'static, U64<BigEndian>, U64<BigEndian>>;

/// Bytes of the map for an entry, what is written anew before old pages are free included, and at least.
const MAP: (usize, usize) = (256, 1 << 30);

/// An environment with one database.
pub(super) struct Lmdb {
    /// It stays open to the end of the process, as its database refers to it.
    environment: &'static Env,
    entries: Entries,
}

impl Lmdb {
    pub(super) fn open(path: &Path, rows: usize) -> Result<Self, BenchError> {
        let open = || -> Result<Self, heed::Error> {
            std::fs::create_dir_all(path)?;
            let mut options = EnvOpenOptions::new();
            options.map_size((rows * MAP.0).max(MAP.1).next_multiple_of(1 << 20));
            // SAFETY: the directory was just made for this store, under a random name; nobody else opens its
            // files or changes them while they are mapped.
            let environment = unsafe { options.open(path)? };
            let environment: &'static Env = Box::leak(Box::new(environment));
            let entries = environment
                .create_databases_and_commit(environment.write_txn()?, |opener, writing| {
                    let created = opener.create_database(writing, None);
                    created.map(CommitOrAbort::<_, ()>::Commit)
                })?
                .unwrap_commit();
            Ok(Self { environment, entries })
        };
        open().map_err(fail)
    }

    fn commits(
        &self,
        keys: &[u64],
        change: impl Fn(&Entries, &mut RwTxn<'_>, u64) -> Result<(), heed::Error>,
    ) -> Result<(), BenchError> {
        let commit = |keys: &[u64]| -> Result<(), heed::Error> {
            let mut writing = self.environment.write_txn()?;
            for key in keys {
                change(&self.entries, &mut writing, *key)?;
            }
            writing.commit()
        };
        keys.chunks(COMMIT).try_for_each(commit).map_err(fail)
    }
}

fn fail(error: heed::Error) -> BenchError {
    failed("LMDB")(&error)
}

impl Store for Lmdb {
    fn insert(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |entries, writing, key| {
            entries.put(writing, &key, &value(key))
        })
    }

    fn get(&self, keys: &[u64]) -> Result<u64, BenchError> {
        let all = || -> Result<u64, heed::Error> {
            let reading = self.environment.read_txn()?;
            let mut sum = 0_u64;
            for key in keys {
                sum = sum.wrapping_add(self.entries.get(&reading, key)?.unwrap_or(0));
            }
            Ok(sum)
        };
        all().map_err(fail)
    }

    fn update(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |entries, writing, key| {
            entries.put(writing, &key, &next(key))
        })
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, BenchError> {
        let all = || -> Result<u64, heed::Error> {
            let reading = self.environment.read_txn()?;
            let mut sum = 0_u64;
            for from in from {
                for entry in self.entries.range(&reading, &(*from..))?.take(count) {
                    let (key, value) = entry?;
                    sum = sum.wrapping_add(key ^ value);
                }
            }
            Ok(sum)
        };
        all().map_err(fail)
    }

    fn remove(&self, keys: &[u64]) -> Result<(), BenchError> {
        self.commits(keys, |entries, writing, key| {
            entries.delete(writing, &key).map(drop)
        })
    }
}
