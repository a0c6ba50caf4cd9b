//! When items were last used, and whether they ever were: what `mg` with `h` and `l`, and `me` return.
//!
//! A table in DRAM of fixed size, so it forgets items whose place another one has taken, and everything with
//! the server. Such an item counts as never used.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use xxhash_rust::xxh3::xxh3_64;

/// Number of places, of 8 bytes each.
const PLACES: usize = 1 << 17;
/// A place has a tag of the key (upper 31 bits), whether it was hit (1 bit), and seconds since 1970 (32
/// bits).
const HIT: u64 = 1 << 32;
const TAG: u64 = !(2 * HIT - 1);

/// The use of an item, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Access {
    /// It was hit since it was stored.
    pub(crate) was_hit: bool,
    /// Seconds since it was last used or stored.
    pub(crate) idle_seconds: u64,
}

#[derive(Debug)]
pub(super) struct AccessTable(Box<[AtomicU64]>);

impl AccessTable {
    pub(super) fn new() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }

    fn place(&self, key: &[u8]) -> (&AtomicU64, u64) {
        let hash = xxh3_64(key);
        (&self.0[hash as usize % PLACES], hash & TAG)
    }

    /// Returns what is known of an item at a time in milliseconds.
    pub(super) fn get(&self, key: &[u8], now: u64) -> Access {
        let (place, tag) = self.place(key);
        let found = place.load(Relaxed);
        if found & TAG != tag || found == 0 {
            return Access::default();
        }
        Access {
            was_hit: found & HIT != 0,
            idle_seconds: (now / 1000).saturating_sub(found & (HIT - 1)),
        }
    }

    fn set(&self, key: &[u8], now: u64, hit: u64) {
        let (place, tag) = self.place(key);
        place.store(tag | hit | ((now / 1000) & (HIT - 1)), Relaxed);
    }

    /// Notes a hit.
    pub(super) fn hit(&self, key: &[u8], now: u64) {
        self.set(key, now, HIT);
    }

    /// Notes that an item was stored.
    pub(super) fn stored(&self, key: &[u8], now: u64) {
        self.set(key, now, 0);
    }

    pub(super) fn forget(&self, key: &[u8]) {
        let (place, tag) = self.place(key);
        if place.load(Relaxed) & TAG == tag {
            place.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_remembered_until_an_item_is_removed() {
        let table = AccessTable::new();
        table.stored(b"k", 5_000);
        let stored = Access {
            was_hit: false,
            idle_seconds: 2,
        };
        assert_eq!(table.get(b"k", 7_900), stored);
        table.hit(b"k", 8_000);
        assert!(table.get(b"k", 8_000).was_hit);
        table.forget(b"k");
        assert_eq!(table.get(b"k", 9_000), Access::default());
    }
}
