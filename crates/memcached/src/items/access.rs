//! When items were last used, and whether they ever were: what `mg` with `h` and `l`, and `me` return.
//!
//! A table in DRAM of fixed size, so it forgets items whose place another one has taken, and everything with
//! the server. Such an item counts as never used.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use xxhash_rust::xxh3::xxh3_64;

/// Number of places, of 8 bytes each.
const PLACES: usize = 1 << 17;
/// A place has a tag of the key (upper 24 bits), the number of the flush before its last use (7 bits),
/// whether it was hit (1 bit), and seconds since 1970 (32 bits).
const HIT: u64 = 1 << 32;
const FLUSH: u64 = 1 << 33;
const FLUSHES: u64 = 1 << 7;
const TAG: u64 = !(FLUSHES * FLUSH - 1);

/// The use of an item, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Access {
    /// It was hit since it was stored.
    pub(crate) was_hit: bool,
    /// Seconds since it was last used or stored.
    pub(crate) idle_seconds: u64,
}

#[derive(Debug)]
pub(super) struct AccessTable {
    places: Box<[AtomicU64]>,
    flushes: AtomicU64,
}

impl AccessTable {
    pub(super) fn new() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            flushes: AtomicU64::new(0),
        }
    }

    fn place(&self, key: &[u8]) -> (&AtomicU64, u64) {
        let hash = xxh3_64(key);
        (&self.places[hash as usize % PLACES], hash & TAG)
    }

    /// Returns the bits of uses since the last flush.
    fn flush(&self) -> u64 {
        self.flushes.load(Relaxed) % FLUSHES * FLUSH
    }

    /// Returns the use of an item since the last flush, or 0.
    fn present(&self, key: &[u8]) -> u64 {
        let (place, tag) = self.place(key);
        let found = place.load(Relaxed);
        if found & !(FLUSH - 1) == tag | self.flush() {
            found
        } else {
            0
        }
    }

    /// Notes that all items were removed.
    pub(super) fn flushed(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Returns true if an item was removed by a flush, and forgets it.
    pub(super) fn take_flushed(&self, key: &[u8]) -> bool {
        if self.flushes.load(Relaxed) == 0 {
            return false;
        }
        let (place, tag) = self.place(key);
        let found = place.load(Relaxed);
        let is_known = found != 0 && found & TAG == tag;
        let is_flushed = is_known && found & !TAG & !(FLUSH - 1) != self.flush();
        is_flushed && place.compare_exchange(found, 0, Relaxed, Relaxed).is_ok()
    }

    /// Returns what is known of an item at a time in milliseconds.
    pub(super) fn get(&self, key: &[u8], now: u64) -> Access {
        let found = self.present(key);
        if found == 0 {
            return Access::default();
        }
        Access {
            was_hit: found & HIT != 0,
            idle_seconds: (now / 1000).saturating_sub(found & (HIT - 1)),
        }
    }

    fn set(&self, key: &[u8], now: u64, hit: u64) {
        let (place, tag) = self.place(key);
        place.store(tag | self.flush() | hit | ((now / 1000) & (HIT - 1)), Relaxed);
    }

    /// Notes a hit.
    pub(super) fn hit(&self, key: &[u8], now: u64) {
        self.set(key, now, HIT);
    }

    /// Notes that an item was used in another way.
    pub(super) fn renew(&self, key: &[u8], now: u64) {
        self.set(key, now, self.present(key) & HIT);
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
        table.renew(b"k", 9_000);
        assert_eq!(
            (
                table.get(b"k", 9_000).was_hit,
                table.get(b"k", 9_000).idle_seconds
            ),
            (true, 0)
        );
        table.forget(b"k");
        assert_eq!(table.get(b"k", 9_000), Access::default());
        table.renew(b"k", 9_000);
        assert!(!table.get(b"k", 9_000).was_hit);
    }

    #[test]
    fn items_that_a_flush_has_removed_are_known_once() {
        let table = AccessTable::new();
        table.stored(b"a", 5_000);
        table.hit(b"b", 5_000);
        assert!(!table.take_flushed(b"a"));
        table.flushed();
        table.stored(b"b", 6_000);
        assert!(table.take_flushed(b"a") && !table.take_flushed(b"a"));
        assert!(!table.take_flushed(b"b") && !table.take_flushed(b"c"));
    }
}
