//! How many entries there are, counted by many threads without getting in each other's way.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::locks::Locks;

const SHARDS: usize = 64;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(AtomicI64);

/// A counter in parts, one for some of the leaves each.
#[derive(Debug)]
pub(crate) struct Count(Box<[Shard]>);

impl Count {
    pub(crate) fn new(start: u64) -> Count {
        let count = Count((0..SHARDS).map(|_| Shard::default()).collect());
        count.add(0, start as i64);
        count
    }

    #[inline]
    pub(crate) fn add(&self, leaf: u32, change: i64) {
        self.0[Locks::stripe(leaf) % SHARDS]
            .0
            .fetch_add(change, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        let sum: i64 = self.0.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum();
        sum.max(0) as u64
    }
}
