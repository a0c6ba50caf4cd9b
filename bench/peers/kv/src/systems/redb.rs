//! redb: a copy-on-write B-tree.

use std::path::Path;

use anyhow::Result;
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};

use super::{CACHE, KvStore, Pair, Reader, copy};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("t");

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A database with one table.
pub(super) struct Redb(Database);

impl Redb {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("redb");
        let create = !path.exists();
        let database = Database::builder().set_cache_size(CACHE).create(path)?;
        let opened = Self(database);
        if create {
            // Reads fail if the table does not exist yet.
            opened.write(&[])?;
        }
        Ok(opened)
    }

    /// Opens the table as of the newest commit.
    fn table(&self) -> Result<Table> {
        Ok(self.0.begin_read()?.open_table(TABLE)?)
    }
}

fn get_in(table: &Table, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
    let found = table.get(key)?;
    Ok(copy(found.as_ref().map(|found| found.value()), value))
}

impl KvStore for Redb {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        get_in(&self.table()?, key, value)
    }

    fn write(&self, pairs: &[Pair]) -> Result<()> {
        let mut writing = self.0.begin_write()?;
        writing.set_durability(Durability::Immediate)?;
        {
            let mut table = writing.open_table(TABLE)?;
            for (key, value) in pairs {
                table.insert(key.as_slice(), value.as_slice())?;
            }
        }
        Ok(writing.commit()?)
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64> {
        let table = self.table()?;
        let mut count = 0;
        for pair in table.range(from..)?.take(length) {
            let (key, value) = pair?;
            // Every system hands out its pairs as bytes of the caller's.
            std::hint::black_box((key.value().to_vec(), value.value().to_vec()));
            count += 1;
        }
        Ok(count)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        let table = self.table()?;
        Ok(Box::new(move |key: &[u8], value: &mut Vec<u8>| {
            get_in(&table, key, value)
        }))
    }
}
