//! The tree of a store as of the last checkpoint: branches in DRAM above leaves on the slow tier.
//!
//! Invariant: a branch or leaf is compared with what the branches above say of it when it is first read, so
//! that one that is misplaced is an error and no wrong answer. The way to pages that were read before is
//! shorter.

use std::sync::Arc;

use halocline_media::Medium;

use crate::branch::{BranchRef, BranchSeparators, Children, ExpectedBranch, TreeBranch};
use crate::fault::{StoreFault, injected};
use crate::leaf::{EntrySlot, Leaf, LeafLine, LeafPlace, fingerprint, slot_of};
use crate::leaf_bounds;
use crate::page_source::PageSource;
use crate::record::RecordRef;
use crate::segments::SegmentKind;

/// Damage that was found in a tree or a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) offset: u64,
    pub(crate) what: &'static str,
}

impl Damage {
    pub(crate) fn branch(offset: u64) -> Self {
        Self {
            offset,
            what: "the checksum of a branch does not match",
        }
    }

    pub(crate) fn leaf(offset: u64) -> Self {
        Self {
            offset,
            what: "the checksum of a leaf does not match",
        }
    }

    pub(crate) fn record(offset: u64) -> Self {
        Self {
            offset,
            what: "the checksum of a record does not match",
        }
    }

    /// Describes an offset that does not lead to a page of the kind that is expected there.
    pub(crate) fn offset(offset: u64) -> Self {
        Self {
            offset,
            what: "an offset leads to no page in use",
        }
    }

    /// Describes a leaf with a key that is not between its bounds.
    pub(crate) fn bounds(leaf: u64) -> Self {
        Self {
            offset: leaf,
            what: "a leaf has a key outside of its range",
        }
    }

    pub(crate) fn entry(leaf: u64) -> Self {
        Self {
            offset: leaf,
            what: "an entry of a leaf leads to a record of another key",
        }
    }

    pub(crate) fn store(record: u64) -> Self {
        Self {
            offset: record,
            what: "a record is of another store",
        }
    }

    /// Describes a version of one key that leads to one of another key or store.
    pub(crate) fn version(record: u64) -> Self {
        Self {
            offset: record,
            what: "a version is of another key",
        }
    }
}

/// A tree: empty, or a root.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    /// The number of its store.
    pub(crate) store: u32,
    pub(crate) root: Option<Arc<BranchRef>>,
    /// The level of the root, if the catalog has told it.
    root_level: Option<u16>,
}

/// A leaf and the bounds of its keys.
#[derive(Debug)]
pub(crate) struct LeafRange {
    /// Offset of the leaf.
    pub(crate) leaf: u64,
    /// Its keys are not below this, if it is not the first leaf.
    pub(crate) from: Option<Vec<u8>>,
    /// Its keys are below this, if it is not the last leaf.
    pub(crate) to: Option<Vec<u8>>,
}

impl LeafRange {
    /// Returns the place of the leaf in the tree of a store.
    pub(crate) fn place(&self, store: u32) -> LeafPlace {
        LeafPlace {
            store,
            offset: self.leaf,
        }
    }

    /// Returns true if a key is between the bounds.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key) && self.to.as_deref().is_none_or(|to| key < to)
    }
}

impl Tree {
    /// Returns the tree of a store with a root that is in DRAM.
    pub(crate) fn new(store: u32, root: Option<Arc<BranchRef>>) -> Self {
        Self {
            store,
            root,
            root_level: None,
        }
    }

    /// Returns the tree of a store with the root of a page, whose level may be known.
    pub(crate) fn of_page(store: u32, root: u64, root_level: Option<u16>) -> Self {
        Self {
            store,
            root: Some(BranchRef::at(root)),
            root_level,
        }
    }

    /// Returns the level of the root, if there is one and it is known.
    pub(crate) fn root_level(&self) -> Option<u16> {
        let root = self.root.as_ref()?.loaded();
        root.map(TreeBranch::level).or(self.root_level)
    }

    /// Returns what is known of the root.
    pub(crate) fn expected_root(&self) -> ExpectedBranch<'_> {
        ExpectedBranch::root(self.root_level)
    }

    fn place(&self, offset: u64) -> LeafPlace {
        LeafPlace {
            store: self.store,
            offset,
        }
    }

    /// Finds the entry of a key.
    #[inline]
    pub(crate) fn find(
        &self,
        pages: &PageSource<'_>,
        key: &[u8],
    ) -> Result<Option<(EntrySlot, RecordRef)>, Damage> {
        let medium = pages.medium();
        let Some(leaf) = self.leaf(pages, key)? else {
            return Ok(None);
        };
        let line = LeafLine::load(medium, leaf);
        for slot in line.matches(fingerprint(key)) {
            let offset = slot.record(medium);
            let record = RecordRef::load(medium, offset).ok_or_else(|| Damage::record(offset))?;
            if record.is_of(medium, key) {
                if record.head.store.get() != self.store && !injected(StoreFault::TrustEntries) {
                    return Err(Damage::store(offset));
                }
                return Ok(Some((slot, record)));
            }
            // Most entries of other keys have another slice, too.
            if slot.slice(medium) == line.slice(key) {
                self.verify_other(medium, leaf, slot, &record)?;
            }
        }
        Ok(None)
    }

    /// Fails unless an entry, which has fingerprint and slice of a key, and whose record has another key, is
    /// one of that other key. Else the key may be there and not be found.
    #[cold]
    fn verify_other(
        &self,
        medium: &Medium,
        leaf: u64,
        slot: EntrySlot,
        record: &RecordRef,
    ) -> Result<(), Damage> {
        let contents = record.contents(medium).ok_or(Damage::record(record.offset))?;
        if injected(StoreFault::TrustEntries) {
            return Ok(());
        }
        let copy = Leaf::load(medium, self.place(leaf));
        let is_it = |(at, _, _): &(usize, u64, u64)| slot_of(leaf, *at) == slot;
        let is_twice =
            |(at, _, other): (usize, u64, u64)| slot_of(leaf, at) != slot && other == record.offset;
        let found = copy.entries().find(is_it);
        if record.head.store.get() != self.store {
            return Err(Damage::store(record.offset));
        }
        let is_of_key = found.is_some_and(|(at, ..)| copy.is_entry_of(at, contents.key()));
        if is_of_key && !copy.entries().any(is_twice) {
            Ok(())
        } else {
            Err(Damage::entry(leaf))
        }
    }

    /// Returns the verified leaf of a key.
    #[inline]
    pub(crate) fn leaf(&self, pages: &PageSource<'_>, key: &[u8]) -> Result<Option<u64>, Damage> {
        let Some(mut at) = self.root.as_deref() else {
            return Ok(None);
        };
        while let Some(branch) = at.loaded() {
            let child = branch.separators.child_of(key);
            match &branch.children {
                Children::Branches(branches) => at = &branches[child],
                Children::Leaves(leaves) if branch.is_verified(child) => return Ok(Some(leaves[child])),
                Children::Leaves(_) => break,
            }
        }
        self.read_leaf(pages, key)
    }

    /// Returns the leaf of a key, and verifies what of the way to it was not read before.
    #[cold]
    fn read_leaf(&self, pages: &PageSource<'_>, key: &[u8]) -> Result<Option<u64>, Damage> {
        let range = self.leaf_of(pages, Some(key))?;
        Ok(range.map(|range| range.leaf))
    }

    /// Finds the entry of a key if it leads to this record. Reads no record.
    pub(crate) fn entry_of(
        &self,
        pages: &PageSource<'_>,
        key: &[u8],
        record: u64,
    ) -> Result<Option<EntrySlot>, Damage> {
        let medium = pages.medium();
        let Some(leaf) = self.leaf(pages, key)? else {
            return Ok(None);
        };
        let mut slots = LeafLine::load(medium, leaf).matches(fingerprint(key));
        Ok(slots.find(|slot| slot.record(medium) == record))
    }

    /// Returns the verified leaf that has a key, or the first leaf for `None`.
    pub(crate) fn leaf_of(
        &self,
        pages: &PageSource<'_>,
        key: Option<&[u8]>,
    ) -> Result<Option<LeafRange>, Damage> {
        self.descend(pages, |branch| {
            key.map_or(0, |key| branch.separators.child_of(key))
        })
    }

    /// Returns the verified leaf that has the keys right below a key, or the last leaf for `None`.
    pub(crate) fn leaf_below(
        &self,
        pages: &PageSource<'_>,
        key: Option<&[u8]>,
    ) -> Result<Option<LeafRange>, Damage> {
        self.descend(pages, |branch| match key {
            Some(key) => branch.separators.child_below(key),
            None => branch.separators.len(),
        })
    }

    fn descend(
        &self,
        pages: &PageSource<'_>,
        choose: impl Fn(&TreeBranch) -> usize,
    ) -> Result<Option<LeafRange>, Damage> {
        let Some(mut at) = self.root.as_deref() else {
            return Ok(None);
        };
        let mut expected = self.expected_root();
        loop {
            let branch = at.get(pages, &expected)?;
            let child = choose(branch);
            expected = expected.child(branch, child);
            match &branch.children {
                Children::Branches(branches) => at = &branches[child],
                Children::Leaves(leaves) => {
                    let key = |(separators, at): (&BranchSeparators, usize)| separators.get(at);
                    let range = LeafRange {
                        leaf: leaves[child],
                        from: expected.from.map(key),
                        to: expected.to.map(key),
                    };
                    if !branch.is_verified(child) {
                        leaf_bounds::verify(pages, self.store, &range)?;
                        branch.set_verified(child);
                    }
                    return Ok(Some(range));
                }
            }
        }
    }

    /// Calls `each` with the offset of every branch, and `leaf` with that of every leaf, which is not read.
    pub(crate) fn walk(
        &self,
        pages: &PageSource<'_>,
        each: &mut dyn FnMut(u64),
        leaf: &mut dyn FnMut(u64) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        fn visit(
            pages: &PageSource<'_>,
            at: &BranchRef,
            expected: &ExpectedBranch<'_>,
            each: &mut dyn FnMut(u64),
            leaf: &mut dyn FnMut(u64) -> Result<(), Damage>,
        ) -> Result<(), Damage> {
            each(at.page);
            let branch = at.get(pages, expected)?;
            match &branch.children {
                Children::Leaves(leaves) => leaves.iter().try_for_each(|page| {
                    pages.check(*page, SegmentKind::Leaves)?;
                    leaf(*page)
                }),
                Children::Branches(branches) => branches.iter().enumerate().try_for_each(|(child, below)| {
                    visit(pages, below, &expected.child(branch, child), each, leaf)
                }),
            }
        }
        match &self.root {
            Some(root) => visit(pages, root, &self.expected_root(), each, leaf),
            None => Ok(()),
        }
    }
}

/// Loads the leaf of a place and verifies it.
pub(crate) fn load_leaf(medium: &Medium, place: LeafPlace) -> Result<Leaf, Damage> {
    // A checkpoint may make entries valid during the copy, which then mixes two states.
    for _ in 0..4 {
        let copy = Leaf::load(medium, place);
        if copy.is_intact() {
            return Ok(copy);
        }
    }
    Err(Damage::leaf(place.offset))
}
