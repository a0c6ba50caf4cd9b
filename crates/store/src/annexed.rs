//! A decided batch that the log lacks, as a reader sees it that may not store it: [`AnnexedBatch`].
//!
//! Its generation is published, so that it is committed, by the process that has decided it or by the next
//! opening. Until then its records are in DRAM, [annexed](halocline_pool::Slab::annex) to what the reader's
//! slab has, and the memtables of the reader lead to them. Nothing that looks a key up knows of them.
//!
//! Invariant: the batch is the newest commit that its reader sees. Whoever commits it gives it the same
//! number.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_media::Annexed;
use xxhash_rust::xxh3::xxh3_64;

use crate::append::push_version;
use crate::commit::BatchOp;
use crate::decided::DecidedObject;
use crate::error::Result;
use crate::memtable::MemEntry;
use crate::record::{NewRecord, RecordRef};
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// A batch whose records a reader has in DRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnnexedBatch {
    /// Its number.
    pub(crate) commit: u64,
    /// xxh3-64 of the records.
    sum: u64,
}

/// A version of the batch.
struct AnnexedVersion {
    store: Arc<StoreState>,
    key: Vec<u8>,
    /// Offset of its record.
    record: u64,
    /// The version before, if it counts: no deleted range hides it.
    old: Option<RecordRef>,
}

impl StoresState {
    /// Lets a reader that is being opened see a batch that the log lacks.
    ///
    /// # Errors
    /// Damage of the batch, or of what it replaces.
    pub(crate) fn annex(&mut self, pending: &DecidedObject) -> Result<AnnexedBatch> {
        let commit = pending.commit();
        let (mut bytes, mut versions) = (Vec::new(), Vec::new());
        for op in self.ops_of(pending)? {
            let (store, key, value) = match op {
                BatchOp::Put {
                    store, key, value, ..
                } => (store, key, Some(value)),
                BatchOp::Delete { store, key } => (store, key, None),
                BatchOp::Merge { .. } | BatchOp::DeleteRange { .. } => continue,
            };
            let (old, is_hidden) = {
                let trees = store.read();
                let located = trees.locate(&self.pages(), &key);
                let located = located.map_err(|damage| self.damaged(damage))?;
                let old = located.map(|located| located.record);
                let hiding = old.and_then(|old| trees.hiding(&key, &old, u64::MAX));
                (old, hiding.is_some())
            };
            if value.is_none() && (is_hidden || old.is_none_or(|old| old.is_deleted())) {
                continue;
            }
            let version = NewRecord {
                store: store.id,
                commit,
                flags: 0,
                expires: None,
                prev: old.map_or(0, |old| old.offset),
                key: &key,
                value: &[],
            };
            let record = push_version(version, value.as_deref(), |record| {
                let offset = Annexed::START + bytes.len() as u64;
                record.write(&mut bytes);
                Ok::<_, crate::StoreError>(offset)
            })?;
            versions.push(AnnexedVersion {
                store,
                key,
                record,
                old: old.filter(|_| !is_hidden),
            });
        }
        let sum = xxh3_64(&bytes);
        self.slab.annex(bytes);
        for version in versions {
            self.show(version).map_err(|damage| self.damaged(damage))?;
        }
        self.committer().commit = commit;
        self.visible.store(commit, Ordering::Release);
        Ok(AnnexedBatch { commit, sum })
    }

    fn show(&self, version: AnnexedVersion) -> Result<(), Damage> {
        let record = RecordRef::load(self.medium(), version.record).ok_or(Damage::record(version.record))?;
        self.count(&version.store, version.old.as_ref(), &record)?;
        let mut trees = version.store.write();
        trees.note_newer(&version.key, &record);
        trees.active.set(&version.key, MemEntry::Record(version.record));
        Ok(())
    }
}
