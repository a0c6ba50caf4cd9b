//! redb: a copy-on-write B-tree.

use std::path::Path;

use redb::{Database, Durability, Error, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Change, PeerStore};

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
        let mut sum = 0_u64;
        for key in keys {
            sum = sum.wrapping_add(table.get(*key)?.map_or(0, |found| found.value()));
        }
        Ok(sum)
    }

    fn scan(&self, from: &[u64], count: usize) -> Result<u64, Error> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let mut sum = 0_u64;
        for from in from {
            for entry in table.range(*from..)?.take(count) {
                let (key, value) = entry?;
                sum = sum.wrapping_add(key.value() ^ value.value());
            }
        }
        Ok(sum)
    }
}
