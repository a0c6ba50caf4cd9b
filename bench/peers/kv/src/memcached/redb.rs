//! redb as the storage of Halocline's memcached server, so that two storages are compared under the same
//! server.
//!
//! A generation of items is a table. A value is the time of expiry (8 bytes, 0 for none) and the item. Each
//! write is a transaction whose commit is durable; items that have expired stay until they are replaced.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use halocline_memcached::{
    ItemChange, ItemGeneration, ItemStorage, ItemStorageStats, MemcachedError, ScannedItem, StorageNumber,
    StoredItem,
};
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition, WriteTransaction,
};

use crate::disk;

/// As for redb itself.
const CACHE: usize = 256 << 20;
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const CURRENT: &str = "current";

type Items = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A database with the items of a server.
pub(super) struct RedbStorage {
    database: Arc<Database>,
    waits: bool,
    current: Mutex<u64>,
}

/// A table of items.
struct RedbGeneration {
    database: Arc<Database>,
    table: String,
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> MemcachedError {
    MemcachedError::Storage(Box::new(error))
}

fn table(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

fn name(number: u64) -> String {
    format!("items/{number}")
}

fn key(number: StorageNumber) -> &'static str {
    match number {
        StorageNumber::CasEnd => "cas",
        StorageNumber::FlushAt => "flush at",
    }
}

/// Makes changes in a durable transaction.
fn write<T>(
    database: &Database,
    change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
) -> Result<T, MemcachedError> {
    let mut writing = database.begin_write().map_err(failed)?;
    writing.set_durability(Durability::Immediate).map_err(failed)?;
    let changed = change(&writing).map_err(failed)?;
    writing.commit().map_err(failed)?;
    Ok(changed)
}

impl RedbStorage {
    /// Opens the database in a directory, which is created if it is not there.
    pub(super) fn open(directory: &Path) -> Result<RedbStorage> {
        let database = Database::builder()
            .set_cache_size(CACHE)
            .create(directory.join("redb"))?;
        let current = write(&database, |writing| {
            let mut numbers = writing.open_table(NUMBERS)?;
            let current = numbers.get(CURRENT)?.map_or(0, |number| number.value());
            numbers.insert(CURRENT, current)?;
            writing.open_table(table(&name(current)))?;
            Ok(current)
        });
        Ok(RedbStorage {
            database: Arc::new(database),
            waits: !disk::is_tmpfs(directory)?,
            current: Mutex::new(current.context("cannot open the items")?),
        })
    }

    fn current_number(&self) -> MutexGuard<'_, u64> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn generation(&self, number: u64) -> Arc<dyn ItemGeneration> {
        Arc::new(RedbGeneration {
            database: Arc::clone(&self.database),
            table: name(number),
        })
    }
}

impl ItemStorage for RedbStorage {
    fn current(&self) -> Result<Arc<dyn ItemGeneration>, MemcachedError> {
        Ok(self.generation(*self.current_number()))
    }

    fn flush(&self) -> Result<Arc<dyn ItemGeneration>, MemcachedError> {
        let mut current = self.current_number();
        let next = *current + 1;
        write(&self.database, |writing| {
            let mut numbers = writing.open_table(NUMBERS)?;
            numbers.insert(CURRENT, next)?;
            numbers.remove(key(StorageNumber::FlushAt))?;
            writing.delete_table(table(&name(*current)))?;
            writing.open_table(table(&name(next)))?;
            Ok(())
        })?;
        *current = next;
        Ok(self.generation(next))
    }

    fn reclaim(&self) -> Result<bool, MemcachedError> {
        Ok(false)
    }

    fn number(&self, number: StorageNumber) -> Result<Option<u64>, MemcachedError> {
        let reading = self.database.begin_read().map_err(failed)?;
        let numbers = reading.open_table(NUMBERS).map_err(failed)?;
        let found = numbers.get(key(number)).map_err(failed)?;
        Ok(found.map(|found| found.value()))
    }

    fn set_number(&self, number: StorageNumber, value: u64) -> Result<(), MemcachedError> {
        write(&self.database, |writing| {
            writing.open_table(NUMBERS)?.insert(key(number), value)?;
            Ok(())
        })
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn waits(&self) -> bool {
        self.waits
    }

    /// Each commit was durable.
    fn sync(&self) -> Result<(), MemcachedError> {
        Ok(())
    }

    fn name(&self) -> String {
        "redb".to_owned()
    }

    fn stats(&self) -> ItemStorageStats {
        ItemStorageStats::default()
    }
}

impl RedbGeneration {
    /// Opens the table as of the newest commit.
    fn items(&self) -> Result<Items, MemcachedError> {
        let reading = self.database.begin_read().map_err(failed)?;
        reading.open_table(table(&self.table)).map_err(failed)
    }
}

/// Splits a value of a table.
fn decode(stored: &[u8]) -> (Option<u64>, &[u8]) {
    let (expires, value) = stored.split_first_chunk().unwrap_or((&[0; 8], stored));
    let expires = u64::from_le_bytes(*expires);
    ((expires > 0).then_some(expires), value)
}

impl ItemGeneration for RedbGeneration {
    fn get(&self, key: &[u8]) -> Result<Option<StoredItem>, MemcachedError> {
        let found = self.items()?.get(key).map_err(failed)?;
        Ok(found.map(|found| {
            let (expires, value) = decode(found.value());
            StoredItem {
                value: value.to_vec(),
                expires,
            }
        }))
    }

    fn write(&self, changes: &[ItemChange<'_>]) -> Result<(), MemcachedError> {
        write(&self.database, |writing| {
            let mut items = writing.open_table(table(&self.table))?;
            for change in changes {
                match *change {
                    ItemChange::Put { key, value, expires } => {
                        let stored = [
                            &expires.map_or(0, |expires| expires.max(1)).to_le_bytes()[..],
                            value,
                        ]
                        .concat();
                        items.insert(key, stored.as_slice())?;
                    }
                    ItemChange::Delete { key } => _ = items.remove(key)?,
                }
            }
            Ok(())
        })
    }

    fn scan(
        &self,
        visit: &mut dyn FnMut(ScannedItem<'_>) -> Result<bool, MemcachedError>,
    ) -> Result<(), MemcachedError> {
        for pair in self.items()?.iter().map_err(failed)? {
            let (key, stored) = pair.map_err(failed)?;
            let (expires, value) = decode(stored.value());
            let item = ScannedItem {
                key: key.value(),
                value_bytes: value.len(),
                expires,
            };
            if !visit(item)? {
                break;
            }
        }
        Ok(())
    }

    /// The number of items; 0 if it cannot be read.
    fn len(&self) -> u64 {
        self.items().ok().and_then(|items| items.len().ok()).unwrap_or(0)
    }

    /// Reads all items.
    fn bytes(&self) -> u64 {
        let stats = self.items().ok().and_then(|items| items.stats().ok());
        stats.map_or(0, |stats| stats.stored_bytes())
    }
}
