//! Reading a leaf, and changes that affect only this leaf, except for inserts ([`put`](super::put)).
//!
//! Invariant: the words of a header are stored with the one holding the bitmap last.
//!
//! In a leaf of several blocks, the hash of a key selects its home block, where it is stored if there is room
//! and looked up first. A lookup therefore prefetches only that block. No durable state depends on home
//! blocks.

use halocline_media::{Mapped, MediaError};

use crate::hybrid::{LINE_WORDS, LeafEntry, LeafRef, LoadWords, StoreWords};
use crate::kernel::{RANKED, UpperHalf, fingerprint, upper};

use super::fault::{LbFault, injected};
use super::layout::{BLOCK, LINES, LbHeader, SLOTS, entry_offset, line_of, link_offset};
use super::put::home;

/// Number of words in a block.
pub(crate) const WORDS: usize = BLOCK as usize / 8;

/// Position of an entry: block and slot.
pub(crate) type BlockSlot = (usize, usize);

/// A reference to a leaf of `B` blocks. `W` is the kind of access to its words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LbLeafRef<W, const B: usize>(pub(crate) W);

impl<'a, const B: usize> LbLeafRef<Mapped<'a>, B> {
    /// Returns the leaf at `at` if its words can be written directly.
    #[inline(always)]
    pub(crate) fn mapped(at: LeafRef<'a>) -> Option<Self> {
        at.medium.mapped(at.offset, B * WORDS).map(LbLeafRef)
    }

    /// Prefetches all lines of the key's home block, and the headers of the other blocks, which must be
    /// checked for the key too.
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
        // A loop, because `array::from_fn` is not inlined.
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

    /// Returns the offset of the next leaf, or 0.
    #[inline]
    pub(crate) fn next(self) -> u64 {
        self.0.load(link_at(self.header(0).alt()))
    }

    /// Returns the upper half of the keys of a full leaf, as a bitmap of [slot numbers](slot_of). The
    /// highest keys are those that fill a line of each block of a new leaf.
    #[inline(always)]
    pub(crate) fn upper(self, vectors: bool) -> UpperHalf {
        // Padded to whole vectors.
        let mut keys = [[0; RANKED]; B];
        let all = keys.as_flattened_mut();
        for block in 0..B {
            for slot in 0..SLOTS {
                all[block * SLOTS + slot] = self.key((block, slot));
            }
        }
        upper(&keys, B * SLOTS, B * LINES[1].count_ones() as usize, vectors)
    }

    /// Returns the position of a key.
    #[inline(always)]
    pub(crate) fn find(self, headers: &[LbHeader; B], key: u64) -> Option<BlockSlot> {
        (0..B).find_map(|block| self.find_in(block, headers[block], key))
    }

    /// Returns the position of a key, reading the headers of other blocks only if the key is not in its home
    /// block.
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

    /// Calls `look` with each entry, in arbitrary order.
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

/// Returns the value of a key in the leaf at `at`.
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
    /// Replaces a value by one store.
    ///
    /// # Errors
    /// Fails if the medium does. The new value is then visible, but perhaps not durable.
    pub(crate) fn set_value(self, at: BlockSlot, value: u64) -> Result<(), MediaError> {
        let (block, slot) = at;
        self.0.store(entry_at(at) + 1, value);
        self.flush_line(block, line_of(slot));
        if injected(LbFault::UpdateUnfenced) {
            return Ok(());
        }
        self.0.fence()
    }

    /// Removes entries of one block by one store.
    ///
    /// # Errors
    /// Fails if the medium does. The entries are then removed, but perhaps not durably.
    pub(crate) fn clear(self, block: usize, header: LbHeader, slots: u32) -> Result<(), MediaError> {
        self.store_low(block, header.without(slots));
        self.flush_line(block, 0);
        if injected(LbFault::RemoveUnfenced) {
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

/// Converts a slot number to a position. The slots of the first block come first.
#[inline(always)]
pub(crate) fn slot_of<const B: usize>(number: usize) -> BlockSlot {
    if B == 1 {
        return (0, number);
    }
    (number / SLOTS, number % SLOTS)
}

/// Returns the index of an entry's first word.
#[inline(always)]
fn entry_at((block, slot): BlockSlot) -> usize {
    block * WORDS + entry_offset(slot) as usize / 8
}

/// Returns the index of a link's word.
#[inline(always)]
fn link_at(which: usize) -> usize {
    link_offset(which) as usize / 8
}
