//! One line of tuples: dense entries, and a word of state by which readers notice that they were overtaken.
//!
//! ```text
//! W (words a key)  entries  keys        values (halves of words)       state
//! 1                5        words 0..5  words 5, 6, lower half of 7    upper half of 7
//! 2                3        words 0..6  word 6, lower half of 7        upper half of 7
//! 3                2        words 0..6  word 6                         upper half of 7
//! ```
//!
//! The state has two bits of use for each entry (the lowest ten bits), then a version of 21 bits, and the lock on top.
//! A value is stored inverted, so that zeroed memory holds entries of the TID `u32::MAX`: which is none.
//!
//! **Why no reader sees half an entry.** A writer (1) sets the lock by a compare-and-swap on the state, (2) fences with
//! release, (3) stores relaxed, (4) stores the state of the next version with release. A reader (a) loads the state with
//! acquire and gives up if it is locked, (b) loads relaxed, (c) fences with acquire, (d) loads the state again and gives
//! up if lock or version differ. By (4) and (a) it sees at least all of the version it loaded. If a load of (b) sees a store
//! (3) of a later writer, the fences (2) and (c) synchronise, so (1) happened before (d), which then sees that lock or
//! something later: it differs. Uses are counted by compare-and-swaps of the state, which keep a release sequence whole
//! and fail if the version is another one or locked. The version comes round after two million changes: a reader would
//! have to stand still for exactly a multiple of that many changes to its own bucket.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use zerocopy::FromZeros;

/// The word with the state in its upper half.
const STATE: usize = 7;
const STATE_SHIFT: u32 = 32;
const LOCK: u64 = 1 << 63;
/// One more version, and the bits that tell versions (and the lock) apart.
const VERSION: u64 = 1 << (STATE_SHIFT + 10);
const VERSIONS: u64 = !(VERSION - 1);
/// The most an entry's use counts.
const MOST: u64 = 3;

#[derive(Debug, FromZeros)]
#[repr(C, align(64))]
pub(super) struct Bucket([AtomicU64; 8]);

const _: () = assert!(size_of::<Bucket>() == 64);

/// How many entries of `words` words a bucket has.
pub(super) const fn entries(words: usize) -> usize {
    60 / (8 * words + 4)
}

/// Where an entry's uses are in the word of the state.
const fn uses_shift(entry: usize) -> u32 {
    STATE_SHIFT + 2 * entry as u32
}

fn uses(state: u64, entry: usize) -> u64 {
    state >> uses_shift(entry) & MOST
}

/// The word and the shift of an entry's value.
const fn value_place<const W: usize>(entry: usize) -> (usize, u32) {
    let half = 2 * entries(W) * W + entry;
    (half / 2, 32 * (half % 2) as u32)
}

impl Bucket {
    /// The value of `key`, if it is here and nobody writes.
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
        if uses(state, entry) < MOST {
            // If another thread came first, this use goes uncounted.
            let more = state + (1 << uses_shift(entry));
            let _ = self.0[STATE].compare_exchange(state, more, Relaxed, Relaxed);
        }
        Some(value)
    }

    #[inline]
    fn find<const W: usize>(&self, key: &[u64; W]) -> Option<usize> {
        (0..entries(W)).find(|entry| (0..W).all(|word| self.0[entry * W + word].load(Relaxed) == key[word]))
    }

    /// The value of an entry, `state` being the word it may share with the state.
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

    /// Whether all entries are taken, as far as one can tell without the lock.
    pub(super) fn full<const W: usize>(&self) -> bool {
        let state = self.0[STATE].load(Relaxed);
        (0..entries(W)).all(|entry| self.value::<W>(entry, state) != u32::MAX)
    }

    /// Brings in an entry: over an older value of its key, where there is none, or over one without uses, searched for
    /// from a place that chance gives; if all have uses, each loses one instead. Gives up if another thread is writing.
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

    /// What the word of the state is after the put.
    fn put_locked<const W: usize>(&self, key: &[u64; W], value: u32, chance: usize, mut state: u64) -> u64 {
        let n = entries(W);
        let free = || (0..n).find(|&entry| self.value::<W>(entry, state) == u32::MAX);
        let unused = || {
            let mut from_first = (0..n).map(|entry| (chance % n + entry) % n);
            from_first.find(|&entry| uses(state, entry) == 0)
        };
        // A key without a value may also equal what never was an entry: the first such place then is its own.
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
        state &= !(MOST << uses_shift(entry));
        // The carry of the last version would set the lock.
        (state.wrapping_add(VERSION)) & !LOCK
    }
}
