//! LMDB: a copy-on-write B-tree in a mapped file.

use std::path::Path;

use anyhow::Result;
use lmdb::{
    Cursor, Database, DatabaseFlags, Environment, EnvironmentFlags, Error, RoTransaction, Transaction,
    WriteFlags,
};

use super::{KvStore, Pair, Reader, copy};

/// Bytes of address space for the map, which limit the file.
const MAP: usize = 64 << 30;

/// An environment with its unnamed database.
pub(super) struct Lmdb {
    environment: Environment,
    entries: Database,
}

impl Lmdb {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("lmdb");
        std::fs::create_dir_all(&path)?;
        let environment = Environment::new()
            .set_map_size(MAP)
            // A thread may hold a reader while it reads through another one.
            .set_flags(EnvironmentFlags::NO_TLS)
            .open(&path)?;
        let entries = environment.create_db(None, DatabaseFlags::empty())?;
        Ok(Self { environment, entries })
    }
}

fn get_in(reading: &RoTransaction<'_>, entries: Database, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
    match reading.get(entries, &key) {
        Ok(found) => Ok(copy(Some(found), value)),
        Err(Error::NotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl KvStore for Lmdb {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        get_in(&self.environment.begin_ro_txn()?, self.entries, key, value)
    }

    fn write(&self, pairs: &[Pair]) -> Result<()> {
        let mut writing = self.environment.begin_rw_txn()?;
        for (key, value) in pairs {
            writing.put(self.entries, key, value, WriteFlags::empty())?;
        }
        Ok(writing.commit()?)
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64> {
        let reading = self.environment.begin_ro_txn()?;
        let mut cursor = reading.open_ro_cursor(self.entries)?;
        // LMDB refuses empty keys, even to look for the first one.
        let pairs = if from.is_empty() {
            cursor.iter_start()
        } else {
            cursor.iter_from(from)
        };
        let mut count = 0;
        for pair in pairs.take(length) {
            let (key, value) = pair?;
            std::hint::black_box((key.to_vec(), value.to_vec()));
            count += 1;
        }
        Ok(count)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        let reading = self.environment.begin_ro_txn()?;
        Ok(Box::new(move |key: &[u8], value: &mut Vec<u8>| {
            get_in(&reading, self.entries, key, value)
        }))
    }
}
