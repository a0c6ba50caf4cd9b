//! What a tree's leaves are: [`LeafFormat`].

use std::fmt;

use halocline_media::{LINE, MediaError};
use halocline_pool::Slab;

use crate::TreeError;
use crate::kernel::UpperHalf;

use super::HybridTree;
use super::leaf_ref::LeafRef;
use super::split::{FailedSplit, LeafSplit};

/// An entry and where in its leaf it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafEntry<S> {
    pub(crate) key: u64,
    pub(crate) value: u64,
    pub(crate) slot: S,
}

/// What came of adding an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertOutcome<S> {
    Added,
    /// There is one with this key.
    Exists(S),
    /// There is no room for it.
    Full,
}

/// A layout of leaves, and the changes of them. A change of one leaf is atomic, and durable when the method returns; if that fails,
/// readers see the leaf as it was or as it was to be, so that there is one tree for them.
///
/// The caller has the locks of the leaves it changes. What a reader gets may be of different states of a leaf until it has
/// validated: nothing may depend on its making sense.
pub(crate) trait LeafFormat: fmt::Debug + Send + Sync + Sized + 'static {
    /// Bytes of a leaf, a multiple of 256.
    const BYTES: u64;

    /// Entries that fill one.
    const ENTRIES: usize;

    /// What a slab of them says it holds.
    const OWNER: [u8; 8];

    /// What is read of a leaf before anything else: which entries are in use, fingerprints.
    type LeafHead: Copy + Default + fmt::Debug;

    /// What [`open`](LeafFormat::open) gives.
    type Open<'a>: Copy;

    /// A place for an entry.
    type Slot: Copy + PartialEq + fmt::Debug;

    /// How the words of a leaf are reached to change them; looked up before they are waited for.
    fn open(at: LeafRef<'_>) -> Self::Open<'_>;

    /// Asks for what finding a key most likely needs, to be waited for once.
    fn fetch(at: LeafRef<'_>, key: u64);

    /// Asks for what inserting a key most likely needs.
    fn fetch_to_put(at: LeafRef<'_>, open: Self::Open<'_>, key: u64);

    /// Asks for the line that tells where the entry of a key is: less than [`fetch`](LeafFormat::fetch), for who has other things to do
    /// before he waits for [the entry](LeafFormat::fetch_entry).
    fn fetch_head(at: LeafRef<'_>, key: u64);

    /// Asks for all of it.
    #[inline]
    fn fetch_all(at: LeafRef<'_>) {
        at.medium.prefetch_lines(at.offset, Self::BYTES / LINE);
    }

    /// Asks for the entry that a key's fingerprint is the same as, if it is in another line.
    fn fetch_entry(at: LeafRef<'_>, key: u64);

    fn head(at: LeafRef<'_>) -> Self::LeafHead;

    /// Entries in use.
    fn count(head: &Self::LeafHead) -> u32;

    fn find(at: LeafRef<'_>, head: &Self::LeafHead, key: u64) -> Option<Self::Slot>;

    /// As [`find`](LeafFormat::find), without a head, of which no more is read than is needed.
    #[inline(always)]
    fn locate(at: LeafRef<'_>, key: u64) -> Option<Self::Slot> {
        Self::find(at, &Self::head(at), key)
    }

    fn value(at: LeafRef<'_>, slot: Self::Slot) -> u64;

    /// The value of a key, if it is there.
    #[inline(always)]
    fn get(at: LeafRef<'_>, key: u64) -> Option<u64> {
        Self::locate(at, key).map(|slot| Self::value(at, slot))
    }

    /// Looks at all entries, in no order.
    fn each(at: LeafRef<'_>, head: &Self::LeafHead, look: impl FnMut(LeafEntry<Self::Slot>));

    /// The greater half of the keys of a full leaf: a bit for each entry, by the number of its slot. `vectors` as for
    /// [`append`](LeafFormat::append).
    fn upper(at: LeafRef<'_>, vectors: bool) -> UpperHalf;

    /// Appends all entries, in ascending order of their keys. `vectors` is what [`has_vectors`](crate::kernel::has_vectors) says.
    fn append(at: LeafRef<'_>, vectors: bool, into: &mut Vec<(u64, u64)>);

    /// What contradicts itself in the head, or between it and an entry, if anything does.
    fn damage(head: &Self::LeafHead, entry: &LeafEntry<Self::Slot>) -> Option<&'static str>;

    /// The next leaf, or 0.
    fn next(at: LeafRef<'_>) -> u64;

    /// Adds an entry, if there is none with this key and there is room for it.
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

    /// Whether the entry in this slot is the only one.
    #[inline(always)]
    fn is_only(at: LeafRef<'_>, _slot: Self::Slot) -> bool {
        Self::count(&Self::head(at)) == 1
    }

    /// Makes the link of a leaf lead elsewhere by one store, and flushes it; the fence is the caller's.
    fn set_next(at: LeafRef<'_>, next: u64);

    /// Stores and flushes a whole leaf that nobody knows, of at most [`ENTRIES`](LeafFormat::ENTRIES); the fence is the caller's. `filled`
    /// by a bulk load, or with what a split has moved.
    fn write_new(at: LeafRef<'_>, entries: impl Iterator<Item = (u64, u64)>, next: u64, filled: bool);

    /// Splits a full leaf.
    fn split(tree: &HybridTree<Self>, split: &LeafSplit<'_, Self>) -> Result<(), FailedSplit>;

    /// Moves all entries of `right` to `left`, which is empty, and makes its link lead past `right`.
    fn take_over(tree: &HybridTree<Self>, left: LeafRef<'_>, right: LeafRef<'_>) -> Result<(), TreeError>;

    /// At opening, before anything else: finishes what a crash has interrupted.
    fn finish(&self, _slab: &Slab) -> Result<(), TreeError> {
        Ok(())
    }

    /// At opening: removes what a split has moved to the next leaf, whose least key is `least`.
    fn clear_from(_at: LeafRef<'_>, _least: u64) -> Result<(), MediaError> {
        Ok(())
    }
}
