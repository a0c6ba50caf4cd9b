//! LMDB, through heed: a copy-on-write B-tree in a mapped file.
#![allow(unsafe_code, reason = "LMDB maps a file that others could change")]

use std::path::Path;

use heed::byteorder::BigEndian;
use heed::types::U64;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, Error};

use super::{Change, PeerStore, sum, sum_of_entries};

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
    pub(super) fn open(path: &Path, rows: usize) -> Result<Self, Error> {
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
    }
}

impl PeerStore for Lmdb {
    const NAME: &'static str = "LMDB";
    type Error = Error;

    fn commit(&self, keys: &[u64], change: Change) -> Result<(), Error> {
        let mut writing = self.environment.write_txn()?;
        for key in keys {
            if let Some(value) = change(*key) {
                self.entries.put(&mut writing, key, &value)?;
            } else {
                self.entries.delete(&mut writing, key)?;
            }
        }
        writing.commit()
    }

    fn get(&self, keys: &[u64]) -> Result<u64, Error> {
        let reading = self.environment.read_txn()?;
        sum(keys, |key| Ok(self.entries.get(&reading, &key)?.unwrap_or(0)))
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, Error> {
        let reading = self.environment.read_txn()?;
        sum(from, |from| {
            sum_of_entries(self.entries.range(&reading, &(from..))?.take(count))
        })
    }
}
