//! Deletion of ranges of many keys: [`DeletedRange`].
//!
//! One record in the log deletes the range, for all readers at once. From then on a version of a key in the
//! range is hidden if its commit is an older one. The keys are deleted one by one after that, by records of
//! the same commit, in steps between which other commits go on. Once every key has its own deletion, the
//! range is dropped. Other commits therefore never wait for a time that grows with the range.
//!
//! Invariants: a range is in the list of its store as long as a key in it lacks a deletion of its own. A
//! checkpoint appends the remaining range to the log, after its own log position. A new value of a hidden key
//! follows a deletion of the key with the commit of the range, so that snapshots in between do not see the
//! version before. If several ranges hide the key, that deletion carries the commit of the oldest range.
//!
//! Scans [skip](crate::hiding_range) the keys that a range hides.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use zerocopy::{FromBytes, IntoBytes};

use crate::committer::Committer;
use crate::error::Result;
use crate::fault::{StoreFault, injected};
use crate::hiding_range::HidingRange;
use crate::key_range::KeyRange;
use crate::layout::{BOUND_EXCLUDED, BOUND_INCLUDED, BOUND_NONE, RECORD_RANGE, RangeBounds};
use crate::newer_keys::NewerKeys;
use crate::record::{NewRecord, RecordRef};
use crate::scan::{Direction, NewestRecord, StepSize, StepSpace};
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// A range whose keys a commit has deleted, as far as they lack deletions of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeletedRange {
    pub(crate) commit: u64,
    pub(crate) range: KeyRange,
}

/// The versions of keys in a deleted range, as a reader sees them.
#[derive(Debug, Default)]
struct HiddenVersions {
    /// True if the range hides a key from the reader.
    hides_any: bool,
    /// Keys with versions newer than the range.
    newer: NewerKeys,
    /// Versions that the reader's counters include and no other range hides.
    counted: Vec<RecordRef>,
}

impl DeletedRange {
    /// Returns true if the range hides a version of a key of this commit.
    #[inline]
    pub(crate) fn hides(&self, key: &[u8], commit: u64) -> bool {
        commit < self.commit && self.range.contains(key)
    }

    /// Returns true if readers that see the range see no version of a key in it: the range hides the newest
    /// one, and with it all older ones, or the newest one is the key's own deletion by the commit of the
    /// range.
    #[inline]
    pub(crate) fn hides_newest(&self, newest: &RecordRef) -> bool {
        newest.commit() < self.commit || newest.commit() == self.commit && newest.is_deleted()
    }

    /// Returns the value of the record that deletes the range.
    pub(crate) fn encode(&self) -> Vec<u8> {
        fn parts(bound: &Bound<Vec<u8>>) -> (u8, &[u8]) {
            match bound {
                Bound::Unbounded => (BOUND_NONE, &[]),
                Bound::Included(key) => (BOUND_INCLUDED, key),
                Bound::Excluded(key) => (BOUND_EXCLUDED, key),
            }
        }
        let ((from, from_key), (to, to_key)) = (parts(&self.range.from), parts(&self.range.to));
        let head = RangeBounds {
            from,
            to,
            from_len: (from_key.len() as u16).into(),
            to_len: (to_key.len() as u16).into(),
        };
        [head.as_bytes(), from_key, to_key].concat()
    }

    /// Decodes the value of a record. `None` if it is not one of a range.
    fn decode(commit: u64, value: &[u8]) -> Option<Self> {
        let (head, rest) = RangeBounds::read_from_prefix(value).ok()?;
        let (from, to) = rest.split_at_checked(head.from_len.get().into())?;
        let bound = |kind: u8, key: &[u8]| match kind {
            BOUND_NONE => Some(Bound::Unbounded),
            BOUND_INCLUDED => Some(Bound::Included(key.to_vec())),
            BOUND_EXCLUDED => Some(Bound::Excluded(key.to_vec())),
            _ => None,
        };
        let range = KeyRange {
            from: bound(head.from, from)?,
            to: bound(head.to, to)?,
        };
        (to.len() == usize::from(head.to_len.get())).then_some(Self { commit, range })
    }

    /// Returns the record that deletes the range.
    pub(crate) fn record<'a>(&self, store: u32, value: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            store,
            commit: self.commit,
            flags: RECORD_RANGE,
            expires: None,
            prev: 0,
            key: &[],
            value,
        }
    }
}

impl StoresState {
    /// Adds the range of a record of the log.
    pub(crate) fn replay_range(&self, store: &StoreState, record: &RecordRef) -> Result<(), Damage> {
        let contents = record.contents(self.medium());
        let contents = contents.ok_or_else(|| Damage::record(record.offset))?;
        let deleted = DeletedRange::decode(record.commit(), contents.value());
        let deleted = deleted.ok_or_else(|| Damage::record(record.offset))?;
        // The log has all versions since the checkpoint.
        let is_carried = deleted.commit <= self.frozen.load(Ordering::Acquire);
        let hiding = if is_carried && !injected(StoreFault::TrustCarried) {
            HidingRange::unknown(deleted)
        } else {
            HidingRange::new(deleted)
        };
        store.write().deleted.push(hiding);
        Ok(())
    }

    /// Returns true if a store has a range whose keys are to be deleted.
    pub(crate) fn has_deleted_ranges(&self) -> bool {
        let stores = self.stores();
        stores.values().any(|store| !store.read().deleted.is_empty())
    }

    /// Returns the stores with ranges whose keys are to be deleted.
    pub(crate) fn with_deleted_ranges(&self) -> Vec<Arc<StoreState>> {
        let stores = self.stores();
        let with_ranges = stores.values().filter(|store| !store.read().deleted.is_empty());
        with_ranges.cloned().collect()
    }

    /// Appends the deleted ranges of all stores to the log, after the position of a checkpoint.
    ///
    /// # Errors
    /// A full disk, and errors of the medium.
    pub(crate) fn carry_deleted_ranges(&self, committer: &mut Committer) -> Result<()> {
        let stores = self.with_deleted_ranges();
        if stores.is_empty() || injected(StoreFault::ForgetDeletedRanges) {
            return Ok(());
        }
        let mark = committer.log.mark();
        let commit = committer.commit;
        committer.log.begin(commit, false);
        for store in stores {
            for deleted in store.read().deleted.iter().map(HidingRange::deleted) {
                let value = deleted.encode();
                let record = deleted.record(store.id, &value);
                let pushed = committer.log.push(&self.slab, &mut self.segments(), &record);
                if let Err(error) = pushed {
                    self.take_back(committer, mark)?;
                    return Err(error.into());
                }
            }
        }
        committer.log.end(self.medium());
        Ok(self.fence_log(committer)?)
    }

    /// Removes the hidden keys from the counters of a reader, which deletes none, and forgets the ranges that
    /// hide none any more.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn uncount_hidden(&self) -> Result<()> {
        for store in self.with_deleted_ranges() {
            let ranges = store.read().deleted_ranges();
            let mut hiding: Vec<HidingRange> = Vec::new();
            for deleted in ranges {
                let found = self.hidden_versions(&store, &deleted, &hiding);
                let found = found.map_err(|damage| self.damaged(damage))?;
                let mut counted = found.counted.iter();
                let uncounted = counted.try_for_each(|version| self.uncount(&store, version));
                uncounted.map_err(|damage| self.damaged(damage))?;
                if found.hides_any {
                    hiding.push(HidingRange::with_newer(deleted, found.newer));
                }
            }
            store.write().deleted = hiding;
        }
        Ok(())
    }

    /// Reads a deleted range for a reader; `others` are ranges whose hidden versions are found already.
    fn hidden_versions(
        &self,
        store: &StoreState,
        deleted: &DeletedRange,
        others: &[HidingRange],
    ) -> Result<HiddenVersions, Damage> {
        let mut found = HiddenVersions::default();
        let mut space = StepSpace::default();
        let mut rest = Some(deleted.range.clone());
        let checkpoint = self.frozen.load(Ordering::Acquire);
        while let Some(range) = rest {
            let (forward, most) = (Direction::Forward, StepSize::MAX);
            let trees = store.read();
            let end = trees.step(self, &range, forward, most, &mut space, |arena, newest| {
                let (key, newest, version) = match &newest {
                    NewestRecord::OfTable(key, record) => (*key, record, Some(*record)),
                    // The writer may already have pointed the entry at a record beyond the reader's log.
                    NewestRecord::OfLeaf(record, span) => (
                        arena.get(&span.key),
                        record,
                        self.version_at(*record, checkpoint)?,
                    ),
                };
                let is_hidden =
                    |version: &RecordRef| !version.is_deleted() && deleted.hides(key, version.commit());
                if !deleted.hides_newest(newest) && !injected(StoreFault::ForgetNewer) {
                    found.newer.add(key);
                }
                let is_of_other = |version: &RecordRef| {
                    let mut others = others.iter().map(HidingRange::deleted);
                    others.any(|other| other.hides(key, version.commit()))
                };
                let hidden = version.filter(|version| is_hidden(version) && !is_of_other(version));
                // As long as there is the range, the log is not followed, which would count the version
                // again.
                found.hides_any |= is_hidden(newest) || hidden.is_some();
                found.counted.extend(hidden);
                Ok(ControlFlow::Continue(()))
            });
            drop(trees);
            rest = end?.rest(range, forward);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_back() {
        let bound = |key: &[u8]| {
            [
                Bound::Included(key.to_vec()),
                Bound::Excluded(key.to_vec()),
                Bound::Unbounded,
            ]
        };
        for from in bound(b"from") {
            for to in bound(&[0xFF; 1024]) {
                let range = KeyRange {
                    from: from.clone(),
                    to,
                };
                let deleted = DeletedRange { commit: 7, range };
                let value = deleted.encode();
                assert_eq!(DeletedRange::decode(7, &value).as_ref(), Some(&deleted));
                assert_eq!(DeletedRange::decode(7, &value[..5]), None);
                assert_eq!(DeletedRange::decode(7, &[&value[..], b"x"].concat()), None);
            }
        }
        assert_eq!(DeletedRange::decode(7, &[3, 0, 0, 0, 0, 0]), None);
    }
}
