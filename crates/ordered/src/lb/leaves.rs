//! The leaf format of the LB+-Tree, as [`HybridTree`] uses it.

use halocline_media::{LINE, Mapped, MediaError};

use crate::TreeError;
use crate::hybrid::{FailedSplit, HybridTree, InsertOutcome, LeafEntry, LeafFormat, LeafRef, LeafSplit};
use crate::kernel::{UpperHalf, fingerprint};

use super::append::append;
use super::fault::{LbFault, injected};
use super::layout::{BLOCK, LbHeader, SLOTS, entry_offset};
use super::leaf::{BlockSlot, LbLeafRef, WORDS, get};
use super::put::home;
use super::tree::LbOptions;

/// Leaves of the LB+-Tree with `B` blocks.
#[derive(Debug)]
pub(crate) struct LbLeafFormat<const B: usize> {
    moving: bool,
}

impl<const B: usize> LbLeafFormat<B> {
    pub(super) const TAG: [u8; 8] = {
        assert!(B == 1 || B == 2 || B == 4, "leaves of 1, 2 or 4 blocks");
        let mut owner = *b"lb-tree0";
        owner[7] += B as u8;
        owner
    };

    pub(super) fn new(options: LbOptions) -> LbLeafFormat<B> {
        LbLeafFormat {
            moving: options.moving,
        }
    }
}

impl<const B: usize> LbLeafFormat<B> {
    /// Inserts through the medium. A separate function keeps this slower path out of the code for mapped
    /// leaves.
    #[inline(never)]
    fn put_by_calls(
        &self,
        at: LeafRef<'_>,
        key: u64,
        value: u64,
    ) -> Result<InsertOutcome<BlockSlot>, Box<MediaError>> {
        LbLeafRef::<_, B>(at).put_new(key, value, self.moving)
    }
}

impl<const B: usize> LeafFormat for LbLeafFormat<B> {
    const BYTES: u64 = B as u64 * BLOCK;
    const ENTRIES: usize = B * SLOTS;
    const OWNER: [u8; 8] = Self::TAG;

    type LeafHead = LbHeaders<B>;
    type Open<'a> = Option<LbLeafRef<Mapped<'a>, B>>;
    type Slot = BlockSlot;

    #[inline(always)]
    fn open(at: LeafRef<'_>) -> Self::Open<'_> {
        LbLeafRef::mapped(at)
    }

    /// Prefetches all lines of the home block, so that the misses of the header and of the entry overlap.
    #[inline(always)]
    fn fetch(at: LeafRef<'_>, key: u64) {
        let block = at.offset + home::<B>(key) as u64 * BLOCK;
        at.medium.prefetch_lines(block, BLOCK / LINE);
    }

    /// Prefetches the other headers too, which must be checked for the key.
    #[inline(always)]
    fn fetch_to_put(at: LeafRef<'_>, open: Self::Open<'_>, key: u64) {
        match open {
            Some(leaf) => leaf.fetch_to_put(key),
            None => {
                Self::fetch(at, key);
                let home = home::<B>(key);
                for block in (0..B).filter(|block| *block != home) {
                    at.medium.prefetch(at.offset + block as u64 * BLOCK);
                }
            }
        }
    }

    #[inline(always)]
    fn fetch_head(at: LeafRef<'_>, key: u64) {
        at.medium.prefetch(at.offset + home::<B>(key) as u64 * BLOCK);
    }

    #[inline(always)]
    fn fetch_entry(at: LeafRef<'_>, key: u64) {
        let block = home::<B>(key);
        let same = LbLeafRef::<_, B>(at).header(block).matches(fingerprint(key));
        if same > 0b111 {
            let line = entry_offset(same.trailing_zeros() as usize) / LINE * LINE;
            at.medium.prefetch(at.offset + block as u64 * BLOCK + line);
        }
    }

    #[inline(always)]
    fn head(at: LeafRef<'_>) -> Self::LeafHead {
        LbHeaders(LbLeafRef(at).headers())
    }

    #[inline(always)]
    fn count(head: &Self::LeafHead) -> u32 {
        head.0.iter().map(|header| header.used().count_ones()).sum()
    }

    #[inline(always)]
    fn find(at: LeafRef<'_>, head: &Self::LeafHead, key: u64) -> Option<BlockSlot> {
        LbLeafRef(at).find(&head.0, key)
    }

    #[inline(always)]
    fn locate(at: LeafRef<'_>, key: u64) -> Option<BlockSlot> {
        match at.medium.words(at.offset, B * WORDS) {
            Some(words) => LbLeafRef::<_, B>(words).locate(key),
            None => LbLeafRef::<_, B>(at).locate(key),
        }
    }

    #[inline(always)]
    fn value(at: LeafRef<'_>, slot: BlockSlot) -> u64 {
        LbLeafRef::<_, B>(at).value(slot)
    }

    #[inline(always)]
    fn get(at: LeafRef<'_>, key: u64) -> Option<u64> {
        get::<B>(at, key)
    }

    #[inline(always)]
    fn each(at: LeafRef<'_>, head: &Self::LeafHead, look: impl FnMut(LeafEntry<BlockSlot>)) {
        match at.medium.words(at.offset, B * WORDS) {
            Some(words) => LbLeafRef(words).each(&head.0, look),
            None => LbLeafRef(at).each(&head.0, look),
        }
    }

    #[inline(always)]
    fn upper(at: LeafRef<'_>, vectors: bool) -> UpperHalf {
        match at.medium.words(at.offset, B * WORDS) {
            Some(words) => LbLeafRef::<_, B>(words).upper(vectors),
            None => LbLeafRef::<_, B>(at).upper(vectors),
        }
    }

    #[inline]
    fn append(at: LeafRef<'_>, vectors: bool, into: &mut Vec<(u64, u64)>) {
        append::<B>(at, vectors, into);
    }

    fn damage(head: &Self::LeafHead, entry: &LeafEntry<BlockSlot>) -> Option<&'static str> {
        let (block, slot) = entry.slot;
        if injected(LbFault::TrustLockBit) && head.0[0].is_locked() {
            return Some("it is locked");
        }
        let fits = head.0[block].matches(fingerprint(entry.key)) & 1 << slot != 0;
        (!fits).then_some("a fingerprint does not match its key")
    }

    #[inline]
    fn next(at: LeafRef<'_>) -> u64 {
        match at.medium.words(at.offset, B * WORDS) {
            Some(words) => LbLeafRef::<_, B>(words).next(),
            None => LbLeafRef::<_, B>(at).next(),
        }
    }

    #[inline(always)]
    fn put(
        &self,
        at: LeafRef<'_>,
        open: Self::Open<'_>,
        key: u64,
        value: u64,
    ) -> Result<InsertOutcome<BlockSlot>, Box<MediaError>> {
        match open {
            Some(leaf) => leaf.put_new(key, value, self.moving),
            None => self.put_by_calls(at, key, value),
        }
    }

    #[inline]
    fn replace(&self, at: LeafRef<'_>, entry: LeafEntry<BlockSlot>) -> Result<(), MediaError> {
        match LbLeafRef::<_, B>::mapped(at) {
            Some(leaf) => leaf.set_value(entry.slot, entry.value),
            None => LbLeafRef::<_, B>(at).set_value(entry.slot, entry.value),
        }
    }

    #[inline]
    fn clear(&self, at: LeafRef<'_>, (block, slot): BlockSlot) -> Result<(), MediaError> {
        match LbLeafRef::<_, B>::mapped(at) {
            Some(leaf) => leaf.clear(block, leaf.header(block), 1 << slot),
            None => {
                let leaf = LbLeafRef::<_, B>(at);
                leaf.clear(block, leaf.header(block), 1 << slot)
            }
        }
    }

    /// Reads the other blocks only if this one has no other entry.
    #[inline(always)]
    fn is_only(at: LeafRef<'_>, (block, slot): BlockSlot) -> bool {
        LbLeafRef::<_, B>(at).header(block).used() == 1 << slot && Self::count(&Self::head(at)) == 1
    }

    fn set_next(at: LeafRef<'_>, next: u64) {
        let leaf = LbLeafRef::<_, B>(at);
        leaf.store_link(leaf.header(0).alt(), next);
        leaf.flush_line(0, 3);
    }

    fn write_new(at: LeafRef<'_>, entries: impl Iterator<Item = (u64, u64)>, next: u64, filled: bool) {
        LbLeafRef::<_, B>(at).write_new(entries, next, filled);
    }

    fn split(tree: &HybridTree<Self>, split: &LeafSplit<'_, Self>) -> Result<(), FailedSplit> {
        super::split::split(&tree.write_gate, tree.leaves.moving, split)
    }

    fn take_over(tree: &HybridTree<Self>, left: LeafRef<'_>, right: LeafRef<'_>) -> Result<(), TreeError> {
        super::absorb::take_over::<_, B>(&tree.write_gate, LbLeafRef(left), LbLeafRef(right))
    }

    /// Clears the entries block by block.
    fn clear_from(at: LeafRef<'_>, least: u64) -> Result<(), MediaError> {
        if injected(LbFault::KeepStale) {
            return Ok(());
        }
        let leaf = LbLeafRef::<_, B>(at);
        let headers = leaf.headers();
        for (block, header) in headers.iter().enumerate().skip(1) {
            let mut stale = 0;
            leaf.each(&headers, |entry| {
                if entry.slot.0 == block && entry.key >= least {
                    stale |= 1 << entry.slot.1;
                }
            });
            if stale != 0 {
                leaf.clear(block, *header, stale)?;
            }
        }
        Ok(())
    }
}

/// The headers of all blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LbHeaders<const B: usize>(pub(super) [LbHeader; B]);

impl<const B: usize> Default for LbHeaders<B> {
    fn default() -> LbHeaders<B> {
        LbHeaders([LbHeader::default(); B])
    }
}
