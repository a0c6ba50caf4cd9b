//! Scans: the leaves of one inner node, each validated by its own version and the parent's.

use halocline_media::LINE;

use crate::TreeError;
use crate::inner::ParentSnapshot;
use crate::scan::{LeafScanner, ScanDirection};

use super::leaves::LeafFormat;
use super::tree::HybridTree;

/// Prefetch distance in lines.
const AHEAD: u64 = 64;

impl<L: LeafFormat> LeafScanner for HybridTree<L> {
    type Snapshot = ParentSnapshot;

    const AHEAD: usize = {
        let leaves = AHEAD * LINE / L::BYTES;
        if leaves > 1 { leaves as usize } else { 2 }
    };

    /// A tree that has grown by inserts is about two thirds full.
    const LIKELY: usize = L::ENTRIES * 5 / 8;

    #[inline]
    fn snapshot_of(&self, key: u64) -> Result<ParentSnapshot, TreeError> {
        Ok(self.inner.parent_snapshot(key))
    }

    #[inline(always)]
    fn place(snapshot: &ParentSnapshot, _: u64) -> (usize, usize) {
        (snapshot.slot, snapshot.leaves().len())
    }

    #[inline(always)]
    fn keys(snapshot: &ParentSnapshot) -> (u64, u64) {
        snapshot.keys()
    }

    #[inline(always)]
    fn fetch_beside(&self, snapshot: &ParentSnapshot, direction: ScanDirection) {
        self.inner.prefetch_all(match direction {
            ScanDirection::Ascending => snapshot.right,
            ScanDirection::Descending => snapshot.left,
        });
    }

    #[inline(always)]
    fn fetch_leaf(&self, snapshot: &ParentSnapshot, slot: usize) {
        L::fetch_all(self.at(snapshot.leaves()[slot]));
    }

    #[inline]
    fn append(
        &self,
        snapshot: &ParentSnapshot,
        slot: usize,
        _: u64,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<Option<(u64, u64)>, TreeError> {
        let number = snapshot.leaves()[slot];
        if !self.ensure_built(number)? {
            return Ok(None);
        }
        let Some(version) = self.locks.read(number) else {
            return Ok(None);
        };
        if !self.inner.is_current_snapshot(snapshot) {
            return Ok(None);
        }
        L::append(self.at(number), self.inner.vectors(), into);
        if !self.locks.validate(number, version) {
            return Ok(None);
        }
        self.intact(number)?;
        Ok(Some((snapshot.low(slot), snapshot.high(slot))))
    }
}
