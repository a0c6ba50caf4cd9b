//! Items in trees of a pool: the index of the items is one of the trees of `halocline-ordered`.
//!
//! A [generation] is a tree with the name `memcached/tree/items/N`, whose keys are hashes of the
//! items' keys and whose values are offsets of [records](record). Records are nodes of
//! [slabs]. The tree `memcached/tree/numbers` has the number of the current generation and the
//! numbers of the server; it exists as long as a pool has items of this kind.
//!
//! A flush creates the next tree, on a full disk in the reserve of the pool, and changes the number of the
//! current one by one durable store. The records of the old tree are freed step by step, in DRAM alone: after
//! a restart nothing leads to them. The same holds for records that a crash has cut off from the tree, which
//! [the walk](usage) over it finds out.

mod change;
mod check;
mod generation;
mod record;
mod shared;
mod slabs;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use halocline_media::MediumKind;
use halocline_ordered::{
    OrderedIndex, TreeError, TreeKind, create_tree_in, create_tree_using_reserve, open_tree,
    open_tree_unsynced,
};
use halocline_pool::{Pool, PoolError, ReserveUse};
use halocline_store::Clock;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    ItemChange, ItemGeneration, ItemStorage, ItemStorageStats, ScannedItem, StorageNumber, StoredItem,
};
use crate::error::Result;
use crate::fault::{MemcachedFault, injected};
use generation::{SCAN_ENTRIES, TreeGeneration};
use record::RecordSize;
use shared::SharedRecords;
use slabs::RecordSlabs;

pub use check::{ItemProblem, ItemsCheckReport, check_items};

/// The tree of the numbers.
pub(super) const NUMBERS: &str = "memcached/tree/numbers";
/// Names of the trees of items, after which their number follows.
const PREFIX: &str = "memcached/tree/items/";
/// Keys of the numbers.
const CURRENT: u64 = 0;
const CAS_END: u64 = 1;
/// Key of the time of a flush in the first generation; each one has a key of its own.
const FLUSH_AT: u64 = 2;
/// Bytes of a chunk of the tree of the numbers.
const NUMBERS_CHUNK: u64 = 4096;
/// Most bytes of a chunk of a tree in the reserve of the pool: flushes in a row on a full disk, before the
/// trees of former generations are removed, share the reserve.
const RESERVED_CHUNK: u64 = 16 << 10;
/// How long to wait for another writer of the pool.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of a [`TreeStorage`], which tests change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeStorageOptions {
    /// Least bytes of a chunk of trees and slabs.
    pub(crate) chunk: u64,
    /// The hash of a key.
    pub(crate) hash: fn(&[u8]) -> u64,
}

impl Default for TreeStorageOptions {
    fn default() -> TreeStorageOptions {
        TreeStorageOptions {
            chunk: 256 << 10,
            hash: xxh3_64,
        }
    }
}

/// Trees of a pool as a storage.
pub(crate) struct TreeStorage {
    kind: TreeKind,
    chunk: u64,
    clock: Clock,
    shared: Arc<SharedRecords>,
    numbers: Box<dyn OrderedIndex>,
    generations: Mutex<Generations>,
}

struct Generations {
    number: u64,
    current: Arc<TreeGeneration>,
    /// Former generations whose records are being freed, and the first hash of the first one that was not.
    old: VecDeque<Arc<TreeGeneration>>,
    next: u64,
    /// The first hash that was not looked at for items that have expired.
    expiring: u64,
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// Does what fails while another thread writes the pool's directory, again if it has failed for that.
fn patiently<T>(pool: &Pool, act: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        match act() {
            Err(crate::MemcachedError::Pool(PoolError::Locked { .. })) => drop(pool.begin_wait(PATIENCE)?),
            other => return other,
        }
    }
}

impl TreeStorage {
    /// Opens the trees of a pool, which are created if there are none.
    pub(crate) fn open(
        pool: &Pool,
        kind: TreeKind,
        clock: Clock,
        options: TreeStorageOptions,
    ) -> Result<TreeStorage> {
        let TreeStorageOptions { chunk, hash } = options;
        let numbers = match open_index(pool, NUMBERS) {
            Err(TreeError::Pool(PoolError::NoSuchObject { .. })) => {
                create_tree_in(pool, NUMBERS, kind, NUMBERS_CHUNK)?
            }
            other => other?,
        };
        let number = numbers.get(CURRENT)?.unwrap_or(0);
        let current = name(number);
        let names: Vec<String> = {
            let snapshot = pool.snapshot()?;
            snapshot
                .objects()
                .map(|object| object.name().to_owned())
                .collect()
        };
        // Trees of former flushes, or that of one which a crash has interrupted.
        let others = names
            .iter()
            .filter(|name| name.starts_with(PREFIX) && **name != current);
        for other in others {
            remove(pool, other)?;
        }
        let slabs = RecordSlabs::open(pool, chunk)?;
        let tree = if names.contains(&current) {
            open_index(pool, &current)?
        } else {
            create_tree_in(pool, &current, kind, chunk)?
        };
        let shared = Arc::new(SharedRecords::new(pool.clone(), slabs, hash));
        let current = Arc::new(TreeGeneration::new(&shared, current, tree));
        shared.walk.begin(&current);
        Ok(TreeStorage {
            kind,
            chunk,
            clock,
            shared,
            numbers,
            generations: Mutex::new(Generations {
                number,
                current,
                old: VecDeque::new(),
                next: 0,
                expiring: 0,
            }),
        })
    }

    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, number: StorageNumber) -> u64 {
        match number {
            StorageNumber::CasEnd => CAS_END,
            StorageNumber::FlushAt => FLUSH_AT + self.generations().number,
        }
    }

    /// Frees some records of a former generation. Returns true if there are more.
    fn free_old(&self) -> Result<bool> {
        let mut generations = self.generations();
        let Some(old) = generations.old.front().map(Arc::clone) else {
            return Ok(false);
        };
        let mut entries = Vec::new();
        let scanned = old.tree.scan(generations.next, SCAN_ENTRIES, &mut entries);
        if let Err(error) = scanned {
            tracing::warn!(%error, "the space of flushed items is free after the next start");
        }
        entries
            .iter()
            .for_each(|(hash, first)| old.free_all(*hash, *first));
        if let Some(after) = entries.last().and_then(|(hash, _)| hash.checked_add(1)) {
            generations.next = after;
            return Ok(true);
        }
        generations.old.pop_front();
        generations.next = 0;
        let has_more = !generations.old.is_empty();
        drop(generations);
        let name = old.name.clone();
        // A scan that still holds it leaves the empty tree to the next start.
        if Arc::into_inner(old).map(drop).is_some() {
            remove(&self.shared.pool, &name)?;
        }
        Ok(has_more)
    }

    /// Creates the tree of the next generation, which needs no free byte of the disk.
    fn create_empty(&self, name: &str) -> std::result::Result<Box<dyn OrderedIndex>, TreeError> {
        let pool = &self.shared.pool;
        match create_tree_in(pool, name, self.kind, self.chunk) {
            // A flush that failed has left it.
            Err(TreeError::Pool(PoolError::AlreadyThere { .. })) => open_tree(pool, name),
            Err(TreeError::Pool(PoolError::DiskFull { .. })) => {
                let chunk = self.chunk.min(RESERVED_CHUNK);
                // What is needed to remove the former trees stays.
                create_tree_using_reserve(pool, name, self.kind, chunk, ReserveUse::Deleting)
            }
            other => other,
        }
    }

    /// Removes some of the items that have expired.
    fn expire(&self) -> Result<()> {
        let (current, first) = {
            let generations = self.generations();
            (Arc::clone(&generations.current), generations.expiring)
        };
        if !current.may_expire.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(());
        }
        let mut entries = Vec::new();
        current.tree.scan(first, SCAN_ENTRIES, &mut entries)?;
        let now = (self.clock)();
        for (hash, _) in &entries {
            current.expire(*hash, now)?;
        }
        let after = entries.last().and_then(|(hash, _)| hash.checked_add(1));
        self.generations().expiring = after.unwrap_or(0);
        Ok(())
    }
}

/// Opens a tree.
fn open_index(pool: &Pool, name: &str) -> std::result::Result<Box<dyn OrderedIndex>, TreeError> {
    if injected(MemcachedFault::TrustUnsynced) {
        open_tree_unsynced(pool, name)
    } else {
        open_tree(pool, name)
    }
}

fn remove(pool: &Pool, name: &str) -> Result<()> {
    let txn = pool.begin_wait(PATIENCE)?;
    txn.use_reserve(ReserveUse::Dropping);
    txn.remove(name)?;
    txn.commit()?;
    Ok(())
}

impl ItemStorage for TreeStorage {
    fn current(&self) -> Result<Arc<dyn ItemGeneration>> {
        let current: Arc<TreeGeneration> = Arc::clone(&self.generations().current);
        Ok(current)
    }

    fn flush(&self) -> Result<Arc<dyn ItemGeneration>> {
        let mut generations = self.generations();
        let number = generations.number + 1;
        let tree = patiently(&self.shared.pool, || Ok(self.create_empty(&name(number))?))?;
        if !injected(MemcachedFault::ForgetFlush) {
            self.numbers.upsert(CURRENT, number)?;
        }
        let next = Arc::new(TreeGeneration::new(&self.shared, name(number), tree));
        let old = std::mem::replace(&mut generations.current, Arc::clone(&next));
        old.retire();
        generations.old.push_back(old);
        let before = std::mem::replace(&mut generations.number, number);
        generations.expiring = 0;
        // The time of a flush of the former generation has no meaning any more.
        if let Err(error) = self.numbers.remove(FLUSH_AT + before) {
            tracing::warn!(%error, "a number that is not needed stays");
        }
        Ok(next)
    }

    fn reclaim(&self) -> Result<bool> {
        if self.shared.walk.step()? || self.free_old()? {
            return Ok(true);
        }
        self.expire()?;
        Ok(false)
    }

    fn number(&self, number: StorageNumber) -> Result<Option<u64>> {
        Ok(self.numbers.get(self.key(number))?)
    }

    fn set_number(&self, number: StorageNumber, value: u64) -> Result<()> {
        self.numbers.upsert(self.key(number), value)?;
        Ok(())
    }

    fn footprint(&self, key: usize, value: usize) -> u64 {
        RecordSize::for_lengths(key, value).bytes()
    }

    fn is_atomic(&self) -> bool {
        false
    }

    fn waits(&self) -> bool {
        matches!(self.shared.pool.kind(), MediumKind::PageCache { strict: true })
    }

    fn sync(&self) -> Result<()> {
        Ok(self.shared.pool.sync()?)
    }

    fn name(&self) -> String {
        format!("tree {}", self.kind)
    }

    fn stats(&self) -> ItemStorageStats {
        // Not the statistics of the trees, for which all their leaves may have to be read.
        let pool_bytes = self.shared.pool.snapshot().map(|snapshot| {
            let objects = snapshot
                .objects()
                .filter(|object| object.name().starts_with("memcached/"));
            objects.map(|object| object.bytes()).sum()
        });
        ItemStorageStats {
            pool_bytes: pool_bytes.unwrap_or(0),
            live_bytes: self.shared.slabs.used_bytes(),
            ..ItemStorageStats::default()
        }
    }
}
