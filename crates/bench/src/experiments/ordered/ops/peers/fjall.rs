//! fjall: a log-structured merge tree.

use std::path::Path;

use fjall::{Database, Error, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Change, PeerStore, number, sum, sum_of_entries};

/// A database with one keyspace.
pub(super) struct Fjall {
    database: Database,
    entries: Keyspace,
}

impl Fjall {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let database = Database::builder(path).open()?;
        let entries = database.keyspace("t", KeyspaceCreateOptions::default)?;
        Ok(Self { database, entries })
    }
}

impl PeerStore for Fjall {
    const NAME: &'static str = "fjall";
    type Error = Error;

    fn commit(&self, keys: &[u64], change: Change) -> Result<(), Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for key in keys {
            if let Some(value) = change(*key) {
                batch.insert(&self.entries, key.to_be_bytes(), value.to_be_bytes());
            } else {
                batch.remove(&self.entries, key.to_be_bytes());
            }
        }
        batch.commit()
    }

    fn get(&self, keys: &[u64]) -> Result<u64, Error> {
        sum(keys, |key| {
            let found = self.entries.get(key.to_be_bytes())?;
            Ok(found.map_or(0, |found| number(&found)))
        })
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, Error> {
        sum(from, |from| {
            let entries = self.entries.range(from.to_be_bytes()..).take(count);
            sum_of_entries(entries.map(|entry| {
                let (key, value) = entry.into_inner()?;
                Ok((number(&key), number(&value)))
            }))
        })
    }
}
