//! Hot items: copies in DRAM that answer lookups without the storage.
//!
//! Lookups that change nothing use the copies; a lookup after which an item is to change reads the storage.
//! Whoever changes an item in the storage holds an [`ItemWrite`] of it from before the change until after it,
//! so that no lookup returns an item that was replaced before it began. The cache turns itself off where it
//! does not pay, see [`ItemCache`].

use std::sync::Arc;
use std::time::Instant;

use halocline_cache::{ItemCache, ItemLookup, ItemWrite, PairTimes};
use xxhash_rust::xxh3::xxh3_64;

use super::Items;
use crate::error::Result;
use crate::expiry::has_passed;
use crate::fault::{MemcachedFault, injected};
use crate::item::Item;
use crate::storage::ItemGeneration;

/// The copies of a server's items.
pub(crate) type HotItems = ItemCache<Item>;

/// An item that was looked up.
pub(super) struct LoadedItem {
    pub(super) item: Arc<Item>,
    /// A copy in DRAM has answered.
    pub(super) is_copy: bool,
}

impl Items {
    /// Returns the item of a key, from its copy if there is one.
    pub(super) fn load_hot(&self, generation: &dyn ItemGeneration, key: &[u8]) -> Result<Option<LoadedItem>> {
        let stored = |item: Item| LoadedItem {
            item: Arc::new(item),
            is_copy: false,
        };
        let Some(hot) = &self.hot else {
            return Ok(self.load(generation, key)?.map(stored));
        };
        let hash = xxh3_64(key);
        let is_timed = hot.is_timed();
        if !is_timed && !hot.admits(hash) {
            return Ok(self.load(generation, key)?.map(stored));
        }
        let mut times = PairTimes::default();
        let mut ticket = None;
        if hot.admits(hash) {
            let start = is_timed.then(Instant::now);
            let found = if is_timed {
                hot.get_timed(hash, key)
            } else {
                hot.get(hash, key)
            };
            times.lookup = start.map(|start| start.elapsed());
            match found {
                ItemLookup::Hit(item) => {
                    if is_timed {
                        hot.record(times);
                    }
                    if has_passed(item.expires, self.now()) {
                        self.counters.get_expired.add(1);
                        return Ok(None);
                    }
                    return Ok(Some(LoadedItem { item, is_copy: true }));
                }
                ItemLookup::Miss(given) => ticket = Some(given),
                ItemLookup::Busy => {}
            }
        }
        let start = is_timed.then(Instant::now);
        let found = self.load(generation, key)?.map(stored);
        if let Some(start) = start {
            times.search = Some(start.elapsed());
            hot.record(times);
        }
        if let Some((found, ticket)) = found.as_ref().zip(ticket) {
            hot.offer(hash, key, &found.item, found.item.bytes(), ticket);
        }
        Ok(found)
    }

    /// Begins the change of an item in the storage.
    pub(super) fn begin_change<'a>(&'a self, key: &'a [u8]) -> Option<ItemWrite<'a, Item>> {
        let hot = self.hot.as_ref().filter(|_| !injected(MemcachedFault::StaleCopy));
        hot.map(|hot| hot.write(xxh3_64(key), key))
    }

    /// Ends the change of an item that was stored: its copy is replaced, if there is one.
    pub(super) fn end_change(change: Option<ItemWrite<'_, Item>>, item: &Arc<Item>) {
        if let Some(change) = change {
            change.replace(|| (Arc::clone(item), item.bytes()));
        }
    }
}
