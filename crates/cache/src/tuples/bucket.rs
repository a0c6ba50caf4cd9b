//! A bucket of tuples in one cache line: dense entries, and a state word by which readers detect concurrent
//! writes.
//!
//! ```text
//! W (words a key)  entries  keys        values (halves of words)       state
//! 1                5        words 0..5  words 5, 6, lower half of 7    upper half of 7
//! 2                3        words 0..6  word 6, lower half of 7        upper half of 7
//! 3                2        words 0..6  word 6                         upper half of 7
//! ```
//!
//! The state has two use bits for each entry (the lowest ten bits), then a version of 21 bits, and the lock
//! bit on top. Values are stored inverted, so that zeroed memory holds the TID `u32::MAX`, which is never
//! used.
//!
//! **Why no reader sees half an entry.** A writer (1) sets the lock by a compare-and-swap on the state, (2)
//! executes a release fence, (3) makes relaxed stores, (4) stores the state of the next version with release
//! ordering. A reader (a) loads the state with acquire ordering and gives up if it is locked, (b) makes
//! relaxed loads, (c) executes an acquire fence, (d) loads the state again and gives up if lock or version
//! differ. By (4) and (a) it sees at least all of the version it loaded. If a load of (b) sees a store (3) of
//! a later writer, the fences (2) and (c) synchronize, so (1) happened before (d), which then sees that lock
//! or something later and differs. Uses are counted by compare-and-swaps of the state, which do not break a
//! release sequence and fail if the version has changed or is locked. The version wraps around after two
//! million changes: a reader would have to be suspended for exactly a multiple of that many changes to its
//! own bucket.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use zerocopy::FromZeros;

/// Index of the word with the state in its upper half.
const STATE: usize = 7;
const STATE_SHIFT: u32 = 32;
const LOCK: u64 = 1 << 63;
/// Increment of the version, and mask of version and lock.
const VERSION: u64 = 1 << (STATE_SHIFT + 10);
const VERSIONS: u64 = !(VERSION - 1);
/// Maximum of an entry's use count.
const MAX_USES: u64 = 3;

#[derive(Debug, FromZeros)]
#[repr(C, align(64))]
pub(super) struct Bucket([AtomicU64; 8]);

const _: () = assert!(size_of::<Bucket>() == 64);

/// Returns the number of entries of `words` words in a bucket.
pub(super) const fn entries(words: usize) -> usize {
    60 / (8 * words + 4)
}

/// Returns the shift of an entry's use count in the state word.
const fn uses_shift(entry: usize) -> u32 {
    STATE_SHIFT + 2 * entry as u32
}

fn uses(state: u64, entry: usize) -> u64 {
    state >> uses_shift(entry) & MAX_USES
}

/// Returns the word and the shift of an entry's value.
const fn value_place<const W: usize>(entry: usize) -> (usize, u32) {
    let half = 2 * entries(W) * W + entry;
    (half / 2, 32 * (half % 2) as u32)
}

impl Bucket {
    /// Returns the value of `key`, or `None` if it is absent or a write is in progress.
    #[inline]
    pub(super) fn get<const W: usize>(&self, key: &[u64; W]) -> Option<u32> {
        let state = self.0[STATE].load(Acquire);
        if state & LOCK != 0 {
            return None;
        }
        let entry = self.find(key)?;
        let value = self.value::<W>(entry, state);
        fence(Acquire);
        if (self.0[STATE].load(Relaxed) ^ state) & VERSIONS != 0 || value == u32::MAX {
            return None;
        }
        if uses(state, entry) < MAX_USES {
            // If another thread has changed the state, this use is not counted.
            let more = state + (1 << uses_shift(entry));
            let _ = self.0[STATE].compare_exchange(state, more, Relaxed, Relaxed);
        }
        Some(value)
    }

    #[inline]
    fn find<const W: usize>(&self, key: &[u64; W]) -> Option<usize> {
        (0..entries(W)).find(|entry| (0..W).all(|word| self.0[entry * W + word].load(Relaxed) == key[word]))
    }

    /// Returns the value of an entry. `state` is the word that some values share with the state.
    #[inline]
    fn value<const W: usize>(&self, entry: usize, state: u64) -> u32 {
        let (word, shift) = value_place::<W>(entry);
        let word = if word == STATE {
            state
        } else {
            self.0[word].load(Relaxed)
        };
        !((word >> shift) as u32)
    }

    /// Returns true if all entries are in use, as far as can be determined without the lock.
    pub(super) fn full<const W: usize>(&self) -> bool {
        let state = self.0[STATE].load(Relaxed);
        (0..entries(W)).all(|entry| self.value::<W>(entry, state) != u32::MAX)
    }

    /// Stores an entry: over an older value of its key, in a free entry, or over one with no uses, searched
    /// from a random position. If all entries have uses, each loses one instead. Does nothing if another
    /// thread is writing.
    pub(super) fn put<const W: usize>(&self, key: &[u64; W], value: u32, chance: usize) {
        let state = self.0[STATE].load(Relaxed);
        let locked = state | LOCK;
        if state & LOCK != 0
            || self.0[STATE]
                .compare_exchange(state, locked, Acquire, Relaxed)
                .is_err()
        {
            return;
        }
        fence(Release);
        let after = self.put_locked(key, value, chance, state);
        self.0[STATE].store(after, Release);
    }

    /// Stores an entry under the lock and returns the new state word.
    fn put_locked<const W: usize>(&self, key: &[u64; W], value: u32, chance: usize, mut state: u64) -> u64 {
        let n = entries(W);
        let free = || (0..n).find(|&entry| self.value::<W>(entry, state) == u32::MAX);
        let unused = || {
            let mut from_first = (0..n).map(|entry| (chance % n + entry) % n);
            from_first.find(|&entry| uses(state, entry) == 0)
        };
        // A key without a value may equal the zeroed key of a free entry, which is then used for it.
        let Some(entry) = self.find(key).or_else(free).or_else(unused) else {
            for entry in 0..n {
                state -= 1 << uses_shift(entry);
            }
            return state;
        };
        for (word, &part) in key.iter().enumerate() {
            self.0[entry * W + word].store(part, Relaxed);
        }
        let (word, shift) = value_place::<W>(entry);
        let with_value = |old: u64| old & !(0xffff_ffff << shift) | u64::from(!value) << shift;
        if word == STATE {
            state = with_value(state);
        } else {
            self.0[word].store(with_value(self.0[word].load(Relaxed)), Relaxed);
        }
        state &= !(MAX_USES << uses_shift(entry));
        // The carry of the highest version would set the lock bit.
        (state.wrapping_add(VERSION)) & !LOCK
    }
}
