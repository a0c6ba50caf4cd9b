//! What runs of entries are read from: the leaves of one inner node, each validated by its own version and the parent's.

use halocline_media::LINE;

use crate::TreeError;
use crate::inner::ParentSnapshot;
use crate::scan::{LeafScan, ScanDirection};

use super::leaves::LeafFormat;
use super::tree::HybridTree;

/// How many lines are asked for ahead.
const AHEAD: u64 = 64;

impl<L: LeafFormat> LeafScan for HybridTree<L> {
    type Snapshot = ParentSnapshot;

    const AHEAD: usize = {
        let leaves = AHEAD * LINE / L::BYTES;
        if leaves > 1 { leaves as usize } else { 2 }
    };

    /// Those of a tree that has grown by inserts are full to two thirds.
    const LIKELY: usize = L::ENTRIES * 5 / 8;

    #[inline]
    fn family_of(&self, key: u64) -> Result<ParentSnapshot, TreeError> {
        Ok(self.inner.family(key))
    }

    #[inline(always)]
    fn place(family: &ParentSnapshot, _: u64) -> (usize, usize) {
        (family.slot, family.leaves().len())
    }

    #[inline(always)]
    fn keys(family: &ParentSnapshot) -> (u64, u64) {
        family.keys()
    }

    #[inline(always)]
    fn fetch_beside(&self, family: &ParentSnapshot, way: ScanDirection) {
        self.inner.prefetch_all(match way {
            ScanDirection::Ascending => family.right,
            ScanDirection::Descending => family.left,
        });
    }

    #[inline(always)]
    fn fetch_leaf(&self, family: &ParentSnapshot, slot: usize) {
        L::fetch_all(self.at(family.leaves()[slot]));
    }

    #[inline]
    fn append(
        &self,
        family: &ParentSnapshot,
        slot: usize,
        _: u64,
        into: &mut Vec<(u64, u64)>,
    ) -> Result<Option<(u64, u64)>, TreeError> {
        let number = family.leaves()[slot];
        let Some(version) = self.locks.read(number) else {
            return Ok(None);
        };
        if !self.inner.is_current_family(family) {
            return Ok(None);
        }
        L::append(self.at(number), self.inner.vectors(), into);
        if !self.locks.validate(number, version) {
            return Ok(None);
        }
        self.intact(number)?;
        Ok(Some((family.low(slot), family.high(slot))))
    }
}
