//! Items in the key-value store of a pool, the default.
//!
//! A generation is a store with the name `memcached/items/N`. The store `memcached/meta` has the number of
//! the current one. A flush creates another, empty store and changes that number by one durable write; the
//! old one is dropped. A server that ends in between goes on when it starts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use halocline_media::MediumKind;
use halocline_pool::Pool;
use halocline_store::{Store, StoreError, StoreLookup, Stores, StoresOptions, WriteBatch};

use super::{
    ItemChange, ItemGeneration, ItemStorage, ItemStorageStats, ScannedItem, StorageNumber, StoredItem,
};
use crate::error::Result;
use crate::fault::{MemcachedFault, injected};
use crate::settings::Durability;

/// The name of the store of what the server knows of itself.
pub(super) const META: &str = "memcached/meta";
const PREFIX: &str = "memcached/items/";
/// The key of the number of the current store.
const CURRENT: &[u8] = b"current";

/// The key-value store of a pool as a storage.
pub(crate) struct StoreStorage {
    pool: Pool,
    stores: Stores,
    meta: Store,
    /// Commits wait for a disk.
    waits: bool,
    /// The number of the current store.
    current: Mutex<u64>,
}

/// A store of items.
struct StoreGeneration {
    stores: Stores,
    store: Store,
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn key(number: StorageNumber) -> &'static [u8] {
    match number {
        StorageNumber::CasEnd => b"cas",
        StorageNumber::FlushAt => b"flush at",
    }
}

fn read(meta: &Store, key: &[u8]) -> Result<Option<u64>> {
    let stored = meta.get(key)?;
    Ok(stored.and_then(|stored| Some(u64::from_le_bytes(stored.try_into().ok()?))))
}

impl StoreStorage {
    /// Opens the stores of a pool, which are created if there are none. Their commits wait for a fence if the
    /// durability asks for it. Otherwise they are durable after the next [`sync`](ItemStorage::sync) or
    /// checkpoint.
    pub(crate) fn open(pool: &Pool, durability: Durability, options: StoresOptions) -> Result<StoreStorage> {
        let waits = durability == Durability::Operation && !injected(MemcachedFault::DeferCommits);
        let stores = Stores::open_with(pool, options.with_durable_commits(waits))?;
        let meta = stores.store(META)?;
        let current = read(&meta, CURRENT)?.unwrap_or(0);
        Ok(StoreStorage {
            pool: pool.clone(),
            stores,
            meta,
            waits: waits && matches!(pool.kind(), MediumKind::PageCache { strict: true }),
            current: Mutex::new(current),
        })
    }

    fn current_number(&self) -> MutexGuard<'_, u64> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn generation(&self, number: u64) -> Result<Arc<dyn ItemGeneration>> {
        Ok(Arc::new(StoreGeneration {
            store: self.stores.store(&name(number))?,
            stores: self.stores.clone(),
        }))
    }
}

impl ItemStorage for StoreStorage {
    fn current(&self) -> Result<Arc<dyn ItemGeneration>> {
        self.generation(*self.current_number())
    }

    fn flush(&self) -> Result<Arc<dyn ItemGeneration>> {
        let mut current = self.current_number();
        let next = *current + 1;
        let generation = self.generation(next)?;
        let mut batch = WriteBatch::new();
        if !injected(MemcachedFault::ForgetFlush) {
            batch.put(&self.meta, CURRENT, next.to_le_bytes())?;
        }
        batch.delete(&self.meta, key(StorageNumber::FlushAt))?;
        batch.use_reserve();
        self.stores.write(batch)?;
        *current = next;
        Ok(generation)
    }

    fn reclaim(&self) -> Result<bool> {
        let current = *self.current_number();
        // A store with a greater number may be that of a flush under way.
        let is_old = |name: &String| {
            let number = name
                .strip_prefix(PREFIX)
                .and_then(|number| number.parse::<u64>().ok());
            number.is_some_and(|number| number < current)
        };
        let Some(old) = self.stores.names().into_iter().find(is_old) else {
            return Ok(false);
        };
        // Its space is free at once, whatever its size.
        self.stores.drop_store(&old)?;
        Ok(true)
    }

    fn number(&self, number: StorageNumber) -> Result<Option<u64>> {
        read(&self.meta, key(number))
    }

    fn set_number(&self, number: StorageNumber, value: u64) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(&self.meta, key(number), value.to_le_bytes())?;
        // Without it a server could not start on a full disk, to delete something.
        batch.use_reserve();
        Ok(self.stores.write(batch)?)
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn waits(&self) -> bool {
        self.waits
    }

    fn sync(&self) -> Result<()> {
        Ok(self.stores.flush()?)
    }

    fn close(&self) -> Result<()> {
        self.stores.checkpoint()?;
        Ok(self.pool.sync()?)
    }

    fn name(&self) -> String {
        "store".to_owned()
    }

    fn stats(&self) -> ItemStorageStats {
        let stats = self.stores.stats();
        ItemStorageStats {
            pool_bytes: stats.pool_bytes,
            live_bytes: stats.live_bytes,
            log_bytes: stats.log_bytes,
            appended_bytes: stats.appended_bytes,
            log_fences: stats.log_fences,
            checkpoints: stats.checkpoints,
        }
    }
}

impl ItemGeneration for StoreGeneration {
    fn get(&self, key: &[u8]) -> Result<Option<StoredItem>> {
        Ok(match self.store.look_up(key)? {
            StoreLookup::Found(pair) => Some(StoredItem {
                value: pair.value,
                expires: pair.expires.map(millis),
            }),
            StoreLookup::Expired => Some(StoredItem::EXPIRED),
            StoreLookup::Missing => None,
        })
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.store.contains_key(key)?)
    }

    fn write(&self, changes: &[ItemChange<'_>]) -> Result<()> {
        let store = &self.store;
        if let [ItemChange::Delete { key }] = changes {
            return Ok(store.delete(key)?);
        }
        let mut batch = WriteBatch::new();
        for change in changes {
            match *change {
                ItemChange::Put {
                    key,
                    value,
                    expires: None,
                } => batch.put(store, key, value)?,
                ItemChange::Put {
                    key,
                    value,
                    expires: Some(expires),
                } => {
                    let at = UNIX_EPOCH + Duration::from_millis(expires);
                    batch.put_until(store, key, value, at)?;
                }
                ItemChange::Delete { key } => batch.delete(store, key)?,
            }
        }
        Ok(self.stores.write(batch)?)
    }

    fn scan(&self, visit: &mut dyn FnMut(ScannedItem<'_>) -> Result<bool>) -> Result<()> {
        for pair in self.store.scan::<&[u8]>(..).with_expiry() {
            let pair = match pair {
                // The items were flushed meanwhile.
                Err(StoreError::Dropped { .. }) => break,
                pair => pair?,
            };
            let visited = ScannedItem {
                key: &pair.key,
                value_bytes: pair.value.len(),
                expires: pair.expires.map(millis),
            };
            if !visit(visited)? {
                break;
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.store.len()
    }

    fn bytes(&self) -> u64 {
        self.store.bytes()
    }
}

/// Returns a time in ms since 1970.
fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
