//! The leaves as [`Hybrid`] uses them.

use halocline_media::MediaError;
use halocline_pool::Slab;

use crate::TreeError;
use crate::hybrid::{At, Entry, Hybrid, Leaves, Put, Refused, Split};
use crate::kernel::{RANKED, Upper, upper};

use super::append::append;
use super::layout::{LEAF, SLOTS, entry_offset};
use super::leaf::{Head, Leaf};
use super::log::{Logs, replay};

/// Leaves, and which of the tree's logs are in use.
#[derive(Debug, Default)]
pub(crate) struct FpLeaves {
    pub(super) logs: Logs,
}

impl Leaves for FpLeaves {
    const BYTES: u64 = LEAF;
    const ENTRIES: usize = SLOTS;
    const OWNER: [u8; 8] = *b"fp-tree1";

    type Head = Head;
    type Open<'a> = ();
    type Slot = usize;

    #[inline(always)]
    fn open(_at: At<'_>) {}

    /// The first line: which other one is needed, it tells.
    #[inline(always)]
    fn fetch(at: At<'_>, _key: u64) {
        at.medium.prefetch(at.offset);
    }

    #[inline(always)]
    fn fetch_to_put(at: At<'_>, (): (), key: u64) {
        Self::fetch(at, key);
    }

    #[inline(always)]
    fn fetch_head(at: At<'_>, key: u64) {
        Self::fetch(at, key);
    }

    #[inline(always)]
    fn fetch_entry(at: At<'_>, key: u64) {
        let same = Leaf(at).head().matches(key);
        if same != 0 {
            let slot = same.trailing_zeros() as usize;
            at.medium.prefetch(at.offset + entry_offset(slot));
        }
    }

    #[inline(always)]
    fn head(at: At<'_>) -> Head {
        Leaf(at).head()
    }

    #[inline(always)]
    fn count(head: &Head) -> u32 {
        head.used().count_ones()
    }

    #[inline(always)]
    fn find(at: At<'_>, head: &Head, key: u64) -> Option<usize> {
        Leaf(at).find(head, key)
    }

    #[inline(always)]
    fn value(at: At<'_>, slot: usize) -> u64 {
        Leaf(at).value(slot)
    }

    #[inline(always)]
    fn each(at: At<'_>, head: &Head, look: impl FnMut(Entry<usize>)) {
        Leaf(at).entries(head).for_each(look);
    }

    #[inline]
    fn append(at: At<'_>, vectors: bool, into: &mut Vec<(u64, u64)>) {
        append(at, vectors, into);
    }

    fn upper(at: At<'_>, vectors: bool) -> Upper {
        let mut keys = [[0; RANKED]; SLOTS.div_ceil(RANKED)];
        for (slot, key) in keys.as_flattened_mut()[..SLOTS].iter_mut().enumerate() {
            *key = Leaf(at).key(slot);
        }
        upper(&keys, SLOTS, 0, vectors)
    }

    fn damage(head: &Head, entry: &Entry<usize>) -> Option<&'static str> {
        let fits = head.matches(entry.key) >> entry.slot & 1 == 1;
        match (fits, head.0[0] == head.used()) {
            (false, _) => Some("a fingerprint does not belong to its key"),
            (true, false) => Some("its bitmap has bits of no entry"),
            (true, true) => None,
        }
    }

    #[inline]
    fn next(at: At<'_>) -> u64 {
        Leaf(at).next()
    }

    #[inline(always)]
    fn put(&self, at: At<'_>, (): (), key: u64, value: u64) -> Result<Put<usize>, Box<MediaError>> {
        let leaf = Leaf(at);
        let head = leaf.head();
        if let Some(slot) = leaf.find(&head, key) {
            return Ok(Put::There(slot));
        }
        let added = leaf.put(&head, key, value, 0)?;
        Ok(if added { Put::Added } else { Put::Full })
    }

    #[inline]
    fn replace(&self, at: At<'_>, entry: Entry<usize>) -> Result<(), MediaError> {
        Leaf(at).replace(&Leaf(at).head(), entry)
    }

    #[inline]
    fn clear(&self, at: At<'_>, slot: usize) -> Result<(), MediaError> {
        let leaf = Leaf(at);
        leaf.clear(&leaf.head(), slot)
    }

    fn set_next(at: At<'_>, next: u64) {
        Leaf(at).set_next(next);
    }

    fn write_new(at: At<'_>, entries: impl Iterator<Item = (u64, u64)>, next: u64, _filled: bool) {
        Leaf(at).write_new(entries, next);
    }

    fn split(tree: &Hybrid<Self>, split: &Split<'_, Self>) -> Result<(), Refused> {
        super::split::split(tree, split)
    }

    fn take_over(tree: &Hybrid<Self>, left: At<'_>, right: At<'_>) -> Result<(), TreeError> {
        super::split::take_over(tree, Leaf(left), Leaf(right))
    }

    fn finish(&self, slab: &Slab) -> Result<(), TreeError> {
        replay(slab)
    }
}
