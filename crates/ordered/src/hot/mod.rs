//! [`HotIndex`]: a small cache in DRAM in front of an index on the slow tier, for point lookups of hot keys.
//!
//! The index stays the only durable structure: the cache starts empty when the index is opened and fills
//! while it is used. Scans read the index alone.
//!
//! Invariant: an operation returns what the index itself would have returned at some moment between its
//! beginning and its end. [`PairCache`] shows why for the adaptive mode. In the published mode one lock
//! serializes lookups, updates and removals.

mod batch;
mod options;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use halocline_cache::{CacheError, HotQueue, HotQueueOptions, PairCache, PairLookup, PairTimes};

pub use options::{HotIndexOptions, HotIndexStats, HotMode};

use crate::{OrderedIndex, TreeCheckReport, TreeError, TreeStats};

/// An index with a cache of its hot keys; see the module documentation.
///
/// ```
/// use std::sync::Arc;
///
/// use halocline_media::Dram;
/// use halocline_ordered::{HotIndex, HotIndexOptions, OrderedIndex, TreeKind, create_tree};
/// use halocline_pool::Pool;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::create_on(Arc::new(Dram::new(0)?))?;
/// let tree = create_tree(&pool, "numbers", TreeKind::Lb)?;
/// let index = HotIndex::new(tree, HotIndexOptions::default().with_bytes(1 << 20))?;
/// index.insert(1, 10)?;
/// assert_eq!(index.get(1)?, Some(10));
/// index.update(1, 11)?;
/// assert_eq!(index.get(1)?, Some(11));
/// assert!(index.hot_stats().bytes <= 1 << 20);
/// # Ok(())
/// # }
/// ```
pub struct HotIndex {
    index: Box<dyn OrderedIndex>,
    cache: HotCache,
}

#[expect(
    clippy::large_enum_variant,
    reason = "an index has one, and a pointer would cost each lookup a load"
)]
enum HotCache {
    Adaptive(PairCache),
    Published(Mutex<HotQueue>),
}

impl HotIndex {
    /// Puts an empty cache in front of an index.
    ///
    /// # Errors
    /// [`CacheError::BudgetTooSmall`], [`CacheError::OutOfMemory`].
    pub fn new(index: Box<dyn OrderedIndex>, options: HotIndexOptions) -> Result<HotIndex, CacheError> {
        let cache = match options.mode {
            HotMode::Adaptive => {
                let cache = PairCache::new(usize::try_from(options.bytes).unwrap_or(usize::MAX))?;
                HotCache::Adaptive(if options.always_on {
                    cache.always_on()
                } else {
                    cache
                })
            }
            HotMode::Published => {
                let least = HotQueueOptions {
                    period: options.period,
                    ..HotQueueOptions::published(2)
                };
                let sizes = least.within(options.bytes);
                if sizes.capacity == 0 {
                    return Err(CacheError::BudgetTooSmall {
                        bytes: options.bytes,
                        least: HotQueue::new(least).bytes(),
                    });
                }
                HotCache::Published(Mutex::new(HotQueue::new(sizes)))
            }
        };
        Ok(HotIndex { index, cache })
    }

    /// Returns the index behind the cache.
    pub fn index(&self) -> &dyn OrderedIndex {
        &*self.index
    }

    /// Returns statistics of the cache.
    pub fn hot_stats(&self) -> HotIndexStats {
        match &self.cache {
            HotCache::Adaptive(cache) => HotIndexStats::of_pairs(cache.stats()),
            HotCache::Published(queue) => HotIndexStats::of_queue(&locked(queue)),
        }
    }

    /// Looks a key up, and records how long that takes in the cache and in the index.
    #[cold]
    fn timed_get(&self, cache: &PairCache, hash: u64, key: u64) -> Result<Option<u64>, TreeError> {
        let mut times = PairTimes::default();
        let mut ticket = None;
        if cache.admits(hash) {
            let start = Instant::now();
            let found = cache.get_timed(hash, key);
            times.lookup = Some(start.elapsed());
            match found {
                PairLookup::Hit(value) => {
                    cache.record(times);
                    return Ok(Some(value));
                }
                PairLookup::Miss(given) => ticket = Some(given),
                PairLookup::Busy => {}
            }
        }
        let start = Instant::now();
        let value = self.index.get(key)?;
        times.search = Some(start.elapsed());
        cache.record(times);
        if let Some((value, ticket)) = value.zip(ticket) {
            cache.offer(hash, key, value, ticket);
        }
        Ok(value)
    }
}

fn locked(queue: &Mutex<HotQueue>) -> MutexGuard<'_, HotQueue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OrderedIndex for HotIndex {
    #[inline]
    fn get(&self, key: u64) -> Result<Option<u64>, TreeError> {
        match &self.cache {
            HotCache::Adaptive(cache) => {
                let hash = PairCache::hash(key);
                if cache.is_timed() {
                    return self.timed_get(cache, hash, key);
                }
                if !cache.admits(hash) {
                    return self.index.get(key);
                }
                match cache.get(hash, key) {
                    PairLookup::Hit(value) => Ok(Some(value)),
                    PairLookup::Busy => self.index.get(key),
                    PairLookup::Miss(ticket) => {
                        let value = self.index.get(key)?;
                        if let Some(value) = value {
                            cache.offer(hash, key, value, ticket);
                        }
                        Ok(value)
                    }
                }
            }
            HotCache::Published(queue) => {
                let mut queue = locked(queue);
                if let Some(value) = queue.get(key) {
                    return Ok(Some(value));
                }
                let value = self.index.get(key)?;
                if let Some(value) = value {
                    queue.offer(key, value);
                }
                Ok(value)
            }
        }
    }

    fn get_batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError> {
        match &self.cache {
            HotCache::Adaptive(cache) => batch::get(&*self.index, cache, keys, values),
            HotCache::Published(_) => {
                assert_eq!(keys.len(), values.len(), "as many values as keys");
                for (key, value) in keys.iter().zip(values) {
                    *value = self.get(*key)?;
                }
                Ok(())
            }
        }
    }

    /// Leaves the cache alone: it holds no key that the index does not have.
    fn insert(&self, key: u64, value: u64) -> Result<bool, TreeError> {
        self.index.insert(key, value)
    }

    fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        self.replace(key, value, |index| index.upsert(key, value))
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        self.replace(key, value, |index| index.update(key, value))
    }

    fn remove(&self, key: u64) -> Result<Option<u64>, TreeError> {
        match &self.cache {
            HotCache::Adaptive(cache) => {
                let _write = cache.write(PairCache::hash(key), key);
                self.index.remove(key)
            }
            HotCache::Published(queue) => {
                let mut queue = locked(queue);
                // Also after a failure, which may have changed the index.
                queue.remove(key);
                self.index.remove(key)
            }
        }
    }

    fn scan(&self, from: u64, count: usize, into: &mut Vec<(u64, u64)>) -> Result<(), TreeError> {
        self.index.scan(from, count, into)
    }

    fn scan_back(&self, from: u64, count: usize, into: &mut Vec<(u64, u64)>) -> Result<(), TreeError> {
        self.index.scan_back(from, count, into)
    }

    fn bulk_load(
        &mut self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: f64,
    ) -> Result<u64, TreeError> {
        self.index.bulk_load(entries, fill)
    }

    fn len(&self) -> u64 {
        self.index.len()
    }

    fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn check(&self) -> Result<TreeCheckReport, TreeError> {
        self.index.check()
    }

    /// Returns statistics of the index, with the cache as part of its DRAM.
    fn stats(&self) -> TreeStats {
        let mut stats = self.index.stats();
        stats.dram_bytes += self.hot_stats().bytes;
        stats
    }
}

impl HotIndex {
    /// Writes a value to the index, and to the copy of its key.
    fn replace(
        &self,
        key: u64,
        value: u64,
        write: impl FnOnce(&dyn OrderedIndex) -> Result<Option<u64>, TreeError>,
    ) -> Result<Option<u64>, TreeError> {
        match &self.cache {
            HotCache::Adaptive(cache) => {
                let marked = cache.write(PairCache::hash(key), key);
                let before = write(&*self.index)?;
                if before.is_some() {
                    marked.replace(value);
                }
                Ok(before)
            }
            HotCache::Published(queue) => {
                let mut queue = locked(queue);
                // A failed write may have changed the index: no copy may outlive it.
                let before = write(&*self.index).inspect_err(|_| queue.remove(key))?;
                queue.update(key, value);
                Ok(before)
            }
        }
    }
}
