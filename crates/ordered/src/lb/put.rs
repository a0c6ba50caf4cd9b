//! Adding an entry to a leaf: where it goes, and what is stored in which order.
//!
//! Invariants: an entry is stored to a slot that is free, and is durable before the header that says it is in use is stored,
//! unless both are in one line, whose stores arrive in order.

use halocline_media::MediaError;

use crate::hybrid::{InsertOutcome, StoreWords};
use crate::kernel::fingerprint;

use super::layout::{LINES, LbHeader, SLOTS, line_of};
use super::leaf::{BlockSlot, LbLeafRef};
use super::mistake::{Mistake, made};

impl<W: StoreWords, const B: usize> LbLeafRef<W, B> {
    /// Adds an entry, if there is none with this key, as [`put`](LbLeafRef::put) does.
    ///
    /// # Errors
    /// As [`put`](LbLeafRef::put).
    #[inline(always)]
    pub(crate) fn put_new(
        self,
        key: u64,
        value: u64,
        moving: bool,
    ) -> Result<InsertOutcome<BlockSlot>, Box<MediaError>> {
        let headers = self.headers();
        if let Some(slot) = self.find(&headers, key) {
            return Ok(InsertOutcome::Exists(slot));
        }
        let added = self.put(&headers, key, value, moving)?;
        Ok(if added {
            InsertOutcome::Added
        } else {
            InsertOutcome::Full
        })
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
        headers: &[LbHeader; B],
        key: u64,
        value: u64,
        moving: bool,
    ) -> Result<bool, Box<MediaError>> {
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
fn best_line<const B: usize>(headers: &[LbHeader; B], home: usize) -> Option<(usize, usize)> {
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
fn any_line<const B: usize>(headers: &[LbHeader; B], key: u64) -> Option<(usize, usize)> {
    let free: u32 = headers.iter().map(|header| header.free().count_ones()).sum();
    let drawn = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % u64::from(free.max(1));
    let slots = (0..B).flat_map(|block| (0..SLOTS).map(move |slot| (block, slot)));
    let (block, slot) = slots
        .filter(|(block, slot)| headers[*block].free() >> slot & 1 == 1)
        .nth(drawn as usize)?;
    Some((block, line_of(slot)))
}
