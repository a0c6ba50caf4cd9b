//! What runs of entries are read from: the leaves of one parent, each read at one version.

use crate::TreeError;
use crate::scan::{LeafScan, ScanDirection, run};

use super::descend::PersistentParentSnapshot;
use super::format::NodeFormat;
use super::tree::PersistentTree;

impl<F: NodeFormat> LeafScan for PersistentTree<F> {
    type Snapshot = PersistentParentSnapshot;

    const AHEAD: usize = 6;

    const LIKELY: usize = F::CAPACITY * 5 / 8;

    fn family_of(&self, key: u64) -> Result<PersistentParentSnapshot, TreeError> {
        self.family(key)
    }

    #[inline(always)]
    fn place(family: &PersistentParentSnapshot, key: u64) -> (usize, usize) {
        (family.entries.child(key), family.entries.len())
    }

    #[inline(always)]
    fn keys(family: &PersistentParentSnapshot) -> (u64, u64) {
        family.keys()
    }

    /// Only the one to the right is known.
    fn fetch_beside(&self, family: &PersistentParentSnapshot, way: ScanDirection) {
        if way == ScanDirection::Ascending {
            self.at(family.right).fetch();
        }
    }

    #[inline(always)]
    fn fetch_leaf(&self, family: &PersistentParentSnapshot, slot: usize) {
        self.at(family.entries[slot].1).fetch();
    }

    /// Reads the leaf that the key belongs to, probably this one.
    #[inline]
    fn append(
        &self,
        family: &PersistentParentSnapshot,
        slot: usize,
        key: u64,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<Option<(u64, u64)>, TreeError> {
        let number = self.number(family.entries[slot].1);
        let version = match self.locks.read(number) {
            Some(version) if number != 0 && self.visited.has(number) => version,
            // Finds out what is the matter.
            _ => return self.leaf_for(key).map(|_| None),
        };
        let node = self.node(number);
        let keys = (node.low(), node.high());
        let agrees = keys == (family.entries[slot].0, family.high(slot));
        if !(agrees && node.is::<F>(0) && node.covers(key)) {
            // A leaf with other keys than its parent says would make the run leave out some, or never end.
            return self.verify_place(key, 0).map(|()| None);
        }
        F::each(node, |key, value| into.push((key, value)));
        if !self.locks.validate(number, version) {
            return Ok(None);
        }
        self.intact(number)?;
        Ok(Some(keys))
    }
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Whether there are no entries; counts none.
    pub(crate) fn is_empty(&self) -> bool {
        let mut some = Vec::new();
        match run(self, ScanDirection::Ascending, 0, 1, &mut some) {
            Ok(()) => some.is_empty(),
            // Nobody knows what is in a damaged node.
            Err(_) => false,
        }
    }
}
