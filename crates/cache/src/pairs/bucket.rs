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
//! [`tuples`](crate::tuples), whose header shows why no half-written pair is seen.
//!
//! Every use of the lock changes the version, so that an unchanged version means that no pair of the bucket
//! was written. A reader would have to be suspended for exactly a multiple of 2^57 writes to take one state
//! for another.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::{hint, thread};
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

/// Attempts to lock a bucket before other threads get the processor.
const SPINS: u32 = 64;

/// The version of a bucket that was not locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketVersion(u64);

/// The result of a lookup in a bucket.
pub(super) enum Found {
    Value(u64),
    Absent(BucketVersion),
    /// A write is in progress.
    Busy,
}

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

    /// Looks `key` up.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Found {
        let state = self.0[STATE].load(Acquire);
        if state & LOCK != 0 {
            return Found::Busy;
        }
        let Some(pair) = self.find(state, key) else {
            return Found::Absent(BucketVersion(state & VERSIONS));
        };
        let value = self.0[VALUES + pair].load(Relaxed);
        fence(Acquire);
        if (self.0[STATE].load(Relaxed) ^ state) & VERSIONS != 0 {
            return Found::Busy;
        }
        if state & used(pair) == 0 {
            // If another thread has changed the state, this use is not noted.
            let _ = self.0[STATE].compare_exchange(state, state | used(pair), Relaxed, Relaxed);
        }
        Found::Value(value)
    }

    /// Locks the bucket if it is not locked and its state fulfils a condition.
    fn try_lock(&self, condition: impl FnOnce(u64) -> bool) -> Option<LockedBucket<'_>> {
        let state = self.0[STATE].load(Relaxed);
        if state & LOCK != 0 || !condition(state) {
            return None;
        }
        let locked = self.0[STATE].compare_exchange(state, state | LOCK, Acquire, Relaxed);
        locked.ok().map(|state| {
            fence(Release);
            LockedBucket { bucket: self, state }
        })
    }

    /// Locks the bucket. Waits while another thread has it locked.
    #[inline]
    pub(super) fn lock(&self) -> LockedBucket<'_> {
        let mut spins = 0;
        loop {
            if let Some(locked) = self.try_lock(|_| true) {
                return locked;
            }
            spins += 1;
            match spins {
                ..SPINS => hint::spin_loop(),
                _ => thread::yield_now(),
            }
        }
    }

    /// Offers a pair whose key was absent at a version. It is stored if there is a pair without use, or if
    /// the key was offered before. Does nothing if the bucket has changed since, or is locked.
    pub(super) fn offer(&self, key: u64, value: u64, hash: u64, chance: usize, absent: BucketVersion) {
        // A key that finds no place is only noted, without the lock: losing a note to another thread does no
        // harm.
        if self.0[STATE].load(Relaxed) & USES == USES && !self.was_offered(hash) {
            return;
        }
        if let Some(mut locked) = self.try_lock(|state| state & VERSIONS == absent.0) {
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

    /// Returns the number of pairs.
    pub(super) fn len(&self) -> usize {
        let state = self.0[STATE].load(Relaxed);
        (0..PAIRS).filter(|pair| is_present(state, *pair)).count()
    }
}

/// The lock of a bucket, with the state that is stored when it is dropped.
#[derive(Debug)]
pub(super) struct LockedBucket<'a> {
    bucket: &'a PairBucket,
    state: u64,
}

impl LockedBucket<'_> {
    /// Stores a pair whose key is absent in a free place, over a pair without use, or over any and clears all
    /// use bits.
    fn store(&mut self, key: u64, value: u64, chance: usize) {
        let state = self.state;
        let free = (0..PAIRS).find(|pair| !is_present(state, *pair));
        let pair = free.or_else(|| unused(state, chance)).unwrap_or_else(|| {
            self.state &= !USES;
            chance % PAIRS
        });
        self.bucket.0[pair].store(key, Relaxed);
        self.bucket.0[VALUES + pair].store(value, Relaxed);
        self.state = self.state & !used(pair) | present(pair);
    }

    /// Gives the pair of a key another value, or removes it. Does nothing if the key is absent.
    #[inline]
    pub(super) fn replace(&mut self, key: u64, value: Option<u64>) {
        let Some(pair) = self.bucket.find(self.state, key) else {
            return;
        };
        match value {
            Some(value) => self.bucket.0[VALUES + pair].store(value, Relaxed),
            None => self.state &= !(present(pair) | used(pair)),
        }
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

    fn get(bucket: &PairBucket, key: u64) -> Option<u64> {
        match bucket.get(key) {
            Found::Value(value) => Some(value),
            Found::Absent(_) => None,
            Found::Busy => panic!("nobody writes"),
        }
    }

    fn offer(bucket: &PairBucket, key: u64, value: u64, hash: u64) {
        let Found::Absent(version) = bucket.get(key) else {
            panic!("the key is absent")
        };
        bucket.offer(key, value, hash, 0, version);
    }

    #[test]
    fn pairs_are_found_replaced_and_removed() {
        let bucket = bucket();
        assert_eq!(get(&bucket, 0), None);
        for key in 0..3 {
            offer(&bucket, key, key + 10, key);
        }
        assert_eq!((get(&bucket, 0), get(&bucket, 2)), (Some(10), Some(12)));
        bucket.lock().replace(2, Some(20));
        assert_eq!(get(&bucket, 2), Some(20));
        bucket.lock().replace(0, None);
        assert_eq!((get(&bucket, 0), bucket.len()), (None, 2));
        bucket.lock().replace(7, Some(70));
        assert_eq!(get(&bucket, 7), None);
    }

    #[test]
    fn a_value_read_before_a_write_is_not_stored() {
        let bucket = bucket();
        let Found::Absent(before) = bucket.get(1) else {
            panic!("the bucket is empty")
        };
        let locked = bucket.lock();
        assert!(matches!(bucket.get(1), Found::Busy));
        bucket.offer(1, 10, 1, 0, before);
        drop(locked);
        bucket.offer(1, 10, 1, 0, before);
        assert_eq!(get(&bucket, 1), None);
        offer(&bucket, 1, 11, 1);
        assert_eq!(get(&bucket, 1), Some(11));
    }

    #[test]
    fn a_pair_without_use_makes_room() {
        let bucket = bucket();
        for key in 0..3 {
            offer(&bucket, key, key, key);
        }
        assert_eq!((get(&bucket, 0), get(&bucket, 2)), (Some(0), Some(2)));
        offer(&bucket, 5, 5, 5);
        assert_eq!(get(&bucket, 5), Some(5));
        assert_eq!((get(&bucket, 1), bucket.len()), (None, 3));
    }

    #[test]
    fn a_bucket_in_use_takes_keys_that_come_again() {
        let bucket = bucket();
        for key in 0..3 {
            offer(&bucket, key, key, key);
            get(&bucket, key);
        }
        offer(&bucket, 5, 5, 5 << 3 | 1);
        assert_eq!(get(&bucket, 5), None);
        offer(&bucket, 5, 5, 5 << 3 | 1);
        assert_eq!(get(&bucket, 5), Some(5));
        assert_eq!(bucket.len(), 3);
        // The others have lost their use bits.
        offer(&bucket, 6, 6, 6 << 3 | 1);
        assert_eq!(get(&bucket, 6), Some(6));
    }
}
