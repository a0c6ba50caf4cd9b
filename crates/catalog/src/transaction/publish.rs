//! Commit of a transaction that is too large for the log: all changes become segments, and a generation is
//! published.
//!
//! The indexes of changed tables get an Elf for each new segment. The log is named anew and empty, twice as
//! large if it was full, up to 16 MiB.
//!
//! On a full disk, a transaction whose statements only free space makes no segments: it marks deleted rows,
//! and the rest of the small changes are carried on in a smaller log. For that it may use the reserve of the
//! pool.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use halocline_columns::{Table, TableWriter, delete_rows};
use halocline_elf::{ElfError, refresh_index};
use halocline_pool::ReserveUse;
use halocline_sql::EngineError;
use halocline_store::DecidedBatch;

use super::Transaction;
use crate::delta::{TableChanges, TableDelta, encode};
use crate::tuning::EngineFault;
use crate::{LOG_OBJECT, OpenTable, index_object};

/// Bytes of a log that carries changes on while the disk is full, beside these.
const CARRIED_LOG_BYTES: u64 = 64 << 10;

/// Bytes up to which a log doubles each time it is full.
const LOG_MAX_BYTES: u64 = 16 << 20;

/// The commit of a transaction together with a batch of the stores.
pub(super) type CommitDecision<'a> = Box<dyn FnOnce(&DecidedBatch) -> Result<(), EngineError> + 'a>;

impl Transaction {
    /// Makes segments of the added rows of a table, and marks its deleted rows in the segments there are.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn fold(&mut self, open: &OpenTable) -> Result<(), EngineError> {
        self.fold_named(open.table.uid(), open.table.name())
    }

    /// Does the same as [`fold`](Self::fold); reads only metadata and deleted rows of the table.
    fn fold_named(&mut self, uid: u64, name: &str) -> Result<(), EngineError> {
        let Some(delta) = self.delta.table(uid).cloned() else {
            return Ok(());
        };
        let forgotten = self.engine.tuning.injected(EngineFault::ForgetDeletions);
        // Before rows are added: it fails without a trace if the rows deleted before are damaged.
        if !delta.deleted().is_empty() && !forgotten {
            delete_rows(&self.txn, name, delta.deleted())?;
        }
        if delta.live_rows() > 0 {
            let mut writer = TableWriter::append(&self.txn, name, self.engine.table_options())?;
            for (start, batch) in delta.batches() {
                let live = if self.engine.tuning.injected(EngineFault::FoldGoneRows) {
                    RecordBatch::clone(batch)
                } else {
                    live_rows(&delta, *start, batch)?
                };
                writer.write(&live)?;
            }
            writer.finish()?;
        }
        self.delta.forget(uid);
        self.changed([uid]);
        Ok(())
    }

    /// Folds every table. A damaged table keeps the changes that the log held before, and does not prevent
    /// others from publishing.
    ///
    /// # Errors
    /// The pool cannot be written; the transaction has changed a table that is damaged.
    pub(super) fn fold_all(&mut self) -> Result<(), EngineError> {
        let uids: Vec<u64> = self.delta.tables().map(|(uid, _)| uid).collect();
        for uid in uids {
            let name = self.objects().named(uid)?.0.clone();
            match self.fold_named(uid, &name) {
                Err(error) if error.is_damage() && !self.has_changed(uid) => {}
                folded => folded?,
            }
        }
        Ok(())
    }

    /// Returns true if the transaction itself has small changes of this table.
    fn has_changed(&self, uid: u64) -> bool {
        match (self.base.delta().table(uid), self.delta.table(uid)) {
            (Some(before), Some(now)) => !Arc::ptr_eq(before, now),
            (before, now) => before.is_some() != now.is_some(),
        }
    }

    /// Returns the changes of tables that are damaged as the first record of the next log.
    fn unfolded(&self) -> Result<Vec<Vec<u8>>, EngineError> {
        let changes: TableChanges = self
            .delta
            .tables()
            .flat_map(|(uid, delta)| delta.changes().map(move |change| (uid, change)))
            .collect();
        if changes.is_empty() || self.engine.tuning.injected(EngineFault::ForgetUnfolded) {
            Ok(Vec::new())
        } else {
            Ok(vec![encode(&changes)?])
        }
    }

    /// Publishes all changes.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub(super) fn publish(mut self, cancel: &AtomicBool) -> Result<(), EngineError> {
        self.prepare(cancel)?;
        self.publish_prepared()
    }

    /// Commits together with changes of the stores, all or nothing: `commit` commits those, and hands
    /// [`CommitDecision`] to the stores, which makes both visible at one moment.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit) and of `commit`.
    pub fn commit_with_stores(
        mut self,
        cancel: &AtomicBool,
        commit: impl FnOnce(CommitDecision<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.prepare(cancel)?;
        let engine = Arc::clone(&self.engine);
        let mut moment = None;
        commit(Box::new(|batch| {
            batch.put_into(&self.txn)?;
            moment = Some(engine.stores.commit_moment());
            self.publish_prepared()?;
            engine.tuning.die_if(EngineFault::DieDecided);
            Ok(())
        }))?;
        engine.tuning.die_if(EngineFault::DieCommitted);
        Ok(())
    }

    /// Makes segments of all small changes, and brings indexes up to date, so that only the commit is left.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    fn prepare(&mut self, cancel: &AtomicBool) -> Result<(), EngineError> {
        let Some(purpose) = self.frees else {
            return self.prepare_folded(cancel);
        };
        let savepoint = self.savepoint();
        match self.prepare_folded(cancel) {
            Err(error) if error.is_full() => {
                self.undo(savepoint)?;
                self.prepare_carried(purpose, cancel)?;
            }
            prepared => prepared?,
        }
        self.txn.use_reserve(ReserveUse::Dropping);
        Ok(())
    }

    /// Does the same as [`prepare`](Self::prepare) with the reserve of the pool: rows are marked as deleted
    /// as far as there is room, and no segments are made.
    fn prepare_carried(&mut self, purpose: ReserveUse, cancel: &AtomicBool) -> Result<(), EngineError> {
        self.txn.use_reserve(purpose);
        let changed = self.delta.tables().map(|(uid, _)| uid);
        let changed: Vec<u64> = changed.filter(|uid| self.has_changed(*uid)).collect();
        for uid in changed {
            let savepoint = self.savepoint();
            match self.mark_deleted(uid) {
                Err(error) if error.is_full() => self.undo(savepoint)?,
                marked => marked?,
            }
        }
        self.txn.use_reserve(ReserveUse::Dropping);
        self.refresh_indexes(cancel)?;
        let carried = self.unfolded()?;
        // Without a log, changes that are not in segments would be lost.
        if self.txn.get(LOG_OBJECT).is_some() || self.wants_log || !carried.is_empty() {
            self.txn.put_log_with(LOG_OBJECT, CARRIED_LOG_BYTES, carried)?;
        }
        Ok(())
    }

    /// Marks the deleted rows of a table in the segments there are.
    fn mark_deleted(&mut self, uid: u64) -> Result<(), EngineError> {
        let Some(delta) = self.delta.table(uid).cloned() else {
            return Ok(());
        };
        if !delta.deleted().is_empty() {
            let name = self.objects().named(uid)?.0.clone();
            delete_rows(&self.txn, &name, delta.deleted())?;
            self.delta.forget_deleted(uid);
            self.changed([uid]);
        }
        Ok(())
    }

    /// Makes segments of all small changes, and brings indexes up to date.
    fn prepare_folded(&mut self, cancel: &AtomicBool) -> Result<(), EngineError> {
        if !self.engine.tuning.injected(EngineFault::ForgetLog) {
            self.fold_all()?;
        }
        if !self.engine.tuning.injected(EngineFault::StaleIndex) {
            self.refresh_indexes(cancel)?;
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(EngineError::Cancelled);
        }
        let log = self.txn.get(LOG_OBJECT).map(|log| log.bytes());
        if log.is_some() || self.wants_log {
            // A log that exists although a record found no room was full.
            let factor = if self.wants_log { 2 } else { 1 };
            let least = self.engine.tuning.log_bytes;
            let bytes = log.map_or(least, |bytes| (bytes * factor).clamp(least, LOG_MAX_BYTES));
            let unfolded = self.unfolded()?;
            self.txn.put_log_with(LOG_OBJECT, bytes, unfolded)?;
        }
        Ok(())
    }

    /// Publishes what [`prepare`](Self::prepare) has made.
    ///
    /// # Errors
    /// The pool cannot be written.
    fn publish_prepared(self) -> Result<(), EngineError> {
        let Self {
            engine,
            txn,
            base,
            objects,
            only_rewrites,
            ..
        } = self;
        let before = base.version();
        // Neither the transaction's own view nor the version before must keep the space that this frees.
        drop((base, objects));
        engine.cache.forget();
        let txn = Arc::try_unwrap(txn).map_err(|_| EngineError::TransactionBusy)?;
        if only_rewrites {
            // Locked until it is known whether it was published: by then others may have the writer's lock.
            let mut rewrites = engine.rewrites.lock().unwrap_or_else(PoisonError::into_inner);
            let generation = txn.commit()?;
            if generation != before.0 {
                rewrites.add(before, generation);
            }
        } else {
            txn.commit()?;
        }
        engine.published();
        Ok(())
    }

    /// Brings the indexes of all touched tables up to date: new segments get an Elf, those of gone segments
    /// go. An index on a column whose new values have no codes is dropped.
    fn refresh_indexes(&mut self, cancel: &AtomicBool) -> Result<(), EngineError> {
        let options = self.engine.index_options();
        for uid in std::mem::take(&mut self.touched) {
            // A table that was dropped has taken its indexes with it.
            let Ok(open) = self.objects().table_of(uid) else {
                continue;
            };
            let table = Table::open_in(&self.txn, open.table.name())?;
            let objects = Arc::clone(self.objects());
            for index in objects.indexes() {
                if index.table.as_deref() == Some(table.name()) {
                    match refresh_index(&self.txn, &table, &index.name, &options, cancel) {
                        // Rows have values now that have no codes. They were acknowledged, so the index goes.
                        Err(ElfError::NotIndexable { .. }) => {
                            self.txn.remove(&index_object(&index.name))?;
                        }
                        refreshed => {
                            refreshed?;
                        }
                    }
                }
            }
        }
        self.objects = None;
        Ok(())
    }
}

/// Returns the rows of a batch of the delta that are not deleted.
fn live_rows(delta: &TableDelta, start: usize, batch: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let rows = start..start + batch.num_rows();
    if delta.are_live(&rows) {
        return Ok(batch.clone());
    }
    let live: BooleanArray = rows.map(|row| Some(!delta.is_gone(row))).collect();
    filter_record_batch(batch, &live).map_err(EngineError::from)
}
