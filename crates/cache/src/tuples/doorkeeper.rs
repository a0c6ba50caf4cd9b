//! Which keys missed lately: fingerprints of 9 bits, the last seven for each eight entries of the cache, in a word.
//!
//! A key that is seen again while its fingerprint is here has been asked for twice in a short while. That alone tells
//! warm from cold keys by the square of how often they are asked for, and keeps a bucket's residents long enough that
//! their few bits of use tell the rest. One miss in two is noted: the notes then last twice as long, and the
//! others only read. Threads that write to one word at the same time lose notes, no more.

use super::memory::ZeroedArray;
use crate::CacheError;
use crate::draw;
use crate::hash_index::scale;
use halocline_media::prefetch_value;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const LANE_BITS: u32 = 9;
const LANES: u32 = 7;
const LANE: u64 = (1 << LANE_BITS) - 1;
/// Entries of the cache for a word here: a byte each.
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

    /// Asks the CPU to fetch what [`again`](Self::again) reads.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch_value(self.word(hash));
    }

    /// Whether the key was noted before, which then is forgotten; else it may get noted.
    pub(super) fn again(&self, hash: u64) -> bool {
        // The upper bits tell the word, so the lower ones are the fingerprint; 0 is none.
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
