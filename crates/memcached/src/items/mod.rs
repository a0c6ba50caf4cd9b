//! The items: what the commands do, whatever the protocol calls them.
//!
//! An item is a key of a [`Store`] with an encoded [`Item`] as its value. The current store is named
//! `memcached/items/N`; `flush_all` begins a new one, whose number is a key of the store `memcached/meta`,
//! and empties the old one step by step.
//!
//! Invariants:
//! - A command that reads and writes holds the lock of its key's shard, so that commands on one key are
//!   linearizable. Plain lookups read the store alone, whose reads are linearizable by themselves.
//! - The current store does not change while a command holds it for reading.

mod access;
mod arithmetic;
#[cfg(test)]
mod crash;
mod flush;
mod lookup;
#[cfg(test)]
mod power_loss;
mod remove;
mod together;
mod write;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use halocline_pool::Pool;
use halocline_store::{Clock, Store, Stores, StoresOptions, WriteBatch};
use xxhash_rust::xxh3::xxh3_64;

use crate::cas::CasValues;
use crate::error::Result;
use crate::eviction::Evictor;
use crate::expiry::has_passed;
use crate::fault::{MemcachedFault, injected};
use crate::item::{Item, OVERHEAD, size};
use crate::settings::Durability;
use crate::stats::Counters;
use access::AccessTable;

pub(crate) use access::Access;
pub(crate) use arithmetic::{Arithmetic, Calculated};
pub(crate) use lookup::{Found, Lookup};
pub(crate) use remove::{Removal, RemoveOutcome};
pub(crate) use write::{Write, WriteOutcome};

/// Number of locks of keys.
const SHARDS: usize = 1024;

/// The items of a server.
pub(crate) struct Items {
    pub(crate) stores: Stores,
    meta: Store,
    current: RwLock<Store>,
    shards: Box<[Mutex<()>]>,
    cas: CasValues,
    accesses: AccessTable,
    pub(crate) evictor: Option<Evictor>,
    /// Most bytes of items where none makes room for others.
    limit: Option<u64>,
    pub(crate) counters: Counters,
    clock: Clock,
    /// Time of a flush that was asked for, in ms since 1970; `u64::MAX` if there is none.
    flush_at: AtomicU64,
}

/// Returns the time in ms since 1970.
pub(crate) fn system_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl Items {
    /// Opens the items of a pool.
    pub(crate) fn open(
        pool: &Pool,
        durability: Durability,
        clock: Clock,
        evictor: Option<Evictor>,
        limit: Option<u64>,
    ) -> Result<Items> {
        Items::open_with(pool, options(durability), clock, evictor, limit)
    }

    /// Opens the items of a pool whose stores do nothing in the background.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn open_quietly(pool: &Pool, clock: Clock) -> Result<Items> {
        let options = StoresOptions::default().with_background(false);
        Items::open_with(pool, options, clock, None, None)
    }

    fn open_with(
        pool: &Pool,
        options: StoresOptions,
        clock: Clock,
        evictor: Option<Evictor>,
        limit: Option<u64>,
    ) -> Result<Items> {
        let stores = Stores::open_with(pool, options.with_clock(Arc::clone(&clock)))?;
        let meta = stores.store(flush::META)?;
        let current = flush::current(&stores, &meta)?;
        Ok(Items {
            cas: CasValues::start(meta.clone(), clock())?,
            flush_at: AtomicU64::new(flush::scheduled(&meta)?),
            current: RwLock::new(current),
            shards: (0..SHARDS).map(|_| Mutex::new(())).collect(),
            accesses: AccessTable::new(),
            counters: Counters::default(),
            meta,
            stores,
            evictor,
            limit,
            clock,
        })
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Returns the current store, after a flush that is due.
    fn store(&self) -> Result<RwLockReadGuard<'_, Store>> {
        self.flush_if_due()?;
        Ok(self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.lock_shard(shard(key))
    }

    fn lock_shard(&self, shard: usize) -> MutexGuard<'_, ()> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the item of a key.
    fn load(&self, store: &Store, key: &[u8]) -> Result<Option<Item>> {
        let Some(pair) = store.get_pair(key)? else {
            return Ok(None);
        };
        Item::decode(pair.value, pair.expires.map(millis)).map(Some)
    }

    /// Stores an item, or removes it if it has expired. The caller holds the lock of the key.
    fn save(&self, store: &Store, key: &[u8], item: &mut Item) -> Result<()> {
        let mut batch = WriteBatch::new();
        self.stage(store, key, item, &mut batch)?;
        self.stores.write(batch)?;
        Ok(())
    }

    /// Adds to a batch what [`save`](Self::save) writes.
    fn stage(&self, store: &Store, key: &[u8], item: &mut Item, batch: &mut WriteBatch) -> Result<()> {
        if has_passed(item.expires, self.now()) {
            self.forget(key);
            batch.delete(store, key)?;
            return Ok(());
        }
        let bytes = size(key.len(), item.data().len() as u64);
        match item.expires {
            None => batch.put(store, key, item.encode())?,
            Some(expires) => {
                let at = UNIX_EPOCH + std::time::Duration::from_millis(expires);
                batch.put_until(store, key, item.encode(), at)?;
            }
        }
        if let Some(evictor) = &self.evictor {
            let evicted = evictor.stored(key, bytes, item.expires, self.now());
            self.counters.evictions.add(evicted.len() as u64);
            let mut leaving = WriteBatch::new();
            let gone = match injected(MemcachedFault::EvictApart) {
                true => &mut leaving,
                false => batch,
            };
            for key in &evicted {
                gone.delete(store, key)?;
            }
            if !leaving.is_empty() {
                self.stores.write(leaving)?;
            }
        }
        Ok(())
    }

    /// Removes an item. The caller holds the lock of the key.
    fn delete(&self, store: &Store, key: &[u8]) -> Result<()> {
        self.forget(key);
        store.delete(key)?;
        Ok(())
    }

    /// Forgets what DRAM has of an item that is removed.
    fn forget(&self, key: &[u8]) {
        if let Some(evictor) = &self.evictor {
            evictor.removed(key);
        }
        self.accesses.forget(key);
    }

    /// Returns true if there is no room for an item with so many bytes of data.
    fn is_full(&self, store: &Store, data: u64) -> bool {
        let taken = || store.bytes() + store.len() * OVERHEAD + data;
        self.limit.is_some_and(|limit| taken() > limit)
    }

    /// Returns the number of items and the bytes of their keys and values.
    pub(crate) fn amounts(&self) -> (u64, u64) {
        let store = self.current.read().unwrap_or_else(PoisonError::into_inner);
        (store.len(), store.bytes())
    }

    /// Makes what was acknowledged survive power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        if injected(MemcachedFault::SkipSync) {
            return Ok(());
        }
        Ok(self.stores.flush()?)
    }

    /// Tells the eviction policy of the items that it does not know, until `stops`. Those that must leave do.
    pub(crate) fn admit_present(&self, stops: &dyn Fn() -> bool) -> Result<()> {
        let Some(evictor) = &self.evictor else {
            return Ok(());
        };
        let store = self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for pair in store.scan::<&[u8]>(..).with_expiry() {
            let pair = pair?;
            if stops() {
                return Ok(());
            }
            let _lock = self.lock(&pair.key);
            if evictor.knows(&pair.key) || !store.contains_key(&pair.key)? {
                continue;
            }
            let bytes = size(pair.key.len(), pair.value.len() as u64);
            let expires = pair.expires.map(millis);
            let evicted = evictor.stored(&pair.key, bytes, expires, self.now());
            self.counters.evictions.add(evicted.len() as u64);
            for key in &evicted {
                store.delete(key)?;
            }
        }
        Ok(())
    }
}

/// Returns the options of stores with a durability.
fn options(durability: Durability) -> StoresOptions {
    let durable = durability == Durability::Operation && !injected(MemcachedFault::DeferCommits);
    StoresOptions::default().with_durable_commits(durable)
}

/// Returns the shard of a key.
fn shard(key: &[u8]) -> usize {
    xxh3_64(key) as usize % SHARDS
}

/// Returns a time in ms since 1970.
fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
