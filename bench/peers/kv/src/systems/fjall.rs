//! fjall: a log-structured merge tree.

use std::path::Path;

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::{CACHE, KvStore, Pair, Reader, copy};

/// A database with one keyspace.
pub(super) struct Fjall {
    database: Database,
    entries: Keyspace,
}

impl Fjall {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let database = Database::builder(directory.join("fjall"))
            .cache_size(CACHE as u64)
            .open()?;
        let entries = database.keyspace("t", KeyspaceCreateOptions::default)?;
        Ok(Self { database, entries })
    }
}

impl KvStore for Fjall {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(self.entries.get(key)?, value))
    }

    fn write(&self, pairs: &[Pair]) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for (key, value) in pairs {
            batch.insert(&self.entries, key.as_slice(), value.as_slice());
        }
        Ok(batch.commit()?)
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64> {
        let mut count = 0;
        for pair in self.entries.range(from..).take(length) {
            let (key, value) = pair.into_inner()?;
            std::hint::black_box((key.to_vec(), value.to_vec()));
            count += 1;
        }
        Ok(count)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        let snapshot = self.database.snapshot();
        Ok(Box::new(move |key: &[u8], value: &mut Vec<u8>| {
            Ok(copy(snapshot.get(&self.entries, key)?, value))
        }))
    }
}
