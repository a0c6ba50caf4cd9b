//! The leaf format of the FPTree, as [`HybridTree`] uses it.

use halocline_media::MediaError;
use halocline_pool::Slab;

use crate::TreeError;
use crate::hybrid::{FailedSplit, HybridTree, InsertOutcome, LeafEntry, LeafFormat, LeafRef, LeafSplit};
use crate::kernel::{RANKED, UpperHalf, upper};

use super::append::append;
use super::layout::{LEAF, SLOTS, entry_offset};
use super::leaf::{FpHeader, FpLeafRef};
use super::micro_log::{MicroLogs, replay};

/// Leaves of the FPTree, with the state of the tree's micro-logs.
#[derive(Debug, Default)]
pub(crate) struct FpLeafFormat {
    pub(super) logs: MicroLogs,
}

impl LeafFormat for FpLeafFormat {
    const BYTES: u64 = LEAF;
    const ENTRIES: usize = SLOTS;
    const OWNER: [u8; 8] = *b"fp-tree1";

    type LeafHead = FpHeader;
    type Open<'a> = ();
    type Slot = usize;

    #[inline(always)]
    fn open(_at: LeafRef<'_>) {}

    /// Prefetches the first line, which tells which other line is needed.
    #[inline(always)]
    fn fetch(at: LeafRef<'_>, _key: u64) {
        at.medium.prefetch(at.offset);
    }

    #[inline(always)]
    fn fetch_to_put(at: LeafRef<'_>, (): (), key: u64) {
        Self::fetch(at, key);
    }

    #[inline(always)]
    fn fetch_head(at: LeafRef<'_>, key: u64) {
        Self::fetch(at, key);
    }

    #[inline(always)]
    fn fetch_entry(at: LeafRef<'_>, key: u64) {
        let same = FpLeafRef(at).head().matches(key);
        if same != 0 {
            let slot = same.trailing_zeros() as usize;
            at.medium.prefetch(at.offset + entry_offset(slot));
        }
    }

    #[inline(always)]
    fn head(at: LeafRef<'_>) -> FpHeader {
        FpLeafRef(at).head()
    }

    #[inline(always)]
    fn count(head: &FpHeader) -> u32 {
        head.used().count_ones()
    }

    #[inline(always)]
    fn find(at: LeafRef<'_>, head: &FpHeader, key: u64) -> Option<usize> {
        FpLeafRef(at).find(head, key)
    }

    #[inline(always)]
    fn value(at: LeafRef<'_>, slot: usize) -> u64 {
        FpLeafRef(at).value(slot)
    }

    #[inline(always)]
    fn each(at: LeafRef<'_>, head: &FpHeader, look: impl FnMut(LeafEntry<usize>)) {
        FpLeafRef(at).entries(head).for_each(look);
    }

    #[inline]
    fn append(at: LeafRef<'_>, vectors: bool, into: &mut Vec<(u64, u64)>) {
        append(at, vectors, into);
    }

    fn upper(at: LeafRef<'_>, vectors: bool) -> UpperHalf {
        let mut keys = [[0; RANKED]; SLOTS.div_ceil(RANKED)];
        for (slot, key) in keys.as_flattened_mut()[..SLOTS].iter_mut().enumerate() {
            *key = FpLeafRef(at).key(slot);
        }
        upper(&keys, SLOTS, 0, vectors)
    }

    fn damage(head: &FpHeader, entry: &LeafEntry<usize>) -> Option<&'static str> {
        let fits = head.matches(entry.key) >> entry.slot & 1 == 1;
        match (fits, head.0[0] == head.used()) {
            (false, _) => Some("a fingerprint does not match its key"),
            (true, false) => Some("its bitmap has bits beyond the last entry"),
            (true, true) => None,
        }
    }

    #[inline]
    fn next(at: LeafRef<'_>) -> u64 {
        FpLeafRef(at).next()
    }

    #[inline(always)]
    fn put(
        &self,
        at: LeafRef<'_>,
        (): (),
        key: u64,
        value: u64,
    ) -> Result<InsertOutcome<usize>, Box<MediaError>> {
        let leaf = FpLeafRef(at);
        let head = leaf.head();
        if let Some(slot) = leaf.find(&head, key) {
            return Ok(InsertOutcome::Exists(slot));
        }
        let added = leaf.put(&head, key, value, 0)?;
        Ok(if added {
            InsertOutcome::Added
        } else {
            InsertOutcome::Full
        })
    }

    #[inline]
    fn replace(&self, at: LeafRef<'_>, entry: LeafEntry<usize>) -> Result<(), MediaError> {
        FpLeafRef(at).replace(&FpLeafRef(at).head(), entry)
    }

    #[inline]
    fn clear(&self, at: LeafRef<'_>, slot: usize) -> Result<(), MediaError> {
        let leaf = FpLeafRef(at);
        leaf.clear(&leaf.head(), slot)
    }

    fn set_next(at: LeafRef<'_>, next: u64) {
        FpLeafRef(at).set_next(next);
    }

    fn write_new(at: LeafRef<'_>, entries: impl Iterator<Item = (u64, u64)>, next: u64, _filled: bool) {
        FpLeafRef(at).write_new(entries, next);
    }

    fn split(tree: &HybridTree<Self>, split: &LeafSplit<'_, Self>) -> Result<(), FailedSplit> {
        super::split::split(tree, split)
    }

    fn take_over(tree: &HybridTree<Self>, left: LeafRef<'_>, right: LeafRef<'_>) -> Result<(), TreeError> {
        super::split::take_over(tree, FpLeafRef(left), FpLeafRef(right))
    }

    fn finish(&self, slab: &Slab) -> Result<(), TreeError> {
        replay(slab)
    }
}
