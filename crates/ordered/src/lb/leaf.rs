//! Reading a leaf, and its durable changes within one leaf, but for [`put`](super::put).
//!
//! Invariants: the words of a header are stored fingerprints first.
//!
//! In a leaf of several blocks each key has a home block by its hash, where it is put if there is room and
//! looked for first, so that a reader asks for the lines of that block alone. Nothing durable depends on it.

use halocline_media::{Mapped, MediaError};

use crate::hybrid::{LINE_WORDS, LeafEntry, LeafRef, LoadWords, StoreWords};
use crate::kernel::{RANKED, UpperHalf, fingerprint, upper};

use super::layout::{BLOCK, LINES, LbHeader, SLOTS, entry_offset, line_of, link_offset};
use super::mistake::{Mistake, made};
use super::put::home;

/// Words of a block.
pub(crate) const WORDS: usize = BLOCK as usize / 8;

/// Where an entry is: block and slot.
pub(crate) type BlockSlot = (usize, usize);

/// A leaf of `B` blocks, and how its words are reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LbLeafRef<W, const B: usize>(pub(crate) W);

impl<'a, const B: usize> LbLeafRef<Mapped<'a>, B> {
    /// The leaf at `at`, if its words may be changed as they are.
    #[inline(always)]
    pub(crate) fn mapped(at: LeafRef<'a>) -> Option<Self> {
        at.medium.mapped(at.offset, B * WORDS).map(LbLeafRef)
    }

    /// Asks for all lines of a key's block, and for the other headers: the key must not be in their blocks.
    #[inline(always)]
    pub(crate) fn fetch_to_put(self, key: u64) {
        let home = home::<B>(key);
        for line in 0..WORDS / LINE_WORDS {
            self.0.prefetch(home * WORDS + line * LINE_WORDS);
        }
        for block in (0..B).filter(|block| *block != home) {
            self.0.prefetch(block * WORDS);
        }
    }
}

impl<W: LoadWords, const B: usize> LbLeafRef<W, B> {
    #[inline(always)]
    pub(crate) fn headers(self) -> [LbHeader; B] {
        // Not `array::from_fn`, which is a call of its own.
        let mut headers = [LbHeader::default(); B];
        for (block, header) in headers.iter_mut().enumerate() {
            *header = self.header(block);
        }
        headers
    }

    #[inline(always)]
    pub(crate) fn header(self, block: usize) -> LbHeader {
        LbHeader {
            low: self.0.load(block * WORDS),
            high: self.0.load(block * WORDS + 1),
        }
    }

    #[inline(always)]
    pub(crate) fn key(self, slot: BlockSlot) -> u64 {
        self.0.load(entry_at(slot))
    }

    #[inline(always)]
    pub(crate) fn value(self, slot: BlockSlot) -> u64 {
        self.0.load(entry_at(slot) + 1)
    }

    /// The next leaf, or 0.
    #[inline]
    pub(crate) fn next(self) -> u64 {
        self.0.load(link_at(self.header(0).alt()))
    }

    /// The greater half of the keys of a full leaf, a bit for each [number](slot_of) of a slot; the highest are those for a line of their
    /// own in each block of a new leaf.
    #[inline(always)]
    pub(crate) fn upper(self, vectors: bool) -> UpperHalf {
        // So many that a vector of them is full.
        let mut keys = [[0; RANKED]; B];
        let all = keys.as_flattened_mut();
        for block in 0..B {
            for slot in 0..SLOTS {
                all[block * SLOTS + slot] = self.key((block, slot));
            }
        }
        upper(&keys, B * SLOTS, B * LINES[1].count_ones() as usize, vectors)
    }

    /// Where the entry of a key is.
    #[inline(always)]
    pub(crate) fn find(self, headers: &[LbHeader; B], key: u64) -> Option<BlockSlot> {
        (0..B).find_map(|block| self.find_in(block, headers[block], key))
    }

    /// The same, if it is not known which entries there are: the other blocks' headers are read if it is not where it is likely to be.
    #[inline(always)]
    pub(crate) fn locate(self, key: u64) -> Option<BlockSlot> {
        let home = home::<B>(key);
        self.find_in(home, self.header(home), key).or_else(|| {
            (1..B).find_map(|next| self.find_in((home + next) % B, self.header((home + next) % B), key))
        })
    }

    #[inline(always)]
    pub(crate) fn find_in(self, block: usize, header: LbHeader, key: u64) -> Option<BlockSlot> {
        let mut same = header.matches(fingerprint(key));
        while same != 0 {
            let at = (block, same.trailing_zeros() as usize);
            if self.key(at) == key {
                return Some(at);
            }
            same &= same - 1;
        }
        None
    }

    /// Looks at all entries, in no order.
    #[inline(always)]
    pub(crate) fn each(self, headers: &[LbHeader; B], mut look: impl FnMut(LeafEntry<BlockSlot>)) {
        for (block, header) in headers.iter().enumerate() {
            let mut used = header.used();
            while used != 0 {
                let slot = (block, used.trailing_zeros() as usize);
                used &= used - 1;
                let (key, value) = (self.key(slot), self.value(slot));
                look(LeafEntry { key, value, slot });
            }
        }
    }
}

/// The value of a key in the leaf at `at`.
#[inline(always)]
pub(crate) fn get<const B: usize>(at: LeafRef<'_>, key: u64) -> Option<u64> {
    let home = home::<B>(key);
    let words = at.medium.words(at.offset + home as u64 * BLOCK, WORDS);
    if let Some(words) = words {
        let block = LbLeafRef::<_, 1>(words);
        if let Some(slot) = block.find_in(0, block.header(0), key) {
            return Some(block.value(slot));
        }
        if B == 1 {
            return None;
        }
    }
    let leaf = LbLeafRef::<_, B>(at);
    leaf.locate(key).map(|slot| leaf.value(slot))
}

impl<W: StoreWords, const B: usize> LbLeafRef<W, B> {
    /// Replaces a value: one store.
    ///
    /// # Errors
    /// Of the medium: the new value is there, and perhaps not durable.
    pub(crate) fn set_value(self, at: BlockSlot, value: u64) -> Result<(), MediaError> {
        let (block, slot) = at;
        self.0.store(entry_at(at) + 1, value);
        self.flush_line(block, line_of(slot));
        if made(Mistake::UpdateUnfenced) {
            return Ok(());
        }
        self.0.fence()
    }

    /// Removes entries of one block: one store.
    ///
    /// # Errors
    /// Of the medium: they are gone, and perhaps not durably.
    pub(crate) fn clear(self, block: usize, header: LbHeader, slots: u32) -> Result<(), MediaError> {
        self.store_low(block, header.without(slots));
        self.flush_line(block, 0);
        if made(Mistake::RemoveUnfenced) {
            return Ok(());
        }
        self.0.fence()
    }

    #[inline(always)]
    pub(crate) fn store_entry(self, slot: BlockSlot, key: u64, value: u64) {
        self.0.store(entry_at(slot), key);
        self.0.store(entry_at(slot) + 1, value);
    }

    #[inline(always)]
    pub(crate) fn store_header(self, block: usize, header: LbHeader) {
        self.0.store(block * WORDS + 1, header.high);
        self.store_low(block, header);
    }

    #[inline(always)]
    pub(crate) fn store_low(self, block: usize, header: LbHeader) {
        self.0.store(block * WORDS, header.low);
    }

    pub(crate) fn store_link(self, which: usize, next: u64) {
        self.0.store(link_at(which), next);
    }

    #[inline(always)]
    pub(crate) fn flush_line(self, block: usize, line: usize) {
        self.0.flush(block * WORDS + line * LINE_WORDS);
    }
}

/// The slot of a number: those of the first block first.
#[inline(always)]
pub(crate) fn slot_of<const B: usize>(number: usize) -> BlockSlot {
    if B == 1 {
        return (0, number);
    }
    (number / SLOTS, number % SLOTS)
}

/// The word that an entry starts with.
#[inline(always)]
fn entry_at((block, slot): BlockSlot) -> usize {
    block * WORDS + entry_offset(slot) as usize / 8
}

/// The word of a link.
#[inline(always)]
fn link_at(which: usize) -> usize {
    link_offset(which) as usize / 8
}
