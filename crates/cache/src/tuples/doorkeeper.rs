//! The doorkeeper: a compact history of keys that missed recently. Each word holds seven fingerprints
//! of 9 bits and serves eight entries of the cache.
//!
//! A key whose fingerprint is present has missed twice within a short time. This separates warm from cold
//! keys by the square of their frequencies, and keeps the residents of a bucket long enough for their few use
//! bits to separate the rest. Only one miss in two is recorded. The history then covers twice the time, and
//! the other misses only read. Threads that write to the same word at the same time lose fingerprints, which
//! does no harm.

use crate::CacheError;
use crate::draw;
use crate::hash_index::scale;
use crate::zeroed_array::ZeroedArray;
use halocline_media::prefetch_value;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const LANE_BITS: u32 = 9;
const LANES: u32 = 7;
const LANE: u64 = (1 << LANE_BITS) - 1;
/// Number of cache entries per word, which costs one byte per entry.
const ENTRIES_PER_WORD: usize = 8;
const SAMPLE: u64 = 2;

#[derive(Debug)]
pub(super) struct Doorkeeper {
    words: ZeroedArray<AtomicU64>,
}

impl Doorkeeper {
    pub(super) fn bytes_for(entries: usize) -> usize {
        ZeroedArray::<AtomicU64>::bytes_for(entries.div_ceil(ENTRIES_PER_WORD))
    }

    pub(super) fn new(entries: usize) -> Result<Self, CacheError> {
        let words = ZeroedArray::zeroed(entries.div_ceil(ENTRIES_PER_WORD))?;
        Ok(Self { words })
    }

    #[inline]
    fn word(&self, hash: u64) -> &AtomicU64 {
        &self.words[scale(hash, self.words.len())]
    }

    /// Prefetches the word that [`again`](Self::again) reads.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch_value(self.word(hash));
    }

    /// Returns true and removes the key if it is present. Otherwise inserts it with probability 1/2.
    pub(super) fn again(&self, hash: u64) -> bool {
        // The upper bits of the hash select the word, so the lower ones are the fingerprint. 0 means an empty
        // lane.
        let word = self.word(hash);
        let fingerprint = (hash & LANE).max(1);
        let notes = word.load(Relaxed);
        for lane in 0..LANES {
            let shift = lane * LANE_BITS;
            if notes >> shift & LANE == fingerprint {
                let newer = notes & ((1 << shift) - 1);
                let older = notes >> (shift + LANE_BITS) << shift;
                word.store(newer | older, Relaxed);
                return true;
            }
        }
        if draw::next().is_multiple_of(SAMPLE) {
            let kept = notes << LANE_BITS & ((1 << (LANES * LANE_BITS)) - 1);
            word.store(kept | fingerprint, Relaxed);
        }
        false
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.bytes()
    }
}
