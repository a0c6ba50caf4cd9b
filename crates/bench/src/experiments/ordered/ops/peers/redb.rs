//! redb: a copy-on-write B-tree.

use std::path::Path;

use redb::{Database, Durability, Error, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Change, PeerStore, sum, sum_of_entries};

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("t");

/// A database with one table.
pub(super) struct Redb(Database);

impl Redb {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let opened = Self(Database::create(path)?);
        // Makes the table.
        opened.commit(&[], |_| None)?;
        Ok(opened)
    }
}

impl PeerStore for Redb {
    const NAME: &'static str = "redb";
    type Error = Error;

    fn commit(&self, keys: &[u64], change: Change) -> Result<(), Error> {
        let mut writing = self.0.begin_write()?;
        writing.set_durability(Durability::Immediate)?;
        {
            let mut table = writing.open_table(TABLE)?;
            for key in keys {
                if let Some(value) = change(*key) {
                    table.insert(*key, value)?;
                } else {
                    table.remove(*key)?;
                }
            }
        }
        Ok(writing.commit()?)
    }

    fn get(&self, keys: &[u64]) -> Result<u64, Error> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        sum(keys, |key| Ok(table.get(key)?.map_or(0, |found| found.value())))
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, Error> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        sum(from, |from| {
            sum_of_entries(table.range(from..)?.take(count).map(|entry| {
                let (key, value) = entry?;
                Ok((key.value(), value.value()))
            }))
        })
    }
}
