//! Deleted ranges in DRAM, and where scans go on after the keys that they hide: [`HidingRange`].
//!
//! Entries of leaves are changed in place and memtables are merged into leaves, so neither tells whether a
//! key in a range is newer than the range. [`NewerKeys`] does: each record that gets into the trees after the
//! range is noted there. A scan reads the noted parts and seeks from one to the next, in the tree and in the
//! memtables alike.
//!
//! Invariant: a key of the range with a version that the range does not hide is noted before a reader sees
//! that version. The log has all such versions of a range that was deleted after the checkpoint. Of one that
//! the checkpoint has carried on, the leaves may have some: all of it is unknown after an opening. A reader
//! reads it once when it opens, and the scans of a writer note what they find.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::deleted_ranges::DeletedRange;
use crate::fault::{StoreFault, injected};
use crate::key_cut::KeyCut;
use crate::key_range::KeyRange;
use crate::newer_keys::NewerKeys;
use crate::record::RecordRef;
use crate::scan::Direction;
use crate::state::StoreTrees;

/// A deleted range that still hides keys, and the keys that it may not hide.
#[derive(Debug)]
pub(crate) struct HidingRange {
    deleted: DeletedRange,
    from: KeyCut,
    to: KeyCut,
    /// Locked after the trees of the store, and nothing after it.
    newer: Mutex<NewerKeys>,
}

impl HidingRange {
    /// Returns a range without newer keys.
    pub(crate) fn new(deleted: DeletedRange) -> Self {
        Self::with_newer(deleted, NewerKeys::default())
    }

    /// Returns a range that may have any newer keys.
    pub(crate) fn unknown(deleted: DeletedRange) -> Self {
        let range = &deleted.range;
        let newer = NewerKeys::unknown(KeyCut::start_of(range), KeyCut::end_of(range));
        Self::with_newer(deleted, newer)
    }

    /// Returns a range with these newer keys.
    pub(crate) fn with_newer(deleted: DeletedRange, newer: NewerKeys) -> Self {
        Self {
            from: KeyCut::start_of(&deleted.range),
            to: KeyCut::end_of(&deleted.range),
            deleted,
            newer: Mutex::new(newer),
        }
    }

    #[inline]
    pub(crate) fn deleted(&self) -> &DeletedRange {
        &self.deleted
    }

    /// Replaces the range by its upper part `rest`.
    pub(crate) fn shrink(&mut self, rest: KeyRange) {
        self.from = KeyCut::start_of(&rest);
        self.to = KeyCut::end_of(&rest);
        self.newer().forget_below(&self.from);
        self.deleted.range = rest;
    }

    fn newer(&self) -> MutexGuard<'_, NewerKeys> {
        self.newer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of the hidden part that a scan is at; `None` if the next key may be visible.
    fn end_of_hidden(&self, at: &KeyCut, direction: Direction) -> Option<KeyCut> {
        if !self.is_around(at, direction) {
            return None;
        }
        let newer = self.newer();
        match direction {
            Direction::Forward => match newer.next_after(at) {
                Some((from, _)) if from <= at => None,
                Some((from, _)) => Some(from.min(&self.to).clone()),
                None => Some(self.to.clone()),
            },
            Direction::Backward => match newer.last_before(at) {
                Some((_, to)) if to >= at => None,
                Some((_, to)) => Some(to.max(&self.from).clone()),
                None => Some(self.from.clone()),
            },
        }
    }

    /// Returns true if the next key of a scan is within the range.
    fn is_around(&self, at: &KeyCut, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.from <= *at && *at < self.to,
            Direction::Backward => self.from < *at && *at <= self.to,
        }
    }

    /// Notes that of the keys between two places only these may be visible.
    pub(crate) fn learn(&self, from: &KeyCut, to: &KeyCut, keys: &[Vec<u8>]) {
        let (from, to) = (from.max(&self.from), to.min(&self.to));
        self.newer().replace(from, to, keys);
    }
}

impl StoreTrees {
    /// Returns the commit of the oldest range that hides a version of a key from readers as of a commit.
    ///
    /// A deletion with that commit is as good as all of the ranges, for any snapshot.
    #[inline]
    pub(crate) fn hiding(&self, key: &[u8], version: &RecordRef, as_of: u64) -> Option<u64> {
        if self.deleted.is_empty() {
            return None;
        }
        let hiding = self
            .deleted
            .iter()
            .map(HidingRange::deleted)
            .filter(|deleted| deleted.commit <= as_of && deleted.hides(key, version.commit()));
        let commits = hiding.map(|deleted| deleted.commit);
        if injected(StoreFault::OweNewest) {
            commits.max()
        } else {
            commits.min()
        }
    }

    /// Returns the deleted ranges.
    pub(crate) fn deleted_ranges(&self) -> Vec<DeletedRange> {
        self.deleted.iter().map(|range| range.deleted().clone()).collect()
    }

    /// Notes a record that is put into the trees, for the ranges that do not hide it.
    pub(crate) fn note_newer(&self, key: &[u8], record: &RecordRef) {
        if injected(StoreFault::ForgetNewer) {
            return;
        }
        for range in &self.deleted {
            let deleted = &range.deleted;
            if !deleted.hides_newest(record) && deleted.range.contains(key) {
                range.newer().add(key);
            }
        }
    }

    /// Returns where a scan as of a commit goes on, if it is at a part that ranges hide.
    pub(crate) fn end_of_hidden(&self, at: &KeyCut, as_of: u64, direction: Direction) -> Option<KeyCut> {
        if injected(StoreFault::ReadHidden) {
            return None;
        }
        let mut end: Option<KeyCut> = None;
        loop {
            let from = end.as_ref().unwrap_or(at);
            let hiding = self.deleted.iter().rev();
            let mut hiding = hiding.filter(|range| range.deleted.commit <= as_of);
            match hiding.find_map(|range| range.end_of_hidden(from, direction)) {
                Some(further) => end = Some(further),
                None => return end,
            }
        }
    }

    /// Returns the newest range that hides keys from readers as of a commit where a scan is.
    pub(crate) fn range_around(&self, at: &KeyCut, as_of: u64, direction: Direction) -> Option<&HidingRange> {
        let around = self.deleted.iter().filter(|range| {
            let is_seen = range.deleted.commit <= as_of;
            is_seen && range.is_around(at, direction)
        });
        around.max_by_key(|range| range.deleted.commit)
    }
}
