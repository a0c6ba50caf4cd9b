//! The tree of a store as of the last checkpoint: branches in DRAM above leaves on the slow tier.

use std::sync::Arc;

use halocline_media::Medium;

use crate::branch::{BranchRef, BranchSeparators, Children, TreeBranch};
use crate::leaf::{EntrySlot, Leaf, LeafLine, fingerprint};
use crate::record::RecordRef;

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
}

/// A tree: empty, or a root.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub(crate) root: Option<Arc<BranchRef>>,
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

impl Tree {
    /// Finds the entry of a key.
    #[inline]
    pub(crate) fn find(&self, medium: &Medium, key: &[u8]) -> Result<Option<(EntrySlot, RecordRef)>, Damage> {
        let Some(leaf) = self.leaf(medium, key)? else {
            return Ok(None);
        };
        let line = LeafLine::load(medium, leaf);
        for slot in line.matches(fingerprint(key)) {
            let offset = slot.record(medium);
            let record = RecordRef::load(medium, offset).ok_or_else(|| Damage::record(offset))?;
            if record.is_of(medium, key) {
                return Ok(Some((slot, record)));
            }
            // Most entries of other keys have another slice, too. One with the same slice may be damaged.
            if slot.slice(medium) == line.slice(key) && record.contents(medium).is_none() {
                return Err(Damage::record(offset));
            }
        }
        Ok(None)
    }

    /// Returns the verified leaf of a key.
    #[inline]
    pub(crate) fn leaf(&self, medium: &Medium, key: &[u8]) -> Result<Option<u64>, Damage> {
        let Some(mut at) = self.root.as_deref() else {
            return Ok(None);
        };
        loop {
            let branch = at.get(medium).ok_or_else(|| Damage::branch(at.page))?;
            let child = branch.separators.child_of(key);
            match &branch.children {
                Children::Branches(branches) => at = &branches[child],
                Children::Leaves(leaves) => {
                    verify(medium, branch, child, leaves[child])?;
                    return Ok(Some(leaves[child]));
                }
            }
        }
    }

    /// Finds the entry of a key if it leads to this record. Reads no record.
    pub(crate) fn entry_of(
        &self,
        medium: &Medium,
        key: &[u8],
        record: u64,
    ) -> Result<Option<EntrySlot>, Damage> {
        let Some(leaf) = self.leaf(medium, key)? else {
            return Ok(None);
        };
        let mut slots = LeafLine::load(medium, leaf).matches(fingerprint(key));
        Ok(slots.find(|slot| slot.record(medium) == record))
    }

    /// Returns the leaf that has a key, or the first leaf for `None`.
    pub(crate) fn leaf_of(&self, medium: &Medium, key: Option<&[u8]>) -> Result<Option<LeafRange>, Damage> {
        self.descend(medium, |branch| {
            key.map_or(0, |key| branch.separators.child_of(key))
        })
    }

    /// Returns the leaf that has the keys right below a key, or the last leaf for `None`.
    pub(crate) fn leaf_below(
        &self,
        medium: &Medium,
        key: Option<&[u8]>,
    ) -> Result<Option<LeafRange>, Damage> {
        self.descend(medium, |branch| match key {
            Some(key) => branch.separators.child_below(key),
            None => branch.separators.len(),
        })
    }

    fn descend(
        &self,
        medium: &Medium,
        choose: impl Fn(&TreeBranch) -> usize,
    ) -> Result<Option<LeafRange>, Damage> {
        let Some(mut at) = self.root.as_deref() else {
            return Ok(None);
        };
        let (mut from, mut to) = (None, None);
        loop {
            let branch = at.get(medium).ok_or_else(|| Damage::branch(at.page))?;
            let child = choose(branch);
            if let Some(before) = child.checked_sub(1) {
                from = Some((&branch.separators, before));
            }
            if child < branch.separators.len() {
                to = Some((&branch.separators, child));
            }
            match &branch.children {
                Children::Branches(branches) => at = &branches[child],
                Children::Leaves(leaves) => {
                    let key = |(separators, at): (&BranchSeparators, usize)| separators.get(at);
                    return Ok(Some(LeafRange {
                        leaf: leaves[child],
                        from: from.map(key),
                        to: to.map(key),
                    }));
                }
            }
        }
    }

    /// Calls `each` with the offset and level of every branch, and `leaf` with every leaf.
    pub(crate) fn walk(
        &self,
        medium: &Medium,
        each: &mut dyn FnMut(u64),
        leaf: &mut dyn FnMut(u64) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        fn visit(
            medium: &Medium,
            at: &BranchRef,
            each: &mut dyn FnMut(u64),
            leaf: &mut dyn FnMut(u64) -> Result<(), Damage>,
        ) -> Result<(), Damage> {
            each(at.page);
            let branch = at.get(medium).ok_or_else(|| Damage::branch(at.page))?;
            match &branch.children {
                Children::Leaves(leaves) => leaves.iter().try_for_each(|page| leaf(*page)),
                Children::Branches(branches) => branches
                    .iter()
                    .try_for_each(|branch| visit(medium, branch, each, leaf)),
            }
        }
        match &self.root {
            Some(root) => visit(medium, root, each, leaf),
            None => Ok(()),
        }
    }
}

/// Verifies a leaf when it is first read.
#[inline]
fn verify(medium: &Medium, branch: &TreeBranch, child: usize, leaf: u64) -> Result<(), Damage> {
    if !branch.is_verified(child) {
        load_leaf(medium, leaf)?;
        branch.set_verified(child);
    }
    Ok(())
}

/// Loads a leaf and verifies it.
pub(crate) fn load_leaf(medium: &Medium, leaf: u64) -> Result<Leaf, Damage> {
    // A checkpoint may make entries valid during the copy, which then mixes two states.
    for _ in 0..4 {
        let copy = Leaf::load(medium, leaf);
        if copy.is_intact() {
            return Ok(copy);
        }
    }
    Err(Damage::leaf(leaf))
}
