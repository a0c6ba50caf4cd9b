//! Scans: the leaves of one parent, each read at one version.

use crate::TreeError;
use crate::scan::{LeafScanner, ScanDirection, run};

use super::descend::PersistentParentSnapshot;
use super::format::NodeFormat;
use super::tree::PersistentTree;

impl<F: NodeFormat> LeafScanner for PersistentTree<F> {
    type Snapshot = PersistentParentSnapshot;

    const AHEAD: usize = 6;

    const LIKELY: usize = F::CAPACITY * 5 / 8;

    fn snapshot_of(&self, key: u64) -> Result<PersistentParentSnapshot, TreeError> {
        self.parent_snapshot(key)
    }

    #[inline(always)]
    fn place(snapshot: &PersistentParentSnapshot, key: u64) -> (usize, usize) {
        (snapshot.entries.child(key), snapshot.entries.len())
    }

    #[inline(always)]
    fn keys(snapshot: &PersistentParentSnapshot) -> (u64, u64) {
        snapshot.keys()
    }

    /// Prefetches the right sibling; the left one is unknown.
    fn fetch_beside(&self, snapshot: &PersistentParentSnapshot, direction: ScanDirection) {
        if direction == ScanDirection::Ascending {
            self.at(snapshot.right).fetch();
        }
    }

    #[inline(always)]
    fn fetch_leaf(&self, snapshot: &PersistentParentSnapshot, slot: usize) {
        self.at(snapshot.entries[slot].1).fetch();
    }

    /// Reads the leaf of the key, which is probably this one.
    #[inline]
    fn append(
        &self,
        snapshot: &PersistentParentSnapshot,
        slot: usize,
        key: u64,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<Option<(u64, u64)>, TreeError> {
        let number = self.number(snapshot.entries[slot].1);
        let version = match self.locks.read(number) {
            Some(version) if number != 0 && self.visited.has(number) => version,
            // The descent visits the leaf or finds the damage.
            _ => return self.leaf_for(key).map(|_| None),
        };
        let node = self.node(number);
        let keys = (node.low(), node.high());
        let agrees = keys == (snapshot.entries[slot].0, snapshot.high(slot));
        if !(agrees && node.is::<F>(0) && node.covers(key)) {
            // If a leaf's range differs from what the parent says, the scan might skip keys or never end.
            return self.verify_place(key, 0).map(|_| None);
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
    /// Returns true if there are no entries, without counting them.
    pub(crate) fn is_empty(&self) -> bool {
        let mut some = Vec::new();
        match run(self, ScanDirection::Ascending, 0, 1, &mut some) {
            Ok(()) => some.is_empty(),
            // The contents of a damaged node are unknown.
            Err(_) => false,
        }
    }
}
