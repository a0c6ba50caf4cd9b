//! Reading a leaf, and its durable changes within one leaf.
//!
//! Invariants: an entry is stored to a slot that is free, and is durable before the header that says it is in use is stored,
//! unless both are in one line, whose stores arrive in order. The words of a header are stored fingerprints first.

use halocline_media::{Mapped, MediaError, Medium};

use crate::hybrid::{At, Entry, LINE_WORDS, Load, Put, Store};
use crate::kernel::{Unsorted, append_sorted, fingerprint};

use super::layout::{BLOCK, Header, LINES, SLOTS, entry_offset, line_of, link_offset};
use super::mistake::{Mistake, made};

/// Words of a block.
pub(crate) const WORDS: usize = BLOCK as usize / 8;

/// Where an entry is: block and slot.
pub(crate) type Slot = (usize, usize);

/// A leaf of `B` blocks, and how its words are reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf<W, const B: usize>(pub(crate) W);

impl<'a, const B: usize> Leaf<Mapped<'a>, B> {
    /// The leaf at `at`, if its words may be changed as they are.
    #[inline(always)]
    pub(crate) fn mapped<M: Medium>(at: At<'a, M>) -> Option<Self> {
        at.medium.mapped(at.offset, B * WORDS).map(Leaf)
    }
}

impl<W: Load, const B: usize> Leaf<W, B> {
    #[inline(always)]
    pub(crate) fn headers(self) -> [Header; B] {
        // Not `array::from_fn`, which is a call of its own.
        let mut headers = [Header::default(); B];
        for (block, header) in headers.iter_mut().enumerate() {
            *header = self.header(block);
        }
        headers
    }

    #[inline(always)]
    pub(crate) fn header(self, block: usize) -> Header {
        Header {
            low: self.0.load(block * WORDS),
            high: self.0.load(block * WORDS + 1),
        }
    }

    #[inline(always)]
    pub(crate) fn key(self, slot: Slot) -> u64 {
        self.0.load(entry_at(slot))
    }

    #[inline(always)]
    pub(crate) fn value(self, slot: Slot) -> u64 {
        self.0.load(entry_at(slot) + 1)
    }

    /// The next leaf, or 0.
    #[inline]
    pub(crate) fn next(self, first: Header) -> u64 {
        self.0.load(link_at(first.alt()))
    }

    /// Where the entry of a key is.
    #[inline(always)]
    pub(crate) fn find(self, headers: &[Header; B], key: u64) -> Option<Slot> {
        (0..B).find_map(|block| self.find_in(block, headers[block], key))
    }

    /// The same, if it is not known which entries there are: the other blocks' headers are read if it is not where it is likely to be.
    #[inline(always)]
    pub(crate) fn locate(self, key: u64) -> Option<Slot> {
        let home = home::<B>(key);
        self.find_in(home, self.header(home), key).or_else(|| {
            (1..B).find_map(|next| self.find_in((home + next) % B, self.header((home + next) % B), key))
        })
    }

    #[inline(always)]
    pub(crate) fn find_in(self, block: usize, header: Header, key: u64) -> Option<Slot> {
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
    pub(crate) fn each(self, headers: &[Header; B], mut look: impl FnMut(Entry<Slot>)) {
        for (block, header) in headers.iter().enumerate() {
            let mut used = header.used();
            while used != 0 {
                let slot = (block, used.trailing_zeros() as usize);
                used &= used - 1;
                let (key, value) = (self.key(slot), self.value(slot));
                look(Entry { key, value, slot });
            }
        }
    }
}

/// The value of a key in the leaf at `at`.
#[inline(always)]
pub(crate) fn get<M: Medium, const B: usize>(at: At<'_, M>, key: u64) -> Option<u64> {
    let home = home::<B>(key);
    let words = at.medium.words(at.offset + home as u64 * BLOCK, WORDS);
    if let Some(words) = words {
        let block = Leaf::<_, 1>(words);
        if let Some(slot) = block.find_in(0, block.header(0), key) {
            return Some(block.value(slot));
        }
        if B == 1 {
            return None;
        }
    }
    let leaf = Leaf::<_, B>(at);
    leaf.locate(key).map(|slot| leaf.value(slot))
}

/// Appends all entries of the leaf at `at`, in ascending order of their keys.
#[inline(always)]
pub(crate) fn append<M: Medium, const B: usize>(at: At<'_, M>, vectors: bool, into: &mut Vec<(u64, u64)>) {
    if B == 1 {
        let mut bytes = [0; BLOCK as usize];
        at.medium.load(at.offset, &mut bytes);
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
    let leaf = Leaf::<_, B>(at);
    let mut unsorted = Unsorted::<B>::new();
    leaf.each(&leaf.headers(), |entry| unsorted.push(entry.key, entry.value));
    unsorted.append_to(into, vectors);
}

impl<W: Store, const B: usize> Leaf<W, B> {
    /// Adds an entry, if there is none with this key, as [`put`](Leaf::put) does.
    ///
    /// # Errors
    /// As [`put`](Leaf::put).
    #[inline(always)]
    pub(crate) fn put_new(self, key: u64, value: u64, moving: bool) -> Result<Put<Slot>, MediaError> {
        let headers = self.headers();
        if let Some(slot) = self.find(&headers, key) {
            return Ok(Put::There(slot));
        }
        let added = self.put(&headers, key, value, moving)?;
        Ok(if added { Put::Added } else { Put::Full })
    }

    /// Adds an entry where there is room; false if there is none. An entry whose slot is in the header's own line costs one
    /// line; else the entry takes as many as fit of that line with it, so that there is room in it again. If not `moving`, it
    /// goes to any slot and takes none.
    ///
    /// # Errors
    /// Of the medium: the entry is not there, or there and perhaps not durable.
    #[inline(always)]
    pub(crate) fn put(
        self,
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
            self.0.fence()?;
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
            self.0.fence()?;
        }
        self.store_header(block, header);
        self.flush_line(block, 0);
        self.0.fence()?;
        Ok(true)
    }

    /// Replaces a value: one store.
    ///
    /// # Errors
    /// Of the medium: the new value is there, and perhaps not durable.
    pub(crate) fn set_value(self, at: Slot, value: u64) -> Result<(), MediaError> {
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
    pub(crate) fn clear(self, block: usize, header: Header, slots: u32) -> Result<(), MediaError> {
        self.store_low(block, header.without(slots));
        self.flush_line(block, 0);
        if made(Mistake::RemoveUnfenced) {
            return Ok(());
        }
        self.0.fence()
    }

    #[inline(always)]
    pub(crate) fn store_entry(self, slot: Slot, key: u64, value: u64) {
        self.0.store(entry_at(slot), key);
        self.0.store(entry_at(slot) + 1, value);
    }

    #[inline(always)]
    pub(crate) fn store_header(self, block: usize, header: Header) {
        self.0.store(block * WORDS + 1, header.high);
        self.store_low(block, header);
    }

    #[inline(always)]
    pub(crate) fn store_low(self, block: usize, header: Header) {
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

/// The word that an entry starts with.
#[inline(always)]
fn entry_at((block, slot): Slot) -> usize {
    block * WORDS + entry_offset(slot) as usize / 8
}

/// The word of a link.
#[inline(always)]
fn link_at(which: usize) -> usize {
    link_offset(which) as usize / 8
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
    let mut block = home;
    if B > 1 && headers[home].free() == 0 {
        block = (0..B).max_by_key(|block| headers[*block].free().count_ones())?;
    }
    let free = headers[block].free();
    if free & LINES[0] != 0 {
        return Some((block, 0));
    }
    let room = |line: usize| bits_of_four((free & LINES[line]) >> LINES[line].trailing_zeros());
    let later = if room(3) > room(2) { 3 } else { 2 };
    let line = if room(later) > room(1) { later } else { 1 };
    (free != 0).then_some((block, line))
}

/// How many of the four lowest bits are set, of which there are no others: without an instruction that not every CPU has.
#[inline(always)]
fn bits_of_four(bits: u32) -> u64 {
    const COUNTS: u64 = 0x4332_3221_3221_2110;
    COUNTS >> (bits * 4) & 0xF
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
impl<W: Store, const B: usize> Leaf<W, B> {
    /// Stores and flushes a whole leaf, all but lines in which nothing is; at most all its slots.
    pub(crate) fn write_new(
        self,
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
