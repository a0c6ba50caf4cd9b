//! The items: what the commands do, whatever the protocol calls them.
//!
//! An item is a key of the current generation of an [`ItemStorage`] with an encoded [`Item`] as its value.
//! `flush_all` begins a new generation; the storage empties the old one step by step.
//!
//! Invariants:
//! - A command that reads and writes holds the lock of its key's shard, so that commands on one key are
//!   linearizable. Plain lookups read the storage, whose reads are linearizable by themselves, or the copies
//!   of [hot items](hot).
//! - The current generation does not change while a command holds it for reading.
//! - The eviction policy knows each item, or is to let it leave, but for items that [were there
//!   before](Items::admit_present) and that it has not met yet.

mod access;
mod arithmetic;
mod change;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod exploration;
#[cfg(test)]
mod failures;
mod flush;
#[cfg(test)]
mod full_disk;
mod hot;
mod lookup;
#[cfg(test)]
mod power_loss;
mod reconcile;
mod remove;
mod staged;
mod together;
#[cfg(test)]
mod workload;
mod write;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use halocline_store::Clock;
use xxhash_rust::xxh3::xxh3_64;

use crate::cas::CasValues;
use crate::error::Result;
use crate::eviction::Evictor;
use crate::expiry::has_passed;
use crate::fault::{MemcachedFault, injected};
use crate::item::Item;
use crate::stats::Counters;
use crate::storage::{ItemGeneration, ItemStorage, StorageNumber};
use access::AccessTable;

pub(crate) use access::Access;
pub(crate) use arithmetic::{Arithmetic, Calculated};
pub(crate) use change::{Change, ChangeOutcome};
pub(crate) use hot::HotItems;
pub(crate) use lookup::{Found, Lookup};
pub(crate) use remove::{Removal, RemoveOutcome};
pub(crate) use write::{Write, WriteOutcome};

/// Number of locks of keys.
const SHARDS: usize = 1024;

/// The items of a server.
pub(crate) struct Items {
    pub(crate) storage: Arc<dyn ItemStorage>,
    current: RwLock<Arc<dyn ItemGeneration>>,
    shards: Box<[Mutex<()>]>,
    cas: CasValues,
    accesses: AccessTable,
    pub(crate) evictor: Option<Evictor>,
    pub(crate) hot: Option<HotItems>,
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
    /// Starts with the items of a storage.
    pub(crate) fn open(
        storage: Arc<dyn ItemStorage>,
        clock: Clock,
        evictor: Option<Evictor>,
        limit: Option<u64>,
        hot: Option<HotItems>,
    ) -> Result<Items> {
        let flush_at = storage.number(StorageNumber::FlushAt)?;
        Ok(Items {
            current: RwLock::new(storage.current()?),
            cas: CasValues::start(Arc::clone(&storage), clock())?,
            flush_at: AtomicU64::new(flush_at.unwrap_or(flush::NEVER)),
            shards: (0..SHARDS).map(|_| Mutex::new(())).collect(),
            accesses: AccessTable::new(),
            counters: Counters::default(),
            storage,
            evictor,
            hot,
            limit,
            clock,
        })
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Returns the current generation, after a flush that is due.
    fn generation(&self) -> Result<RwLockReadGuard<'_, Arc<dyn ItemGeneration>>> {
        self.flush_if_due()?;
        Ok(self.present())
    }

    /// Returns the current generation.
    fn present(&self) -> RwLockReadGuard<'_, Arc<dyn ItemGeneration>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the shard of a key.
    fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.lock_shard(shard(key))
    }

    fn lock_shard(&self, shard: usize) -> MutexGuard<'_, ()> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the item of a key.
    fn load(&self, generation: &dyn ItemGeneration, key: &[u8]) -> Result<Option<Item>> {
        let Some(stored) = generation.get(key)? else {
            let is_flushed = self.accesses.take_flushed(key);
            self.counters.get_flushed.add(u64::from(is_flushed));
            return Ok(None);
        };
        if has_passed(stored.expires, self.now()) {
            self.counters.get_expired.add(1);
            return Ok(None);
        }
        Item::decode(stored.value, stored.expires).map(Some)
    }

    /// Returns true if there is no room for an item with `data` bytes of data.
    fn is_full(&self, generation: &dyn ItemGeneration, data: u64) -> bool {
        self.limit
            .is_some_and(|limit| generation.footprint() + data > limit)
    }

    /// Returns the number of items and the bytes of their keys and values.
    pub(crate) fn amounts(&self) -> (u64, u64) {
        let generation = self.present();
        (generation.len(), generation.bytes())
    }

    /// Makes what was acknowledged survive power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        if injected(MemcachedFault::SkipSync) {
            return Ok(());
        }
        self.storage.sync()
    }

    /// Tells the eviction policy of the items that it does not know, until `stops`. Those that must leave do.
    pub(crate) fn admit_present(&self, stops: &dyn Fn() -> bool) -> Result<()> {
        let Some(evictor) = &self.evictor else {
            return Ok(());
        };
        let scanned = Arc::clone(&self.present());
        scanned.scan(&mut |found| {
            if stops() {
                return Ok(false);
            }
            // A flush may have begun another generation meanwhile.
            let generation = self.present();
            let _lock = self.lock(found.key);
            if evictor.knows(found.key) || !generation.contains(found.key)? {
                return Ok(true);
            }
            let bytes = self.storage.footprint(found.key.len(), found.value_bytes);
            let evicted = evictor.stored(found.key, bytes, found.expires, self.now());
            if let Err(error) = self.evict(&**generation, evicted) {
                tracing::debug!(%error, "items leave later");
            }
            Ok(true)
        })
    }
}

/// Returns the shard of a key.
fn shard(key: &[u8]) -> usize {
    xxh3_64(key) as usize % SHARDS
}
