//! Inserting an entry into a leaf: choice of the slot and order of the stores.
//!
//! Invariant: an entry is stored to a free slot, and it is durable before the header that marks it as
//! used is stored. The exception is an entry in the header's own line, whose stores arrive in order.

use halocline_media::MediaError;

use crate::hybrid::{InsertOutcome, StoreWords};
use crate::kernel::fingerprint;

use super::fault::{LbFault, injected};
use super::layout::{LINES, LbHeader, SLOTS, line_of};
use super::leaf::{BlockSlot, LbLeafRef};

impl<W: StoreWords, const B: usize> LbLeafRef<W, B> {
    /// Inserts an entry like [`put`](LbLeafRef::put) if the key is absent.
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

    /// Inserts an entry; returns false if there is no room. In the header's line an insert writes one line.
    /// Otherwise it writes two, and moves as many entries as fit out of the header's line to make room
    /// there for later inserts. If `moving` is false, any slot is used and no entries move.
    ///
    /// # Errors
    /// Fails if the medium does. The entry is then absent, or present but perhaps not durable.
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
            if injected(LbFault::HeaderBeforeEntry) {
                self.store_header(block, with);
            }
            // Entry and header share a line, whose stores arrive in order: one flush and one fence suffice.
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
                if !injected(LbFault::MoveWithoutCopy) {
                    self.store_entry((block, slot), key, self.value((block, from)));
                }
                header = header.without(1 << from).with(slot, fingerprint(key));
            }
        }
        // The header is in another line, so the entries must be durable before it marks them as used.
        if !injected(LbFault::EntryUnflushed) {
            self.flush_line(block, line);
        }
        if !injected(LbFault::EntryUnfenced) {
            self.0.fence()?;
        }
        self.store_header(block, header);
        self.flush_line(block, 0);
        self.0.fence()?;
        Ok(true)
    }
}

/// Returns the home block of a key, which is searched first and preferred by inserts. It uses other
/// bits of the hash than the fingerprint. This affects only speed: an entry may be in any block.
#[inline(always)]
pub(crate) fn home<const B: usize>(key: u64) -> usize {
    const { assert!(B.is_power_of_two()) };
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % B
}

/// Selects the block and line for an insert: the home block, or the block with the most room if that is full;
/// in it the header's line, or else the line with the most room. Returns `None` if the leaf is full.
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

/// Counts the bits of a 4-bit number by table lookup, as not every CPU has a population count.
#[inline(always)]
fn bits_of_four(bits: u32) -> u64 {
    const COUNTS: u64 = 0x4332_3221_3221_2110;
    COUNTS >> (bits * 4) & 0xF
}

/// Selects the block and line of a pseudorandom free slot, like an insert that does not consider lines.
fn any_line<const B: usize>(headers: &[LbHeader; B], key: u64) -> Option<(usize, usize)> {
    let free: u32 = headers.iter().map(|header| header.free().count_ones()).sum();
    let drawn = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % u64::from(free.max(1));
    let slots = (0..B).flat_map(|block| (0..SLOTS).map(move |slot| (block, slot)));
    let (block, slot) = slots
        .filter(|(block, slot)| headers[*block].free() >> slot & 1 == 1)
        .nth(drawn as usize)?;
    Some((block, line_of(slot)))
}
