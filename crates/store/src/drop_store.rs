//! Dropping of a store.
//!
//! Segments of the log in which only records of the store have ever counted as needed become free as they
//! are, so that dropping a large store reads its branches and little else. In segments that it shares, its
//! records are counted as not needed any more.
//!
//! Invariants: nothing of the store is used again before the next checkpoint, which does not name it any
//! more. Until then a crash leaves the store as it was.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::error::Result;
use crate::fault::{StoreFault, injected};
use crate::key_range::KeyRange;
use crate::layout::SEGMENT;
use crate::log::records_of;
use crate::record::RecordRef;
use crate::segments::SegmentKind::{Branches, Leaves};
use crate::segments::{RecordsOf, SegmentKind};
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// Bytes that it costs to look at a key, in bytes of segments that are read one after the other.
const BYTES_PER_KEY: u64 = 4 << 10;

impl StoresState {
    /// Removes a store from the list, and its records and pages from what is in use. `None` if there is none.
    /// O(branches), and for segments that the store shares with others O(records in them).
    pub(crate) fn drop_store(&self, name: &str) -> Result<Option<()>> {
        // Pages change with checkpoints only.
        let _no_checkpoint = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        self.writable()?;
        self.settle()?;
        let Some(store) = self.stores().get(name).cloned() else {
            return Ok(None);
        };
        let (mut branches, mut leaves) = (Vec::new(), Vec::new());
        let tree = store.read().tree.clone();
        let walked = tree.walk(&self.pages(), &mut |branch| branches.push(branch), &mut |leaf| {
            leaves.push(leaf);
            Ok(())
        });
        walked.map_err(|damage| self.damaged(damage))?;
        let shared = {
            let mut committer = self.committer();
            self.writable()?;
            // Whoever reads the store is done with it.
            let trees = store.write();
            store.dropped.store(true, Ordering::Release);
            drop(trees);
            self.stores_mut().remove(name);
            committer.deletions.retain(|_, keys| {
                keys.retain(|(of, _)| of.id != store.id);
                !keys.is_empty()
            });
            let freed = &mut committer.freed.pages;
            freed.extend(branches.into_iter().map(|page| (page, Branches)));
            freed.extend(leaves.into_iter().map(|page| (page, Leaves)));
            let (own, shared) = self.segments_of(store.id);
            let current = committer.log.position().segment;
            let mut segments = self.segments();
            for segment in own {
                segments.forget_all(segment);
                if segment != current {
                    segments.set_emptied(segment);
                    committer.freed.segments.push(segment);
                }
            }
            shared
        };
        // Nobody changes the store any more. What cannot be read of it stays counted.
        if let Err(error) = self.forget_shared(&store, &shared) {
            tracing::warn!(store = name, %error, "some space of a dropped store stays counted");
        }
        // Nothing is read in its trees any more, and their pages may be used again.
        *store.write() = Default::default();
        if injected(StoreFault::FreeDropped) {
            self.free_early(&[])?;
        }
        Ok(Some(()))
    }

    /// Returns the log segments in use in which only a store has ever had records, and those in which it may
    /// have some beside others.
    fn segments_of(&self, id: u32) -> (Vec<u64>, BTreeSet<u64>) {
        let segments = self.segments();
        let logs = segments
            .iter()
            .filter(|(offset, segment)| segment.kind == SegmentKind::Log && !segments.is_emptied(*offset));
        let (mut own, mut shared) = (Vec::new(), BTreeSet::new());
        for (offset, segment) in logs {
            match segment.store {
                RecordsOf::Store(of) if of == id => own.push(offset),
                RecordsOf::Several if segment.used > 0 => drop(shared.insert(offset)),
                RecordsOf::Store(_) | RecordsOf::Several | RecordsOf::None => {}
            }
        }
        (own, shared)
    }

    /// Counts the records of a dropped store as not needed in segments that it shares with others: by its
    /// keys or by the records of the segments, whatever is less.
    fn forget_shared(&self, store: &Arc<StoreState>, shared: &BTreeSet<u64>) -> Result<()> {
        let damaged = |damage: Damage| self.damaged(damage);
        // Older versions are not needed either: who reads them fails from now on.
        let is_of = |record: u64| {
            let record = RecordRef::load(self.medium(), record);
            record.is_some_and(|record| record.head.store.get() == store.id)
        };
        let kept = self.snapshots().drop_kept(is_of);
        kept.into_iter().for_each(|kept| self.forget_kept(kept));
        let forget = |record: RecordRef| self.forget(&record).map_err(damaged);
        let by_key = store.keys.load(Ordering::Relaxed).saturating_mul(BYTES_PER_KEY);
        if by_key < shared.len() as u64 * SEGMENT {
            let mut newest = Vec::new();
            self.for_each_newest(store, &KeyRange::ALL, |_, record| newest.push(record))?;
            // In its own segments nothing counts any more.
            return newest.into_iter().try_for_each(forget);
        }
        for segment in shared {
            let records = records_of(self.medium(), *segment);
            let records = records.map_err(|offset| damaged(Damage::record(offset)))?.0;
            let of_store = records
                .iter()
                .filter(|record| record.head.store.get() == store.id);
            for record in of_store {
                if self.is_newest(store, record).map_err(damaged)? {
                    let expires = record.expires(self.medium()).unwrap_or(0);
                    self.segments().remove_live(record.offset, record.len(), expires);
                }
            }
            self.end_turn();
        }
        Ok(())
    }

    /// Returns true if a record is the newest one of its key, or a chunk of its value.
    fn is_newest(&self, store: &StoreState, record: &RecordRef) -> Result<bool, Damage> {
        let medium = self.medium();
        let (key, trees) = (record.key(medium), store.read());
        if !record.is_chunk() {
            return Ok(trees.locate_newest(&self.pages(), &key, record)?.is_some());
        }
        let Some(newest) = trees.locate(&self.pages(), &key)?.map(|located| located.record) else {
            return Ok(false);
        };
        Ok(newest.commit() == record.commit() && self.extent_of(&newest)?.1.contains(&record.offset))
    }
}
