//! The interface of a leaf format: [`LeafFormat`].

use std::fmt;

use halocline_media::{LINE, MediaError};
use halocline_pool::Slab;

use crate::TreeError;
use crate::kernel::UpperHalf;

use super::HybridTree;
use super::leaf_ref::LeafRef;
use super::split::{FailedSplit, LeafSplit};

/// An entry and its slot in a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafEntry<S> {
    pub(crate) key: u64,
    pub(crate) value: u64,
    pub(crate) slot: S,
}

/// Outcome of an attempt to insert an entry into a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertOutcome<S> {
    Added,
    /// The leaf has an entry with this key, in this slot.
    Exists(S),
    /// The leaf has no free slot.
    Full,
}

/// A layout of leaves and the operations that change them. A change of one leaf is atomic, and durable when
/// the method returns. If the medium fails, readers see the leaf as it was before or after the change.
///
/// The caller holds the locks of the leaves it changes. A reader may get parts of different states of a
/// leaf until it has validated the version, so implementations must tolerate inconsistent data.
pub(crate) trait LeafFormat: fmt::Debug + Send + Sync + Sized + 'static {
    /// Size of a leaf in bytes, a multiple of 256.
    const BYTES: u64;

    /// Capacity of a leaf in entries.
    const ENTRIES: usize;

    /// Owner tag of the slab.
    const OWNER: [u8; 8];

    /// The part of a leaf that is read first: entries in use and fingerprints.
    type LeafHead: Copy + Default + fmt::Debug;

    /// Write access to a leaf, as returned by [`open`](LeafFormat::open).
    type Open<'a>: Copy;

    /// Position of an entry in a leaf.
    type Slot: Copy + PartialEq + fmt::Debug;

    /// Returns write access to a leaf. It is looked up before the leaf's memory is waited for.
    fn open(at: LeafRef<'_>) -> Self::Open<'_>;

    /// Prefetches the lines that a lookup of `key` most likely needs, so that their misses overlap.
    fn fetch(at: LeafRef<'_>, key: u64);

    /// Prefetches the lines that an insert of `key` most likely needs.
    fn fetch_to_put(at: LeafRef<'_>, open: Self::Open<'_>, key: u64);

    /// Prefetches only the line that locates the entry of a key. It is for callers with other work to do
    /// before they prefetch [the entry](LeafFormat::fetch_entry).
    fn fetch_head(at: LeafRef<'_>, key: u64);

    /// Prefetches the whole leaf.
    #[inline]
    fn fetch_all(at: LeafRef<'_>) {
        at.medium.prefetch_lines(at.offset, Self::BYTES / LINE);
    }

    /// Prefetches the entry whose fingerprint matches `key`, unless it is in the line of the header.
    fn fetch_entry(at: LeafRef<'_>, key: u64);

    fn head(at: LeafRef<'_>) -> Self::LeafHead;

    /// Returns the number of entries.
    fn count(head: &Self::LeafHead) -> u32;

    fn find(at: LeafRef<'_>, head: &Self::LeafHead, key: u64) -> Option<Self::Slot>;

    /// Finds the slot of a key without a head, reading no more of the leaf than necessary.
    #[inline(always)]
    fn locate(at: LeafRef<'_>, key: u64) -> Option<Self::Slot> {
        Self::find(at, &Self::head(at), key)
    }

    fn value(at: LeafRef<'_>, slot: Self::Slot) -> u64;

    /// Returns the value of a key.
    #[inline(always)]
    fn get(at: LeafRef<'_>, key: u64) -> Option<u64> {
        Self::locate(at, key).map(|slot| Self::value(at, slot))
    }

    /// Calls `look` with each entry, in arbitrary order.
    fn each(at: LeafRef<'_>, head: &Self::LeafHead, look: impl FnMut(LeafEntry<Self::Slot>));

    /// Returns the greater half of the keys of a full leaf as a bitmap of slot numbers. `vectors` is as for
    /// [`append`](LeafFormat::append).
    fn upper(at: LeafRef<'_>, vectors: bool) -> UpperHalf;

    /// Appends all entries in ascending order of their keys. `vectors` is the result of
    /// [`has_vectors`](crate::kernel::has_vectors).
    fn append(at: LeafRef<'_>, vectors: bool, into: &mut Vec<(u64, u64)>);

    /// Returns a description of an inconsistency in the head, or between the head and an entry.
    fn damage(head: &Self::LeafHead, entry: &LeafEntry<Self::Slot>) -> Option<&'static str>;

    /// Returns the offset of the next leaf, or 0.
    fn next(at: LeafRef<'_>) -> u64;

    /// Inserts an entry if its key is absent and a slot is free.
    fn put(
        &self,
        at: LeafRef<'_>,
        open: Self::Open<'_>,
        key: u64,
        value: u64,
    ) -> Result<InsertOutcome<Self::Slot>, Box<MediaError>>;

    /// Replaces the value of an entry.
    fn replace(&self, at: LeafRef<'_>, entry: LeafEntry<Self::Slot>) -> Result<(), MediaError>;

    /// Removes an entry.
    fn clear(&self, at: LeafRef<'_>, slot: Self::Slot) -> Result<(), MediaError>;

    /// Returns true if the entry in this slot is the only one.
    #[inline(always)]
    fn is_only(at: LeafRef<'_>, _slot: Self::Slot) -> bool {
        Self::count(&Self::head(at)) == 1
    }

    /// Changes the live link of a leaf by one store and flushes it. The caller issues the fence.
    fn set_next(at: LeafRef<'_>, next: u64);

    /// Stores and flushes a new leaf that is not referenced yet, with at most
    /// [`ENTRIES`](LeafFormat::ENTRIES) entries. The caller issues the fence. `filled` is true in a bulk
    /// load and false in a split.
    fn write_new(at: LeafRef<'_>, entries: impl Iterator<Item = (u64, u64)>, next: u64, filled: bool);

    /// Splits a full leaf.
    fn split(tree: &HybridTree<Self>, split: &LeafSplit<'_, Self>) -> Result<(), FailedSplit>;

    /// Moves all entries of `right` to the empty leaf `left` and links `left` to the leaf after `right`.
    fn take_over(tree: &HybridTree<Self>, left: LeafRef<'_>, right: LeafRef<'_>) -> Result<(), TreeError>;

    /// Completes changes that a crash has interrupted. Called at opening, before anything else is read.
    fn finish(&self, _slab: &Slab) -> Result<(), TreeError> {
        Ok(())
    }

    /// Removes entries with keys from `least` on, which a split has moved to the next leaf. Called at
    /// opening.
    fn clear_from(_at: LeafRef<'_>, _least: u64) -> Result<(), MediaError> {
        Ok(())
    }
}
