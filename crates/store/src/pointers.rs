//! The pointers to records: in the entries of keys, and in newer versions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fault::{StoreFault, injected};
use crate::record::RecordRef;
use crate::snapshots::Snapshots;
use crate::state::{Located, StoreState, StoresState};
use crate::tree::Damage;

/// Where the pointer to a record is.
pub(crate) enum Pointer {
    /// In the entry of the key.
    Entry(Located),
    /// In a newer version.
    Version(RecordRef),
}

/// A version that leads nowhere needed, and that a newer one leads to until the next checkpoint.
pub(crate) struct Unlink {
    store: Arc<StoreState>,
    key: Vec<u8>,
    version: RecordRef,
}

impl StoresState {
    /// Finds what points to a record, or to the record whose chunk it is. `None` if nothing does that is
    /// still needed.
    pub(crate) fn pointer_of(
        &self,
        snapshots: &Snapshots,
        store: &Arc<StoreState>,
        key: &[u8],
        record: &RecordRef,
    ) -> Result<Option<(Pointer, RecordRef)>, Damage> {
        let medium = self.medium();
        if !record.is_chunk() {
            let newest = store.read().locate_newest(&self.pages(), key, record)?;
            match newest {
                Some(located) => return Ok(Some((Pointer::Entry(located), *record))),
                None if snapshots.oldest().is_none() => return Ok(None),
                None => {}
            }
        }
        let Some(located) = store.read().locate(&self.pages(), key)? else {
            return Ok(None);
        };
        let is_it = |version: &RecordRef| -> Result<bool, Damage> {
            if !record.is_chunk() {
                return Ok(version.offset == record.offset);
            }
            Ok(version.commit() == record.commit()
                && !injected(StoreFault::DropChunks)
                && self.extent_of(version)?.1.contains(&record.offset))
        };
        let mut version = located.record;
        if is_it(&version)? {
            return Ok(Some((Pointer::Entry(located), version)));
        }
        // Versions before are needed only by snapshots, and by readers beside the writer.
        while snapshots.oldest().is_some_and(|oldest| oldest < version.commit())
            && version.head.prev.get() != 0
        {
            let prev = version.head.prev.get();
            let older = RecordRef::load(medium, prev).ok_or(Damage::record(prev))?;
            let is_seen = snapshots.sees(older.commit(), version.commit());
            if is_it(&older)? {
                if is_seen && !injected(StoreFault::IgnoreSnapshots) {
                    return Ok(Some((Pointer::Version(version), older)));
                }
                let frozen = self.frozen.load(Ordering::Acquire);
                // The deletion of a hidden key may be after the checkpoint whatever its commit.
                let is_behind = frozen < version.commit() || version.is_deleted();
                if older.commit() <= frozen && is_behind {
                    // Replay counts it. It is there until the next checkpoint.
                    self.unlinks().push(Unlink {
                        store: Arc::clone(store),
                        key: key.to_vec(),
                        version: older,
                    });
                } else {
                    let _readers = store.write();
                    version.set_prev(medium, older.head.prev.get());
                }
                return Ok(None);
            }
            version = older;
        }
        Ok(None)
    }

    /// Unlinks versions that no snapshot sees, before their space is used again.
    pub(crate) fn unlink(&self, unlinks: Vec<Unlink>) -> Result<(), Damage> {
        let medium = self.medium();
        for Unlink { store, key, version } in unlinks {
            let trees = store.write();
            let mut newer = trees.locate(&self.pages(), &key)?.map(|located| located.record);
            // Versions of one batch have the same commit.
            let is_newer =
                |record: &RecordRef| record.commit() >= version.commit() && record.offset != version.offset;
            while let Some(record) = newer.filter(is_newer) {
                let prev = record.head.prev.get();
                if prev == version.offset {
                    let version = RecordRef::load(medium, prev).ok_or(Damage::record(prev))?;
                    record.set_prev(medium, version.head.prev.get());
                }
                newer = RecordRef::load(medium, prev).filter(|_| prev != 0 && prev != version.offset);
            }
        }
        Ok(())
    }
}
