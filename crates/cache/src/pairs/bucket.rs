//! A bucket of three pairs in one cache line, with the history of keys that were offered to it.
//!
//! ```text
//! word 0..3  keys
//! word 3..6  values
//! word 6     history: four fingerprints of 16 bits, newest lowest; 0 is an empty lane
//! word 7     state: use bits (lowest 3 bits), present bits (3), version (57), lock (top bit)
//! ```
//!
//! A lookup sets the use bit of the pair that it finds. A new pair takes the place of one whose use bit is
//! clear. If all are set, it must have been offered before, within the history; then it takes any place and
//! clears the use bits of the others. So a key that is looked up twice within a short time enters at once and
//! stays as long as it is used more often than others that come: the bucket follows hot keys that move, and
//! keys that come once pass by. (Counts of several uses protect former hot keys for too long:
//! `benches/hot_pairs.rs` compares hit rates.)
//!
//! Readers do not lock: they load the state, then key and value, and load the state again, as in
//! [`tuples`](crate::tuples), whose header shows why no half-written pair is seen. Pairs never move within a
//! bucket, so a thread that finds a key absent without the lock can rely on it as long as nobody may insert
//! that key.
//!
//! The state is loaded and locked with sequentially consistent operations, because the [protocol](super) of
//! writers orders them with those of another word.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use zerocopy::FromZeros;

/// Number of pairs in a bucket.
pub(super) const PAIRS: usize = 3;

const VALUES: usize = PAIRS;
const HISTORY: usize = 6;
const STATE: usize = 7;

/// The use bits of all pairs.
const USES: u64 = (1 << PAIRS) - 1;
const PRESENT_SHIFT: u32 = PAIRS as u32;
const VERSION: u64 = 1 << (PRESENT_SHIFT + PAIRS as u32);
const LOCK: u64 = 1 << 63;
/// Mask of version and lock.
const VERSIONS: u64 = !(VERSION - 1);

const LANE_BITS: u32 = 16;
const LANES: u32 = 4;
const LANE: u64 = (1 << LANE_BITS) - 1;

#[derive(Debug, FromZeros)]
#[repr(C, align(64))]
pub(super) struct PairBucket([AtomicU64; 8]);

const _: () = assert!(size_of::<PairBucket>() == 64);

fn is_present(state: u64, pair: usize) -> bool {
    state >> (PRESENT_SHIFT as usize + pair) & 1 == 1
}

fn present(pair: usize) -> u64 {
    1 << (PRESENT_SHIFT as usize + pair)
}

fn used(pair: usize) -> u64 {
    1 << pair
}

/// Returns a pair without use, searched from a random one.
fn unused(state: u64, chance: usize) -> Option<usize> {
    (0..PAIRS)
        .map(|pair| (chance % PAIRS + pair) % PAIRS)
        .find(|pair| state & used(*pair) == 0)
}

impl PairBucket {
    #[inline]
    fn find(&self, state: u64, key: u64) -> Option<usize> {
        (0..PAIRS).find(|pair| self.0[*pair].load(Relaxed) == key && is_present(state, *pair))
    }

    /// Returns the value of `key`, or `None` if it is absent or a write is in progress.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        let state = self.0[STATE].load(Acquire);
        let pair = self.find(state, key)?;
        let value = self.0[VALUES + pair].load(Relaxed);
        fence(Acquire);
        if state & LOCK != 0 || (self.0[STATE].load(Relaxed) ^ state) & VERSIONS != 0 {
            return None;
        }
        if state & used(pair) == 0 {
            // If another thread has changed the state, this use is not noted.
            let _ = self.0[STATE].compare_exchange(state, state | used(pair), Relaxed, Relaxed);
        }
        Some(value)
    }

    /// Locks the bucket if it is not locked.
    fn try_lock(&self) -> Option<LockedBucket<'_>> {
        let state = self.0[STATE].load(Relaxed);
        if state & LOCK != 0 {
            return None;
        }
        let locked = self.0[STATE].compare_exchange(state, state | LOCK, SeqCst, Relaxed);
        locked.ok().map(|state| {
            fence(Release);
            LockedBucket { bucket: self, state }
        })
    }

    /// Offers a pair whose key is absent from the cache. It is stored if there is a pair without use, or if
    /// the key was offered before. `is_current` is called under the lock and must return true if the
    /// value still is that of the key. Does nothing if another thread holds the lock.
    pub(super) fn offer(
        &self,
        key: u64,
        value: u64,
        hash: u64,
        chance: usize,
        is_current: impl FnOnce() -> bool,
    ) {
        // A key that finds no place is only noted, without the lock: losing a note to another thread does no
        // harm.
        if self.0[STATE].load(Relaxed) & USES == USES && !self.was_offered(hash) {
            return;
        }
        if let Some(mut locked) = self.try_lock()
            && is_current()
        {
            locked.store(key, value, chance);
        }
    }

    /// Returns true and forgets the offer if the history has the key; else adds it.
    fn was_offered(&self, hash: u64) -> bool {
        // The upper bits of the hash select the bucket.
        let fingerprint = (hash & LANE).max(1);
        let history = self.0[HISTORY].load(Relaxed);
        for lane in 0..LANES {
            let shift = lane * LANE_BITS;
            if history >> shift & LANE == fingerprint {
                let newer = history & ((1 << shift) - 1);
                let older = history.checked_shr(shift + LANE_BITS).unwrap_or(0);
                self.0[HISTORY].store(newer | older << shift, Relaxed);
                return true;
            }
        }
        self.0[HISTORY].store(history << LANE_BITS | fingerprint, Relaxed);
        false
    }

    /// Replaces the value of `key`, or removes the pair if there is no new value. `new` is called under the
    /// lock, and only if the key may be present.
    pub(super) fn replace(&self, key: u64, new: impl FnOnce() -> Option<u64>) {
        let state = self.0[STATE].load(SeqCst);
        if state & LOCK == 0 && self.find(state, key).is_none() {
            return;
        }
        let mut locked = loop {
            match self.try_lock() {
                Some(locked) => break locked,
                None => std::hint::spin_loop(),
            }
        };
        if let Some(pair) = self.find(locked.state, key) {
            match new() {
                Some(value) => self.0[VALUES + pair].store(value, Relaxed),
                None => locked.state &= !(present(pair) | used(pair)),
            }
        }
    }

    /// Returns the number of pairs.
    pub(super) fn len(&self) -> usize {
        let state = self.0[STATE].load(Relaxed);
        (0..PAIRS).filter(|pair| is_present(state, *pair)).count()
    }
}

/// The lock of a bucket, with the state that is stored when it is dropped.
struct LockedBucket<'a> {
    bucket: &'a PairBucket,
    state: u64,
}

impl LockedBucket<'_> {
    /// Stores a pair over an older value of its key, in a free place, over a pair without use, or over any
    /// and clears all use bits.
    fn store(&mut self, key: u64, value: u64, chance: usize) {
        let state = self.state;
        let free = || (0..PAIRS).find(|pair| !is_present(state, *pair));
        let room = self
            .bucket
            .find(state, key)
            .or_else(free)
            .or_else(|| unused(state, chance));
        let pair = room.unwrap_or_else(|| {
            self.state &= !USES;
            chance % PAIRS
        });
        self.bucket.0[pair].store(key, Relaxed);
        self.bucket.0[VALUES + pair].store(value, Relaxed);
        self.state = self.state & !used(pair) | present(pair);
    }
}

impl Drop for LockedBucket<'_> {
    fn drop(&mut self) {
        // The carry of the highest version would set the lock bit.
        let after = self.state.wrapping_add(VERSION) & !LOCK;
        self.bucket.0[STATE].store(after, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> PairBucket {
        PairBucket::new_zeroed()
    }

    #[test]
    fn pairs_are_found_replaced_and_removed() {
        let bucket = bucket();
        assert_eq!(bucket.get(0), None);
        for key in 0..3 {
            bucket.offer(key, key + 10, key, 0, || true);
        }
        assert_eq!(bucket.get(0), Some(10));
        assert_eq!(bucket.get(2), Some(12));
        bucket.replace(2, || Some(20));
        assert_eq!(bucket.get(2), Some(20));
        bucket.replace(0, || None);
        assert_eq!(bucket.get(0), None);
        assert_eq!(bucket.len(), 2);
        bucket.replace(7, || unreachable!("the key is absent"));
    }

    #[test]
    fn values_that_are_not_current_are_not_stored() {
        let bucket = bucket();
        bucket.offer(1, 1, 1, 0, || false);
        assert_eq!(bucket.get(1), None);
    }

    #[test]
    fn a_pair_without_use_makes_room() {
        let bucket = bucket();
        for key in 0..3 {
            bucket.offer(key, key, key, 0, || true);
        }
        assert_eq!((bucket.get(0), bucket.get(2)), (Some(0), Some(2)));
        bucket.offer(5, 5, 5, 0, || true);
        assert_eq!(bucket.get(5), Some(5));
        assert_eq!((bucket.get(1), bucket.len()), (None, 3));
    }

    #[test]
    fn a_bucket_in_use_takes_keys_that_come_again() {
        let bucket = bucket();
        for key in 0..3 {
            bucket.offer(key, key, key, 0, || true);
            bucket.get(key);
        }
        let offer = |key: u64| bucket.offer(key, key, key << 3 | 1, 0, || true);
        offer(5);
        assert_eq!(bucket.get(5), None);
        offer(5);
        assert_eq!(bucket.get(5), Some(5));
        assert_eq!(bucket.len(), 3);
        // The others have lost their use bits.
        offer(6);
        assert_eq!(bucket.get(6), Some(6));
    }
}
