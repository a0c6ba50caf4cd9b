//! Reading a leaf, and its durable changes within one leaf.
//!
//! Invariants: an entry is stored to a slot that is free, and is durable before the header that says it is in use is stored,
//! unless both are in one line, whose stores arrive in order. The words of a header are stored fingerprints first.

use std::sync::atomic::{AtomicU64, Ordering};

use halocline_media::{LINE, MediaError, Medium};

use crate::hybrid::{At, Entry};
use crate::kernel::{Unsorted, append_sorted, fingerprint};

use super::layout::{BLOCK, Header, LINES, SLOTS, entry_offset, line_of, link_offset};
use super::mistake::{Mistake, made};

/// Where an entry is: block and slot.
pub(crate) type Slot = (usize, usize);

/// A leaf of `B` blocks, where it lies.
#[derive(Debug)]
pub(crate) struct Leaf<'a, M, const B: usize> {
    pub(crate) medium: &'a M,
    pub(crate) offset: u64,
}

impl<M, const B: usize> Clone for Leaf<'_, M, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, const B: usize> Copy for Leaf<'_, M, B> {}

impl<'a, M, const B: usize> From<At<'a, M>> for Leaf<'a, M, B> {
    #[inline(always)]
    fn from(at: At<'a, M>) -> Leaf<'a, M, B> {
        Leaf {
            medium: at.medium,
            offset: at.offset,
        }
    }
}

impl<'a, M: Medium, const B: usize> Leaf<'a, M, B> {
    #[inline(always)]
    pub(crate) fn headers(&self) -> [Header; B] {
        // Not `array::from_fn`, which is a call of its own.
        let mut headers = [Header::default(); B];
        for (block, header) in headers.iter_mut().enumerate() {
            *header = self.header(block);
        }
        headers
    }

    #[inline(always)]
    pub(crate) fn header(&self, block: usize) -> Header {
        let at = self.block(block);
        Header {
            low: self.medium.load_u64(at),
            high: self.medium.load_u64(at + 8),
        }
    }

    #[inline(always)]
    pub(crate) fn key(&self, (block, slot): Slot) -> u64 {
        self.medium.load_u64(self.block(block) + entry_offset(slot))
    }

    #[inline(always)]
    pub(crate) fn value(&self, (block, slot): Slot) -> u64 {
        self.medium.load_u64(self.block(block) + entry_offset(slot) + 8)
    }

    /// The next leaf, or 0.
    #[inline]
    pub(crate) fn next(&self, first: Header) -> u64 {
        self.medium.load_u64(self.offset + link_offset(first.alt()))
    }

    /// Where the entry of a key is.
    #[inline(always)]
    pub(crate) fn find(&self, headers: &[Header; B], key: u64) -> Option<Slot> {
        (0..B).find_map(|block| self.find_in(block, headers[block], key))
    }

    /// The same, if it is not known which entries there are: the other blocks' headers are read if it is not where it is likely to be.
    #[inline(always)]
    pub(crate) fn locate(&self, key: u64) -> Option<Slot> {
        let home = home::<B>(key);
        let others = (1..B).map(|next| (home + next) % B);
        std::iter::once(home)
            .chain(others)
            .find_map(|block| self.find_in(block, self.header(block), key))
    }

    /// The value of a key.
    #[inline(always)]
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        match self.medium.words(self.block(home::<B>(key)), WORDS) {
            Some(words) if let Some(value) = value_in(words, key) => Some(value),
            Some(_) if B == 1 => None,
            _ => self.locate(key).map(|slot| self.value(slot)),
        }
    }

    #[inline(always)]
    fn find_in(&self, block: usize, header: Header, key: u64) -> Option<Slot> {
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

    /// All entries, in no order.
    #[inline(always)]
    pub(crate) fn entries<'h>(
        self,
        headers: &'h [Header; B],
    ) -> impl Iterator<Item = Entry<Slot>> + use<'a, 'h, M, B> {
        headers.iter().enumerate().flat_map(move |(block, header)| {
            let mut used = header.used();
            std::iter::from_fn(move || {
                let slot = (used != 0).then(|| used.trailing_zeros() as usize)?;
                used &= used - 1;
                let slot = (block, slot);
                let (key, value) = (self.key(slot), self.value(slot));
                Some(Entry { key, value, slot })
            })
        })
    }

    /// Appends all entries, in ascending order of their keys.
    #[inline(always)]
    pub(crate) fn append(&self, vectors: bool, into: &mut Vec<(u64, u64)>) {
        if B == 1 {
            let mut bytes = [0; BLOCK as usize];
            self.medium.load(self.offset, &mut bytes);
            let word = |at: u64| {
                let at = at as usize / 8;
                u64::from_le_bytes(bytes.as_chunks::<8>().0[at])
            };
            // All slots, as which ones are in use is nothing that a CPU can predict.
            let entries: [(u64, u64); SLOTS] =
                std::array::from_fn(|slot| (word(entry_offset(slot)), word(entry_offset(slot) + 8)));
            let header = Header {
                low: word(0),
                high: word(8),
            };
            return append_sorted(&entries, header.used(), vectors, into);
        }
        let mut unsorted = Unsorted::<B>::new();
        for entry in self.entries(&self.headers()) {
            unsorted.push(entry.key, entry.value);
        }
        unsorted.append_to(into, vectors);
    }

    /// Adds an entry where there is room; false if there is none. An entry whose slot is in the header's own line costs one
    /// line; else the entry takes as many as fit of that line with it, so that there is room in it again. If not `moving`, it
    /// goes to any slot and takes none.
    ///
    /// # Errors
    /// Of the medium: the entry is not there, or there and perhaps not durable.
    pub(crate) fn put(
        &self,
        headers: &[Header; B],
        key: u64,
        value: u64,
        moving: bool,
    ) -> Result<bool, MediaError> {
        let Some((block, line)) = (if moving {
            best_line(headers, home::<B>(key))
        } else {
            any_line(headers, key)
        }) else {
            return Ok(false);
        };
        if line == 0 {
            let slot = (headers[block].free() & LINES[0]).trailing_zeros() as usize;
            let with = headers[block].with(slot, fingerprint(key));
            if made(Mistake::HeaderBeforeEntry) {
                self.store_header(block, with);
            }
            self.store_entry((block, slot), key, value);
            self.store_header(block, with);
            self.flush_line(block, 0);
            self.medium.fence()?;
            return Ok(true);
        }
        let mut free = headers[block].free() & LINES[line];
        let mut take = || {
            let slot = free.trailing_zeros() as usize;
            free &= free.wrapping_sub(1);
            (slot < 32).then_some(slot)
        };
        let mut header = headers[block];
        if let Some(slot) = take() {
            self.store_entry((block, slot), key, value);
            header = header.with(slot, fingerprint(key));
        }
        if moving {
            for from in 0..3 {
                let Some(slot) = take() else { break };
                let key = self.key((block, from));
                if !made(Mistake::MoveWithoutCopy) {
                    self.store_entry((block, slot), key, self.value((block, from)));
                }
                header = header.without(1 << from).with(slot, fingerprint(key));
            }
        }
        if !made(Mistake::EntryUnflushed) {
            self.flush_line(block, line);
        }
        if !made(Mistake::EntryUnfenced) {
            self.medium.fence()?;
        }
        self.store_header(block, header);
        self.flush_line(block, 0);
        self.medium.fence()?;
        Ok(true)
    }

    /// Replaces a value: one store.
    ///
    /// # Errors
    /// Of the medium: the new value is there, and perhaps not durable.
    pub(crate) fn set_value(&self, at: Slot, value: u64) -> Result<(), MediaError> {
        let (block, slot) = at;
        self.medium
            .store_u64(self.block(block) + entry_offset(slot) + 8, value);
        self.flush_line(block, line_of(slot));
        if made(Mistake::UpdateUnfenced) {
            return Ok(());
        }
        self.medium.fence()
    }

    /// Removes entries of one block: one store.
    ///
    /// # Errors
    /// Of the medium: they are gone, and perhaps not durably.
    pub(crate) fn clear(&self, block: usize, header: Header, slots: u32) -> Result<(), MediaError> {
        self.store_low(block, header.without(slots));
        self.flush_line(block, 0);
        if made(Mistake::RemoveUnfenced) {
            return Ok(());
        }
        self.medium.fence()
    }

    #[inline(always)]
    pub(crate) fn store_entry(&self, (block, slot): Slot, key: u64, value: u64) {
        let at = self.block(block) + entry_offset(slot);
        self.medium.store_u64(at, key);
        self.medium.store_u64(at + 8, value);
    }

    #[inline(always)]
    pub(crate) fn store_header(&self, block: usize, header: Header) {
        self.medium.store_u64(self.block(block) + 8, header.high);
        self.store_low(block, header);
    }

    #[inline(always)]
    pub(crate) fn store_low(&self, block: usize, header: Header) {
        self.medium.store_u64(self.block(block), header.low);
    }

    pub(crate) fn store_link(&self, which: usize, next: u64) {
        self.medium.store_u64(self.offset + link_offset(which), next);
    }

    #[inline(always)]
    pub(crate) fn flush_line(&self, block: usize, line: usize) {
        self.medium.flush(self.block(block) + line as u64 * LINE, LINE);
    }

    #[inline(always)]
    fn block(&self, block: usize) -> u64 {
        self.offset + block as u64 * BLOCK
    }
}

/// Words of a block.
const WORDS: usize = BLOCK as usize / 8;

#[inline(always)]
fn word(words: &[AtomicU64], at: usize) -> u64 {
    u64::from_le(words[at].load(Ordering::Acquire))
}

/// The header of a block of these words.
#[inline(always)]
fn header_in(words: &[AtomicU64]) -> Header {
    Header {
        low: word(words, 0),
        high: word(words, 1),
    }
}

/// The value of a key in a block of these words.
#[inline(always)]
fn value_in(words: &[AtomicU64], key: u64) -> Option<u64> {
    let mut same = header_in(words).matches(fingerprint(key));
    while same != 0 {
        let at = entry_offset(same.trailing_zeros() as usize) as usize / 8;
        if word(words, at) == key {
            return Some(word(words, at + 1));
        }
        same &= same - 1;
    }
    None
}

/// The block in which the entry of a key is looked for first, and put if there is room: other bits of the hash than the
/// fingerprint. A matter of speed alone: an entry may be in any block.
#[inline(always)]
pub(crate) fn home<const B: usize>(key: u64) -> usize {
    const { assert!(B.is_power_of_two()) };
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % B
}

/// The block and line for an entry: in its home, or else in the block with most room; there the header's line, or else the one with
/// most room; nothing if there is none.
#[inline(always)]
fn best_line<const B: usize>(headers: &[Header; B], home: usize) -> Option<(usize, usize)> {
    let block = match headers[home].free() {
        0 => (0..B).max_by_key(|block| headers[*block].free().count_ones())?,
        _ => home,
    };
    let room = |line: &usize| (headers[block].free() & LINES[*line]).count_ones();
    let line = match room(&0) {
        0 => (1..4).rev().max_by_key(room)?,
        _ => 0,
    };
    (room(&line) > 0).then_some((block, line))
}

/// The block and line of any free slot, drawn by the key: an insert that knows nothing of lines.
fn any_line<const B: usize>(headers: &[Header; B], key: u64) -> Option<(usize, usize)> {
    let free: u32 = headers.iter().map(|header| header.free().count_ones()).sum();
    let drawn = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % u64::from(free.max(1));
    let slots = (0..B).flat_map(|block| (0..SLOTS).map(move |slot| (block, slot)));
    let (block, slot) = slots
        .filter(|(block, slot)| headers[*block].free() >> slot & 1 == 1)
        .nth(drawn as usize)?;
    Some((block, line_of(slot)))
}

/// The order in which a block's slots are filled in a leaf that is flushed only where there are entries: the line of the links, which is
/// flushed anyway, another line, and the header's, so that the fourth line stays free as long as possible.
const COMPACT: [usize; SLOTS] = [11, 12, 13, 3, 4, 5, 6, 0, 1, 2, 7, 8, 9, 10];

/// The order in one that is filled: the header's line last, as entries to come cost least there.
const FULL: [usize; SLOTS] = [11, 12, 13, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2];

/// A leaf that nobody knows yet.
impl<M: Medium, const B: usize> Leaf<'_, M, B> {
    /// Stores and flushes a whole leaf, all but lines in which nothing is; at most all its slots.
    pub(crate) fn write_new(
        &self,
        entries: impl Iterator<Item = (u64, u64)>,
        next: u64,
        filled: bool,
    ) -> [Header; B] {
        let order = if filled { &FULL } else { &COMPACT };
        let forgets = made(if filled {
            Mistake::LoadUnflushed
        } else {
            Mistake::NewLeafUnflushed
        });
        let mut headers = [Header::default(); B];
        let mut taken = [0; B];
        let mut lines = [[false; 4]; B];
        lines[0][3] = true;
        for (key, value) in entries {
            let home = home::<B>(key);
            let with_room = (0..B)
                .map(|next| (home + next) % B)
                .find(|block| taken[*block] < SLOTS);
            let Some(block) = with_room else { break };
            let slot = order[taken[block]];
            taken[block] += 1;
            self.store_entry((block, slot), key, value);
            headers[block] = headers[block].with(slot, fingerprint(key));
            lines[block][line_of(slot)] = true;
        }
        self.store_link(0, next);
        self.store_link(1, 0);
        for (block, lines) in lines.iter_mut().enumerate() {
            self.store_header(block, headers[block]);
            lines[0] = true;
            for (line, used) in lines.iter().enumerate() {
                if *used && !forgets {
                    self.flush_line(block, line);
                }
            }
        }
        headers
    }
}
