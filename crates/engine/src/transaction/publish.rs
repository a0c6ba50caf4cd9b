//! The end of a transaction that is too much for the log: everything becomes segments, and one generation is published.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use halocline_columns::{Table, TableWriter, delete_rows};
use halocline_elf::refresh_index;

use super::Transaction;
use crate::EngineError;
use crate::background::Background;
use crate::catalog::{LOG_OBJECT, OpenTable};
use crate::delta::TableDelta;
use crate::rules::Mistake;

/// Bytes up to which a log doubles each time it is full.
const LOG_MAX_BYTES: u64 = 16 << 20;

impl Transaction {
    /// Makes segments of the added rows of a table, and marks its deleted rows in the segments there are.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub(crate) fn fold(&mut self, open: &OpenTable) -> Result<(), EngineError> {
        let (uid, name) = (open.table.uid(), open.table.name());
        let Some(delta) = self.delta.of(uid).cloned() else {
            return Ok(());
        };
        if delta.live_rows() > 0 {
            let mut writer = TableWriter::append(&self.txn, name, self.shared.table_options())?;
            for (start, batch) in delta.batches() {
                let live = match self.shared.rules.broken(Mistake::FoldGoneRows) {
                    true => RecordBatch::clone(batch),
                    false => live_rows(&delta, *start, batch)?,
                };
                writer.write(&live)?;
            }
            writer.finish()?;
        }
        let forgotten = self.shared.rules.broken(Mistake::ForgetDeletions);
        if !delta.deleted().is_empty() && !forgotten {
            delete_rows(&self.txn, name, delta.deleted())?;
        }
        self.delta.forget(uid);
        self.changed([uid]);
        Ok(())
    }

    /// Folds every table.
    ///
    /// # Errors
    /// As [`fold`](Self::fold).
    pub(super) fn fold_all(&mut self) -> Result<(), EngineError> {
        let uids: Vec<u64> = self.delta.tables().map(|(uid, _)| uid).collect();
        for uid in uids {
            let open = self.objects().table_of(uid)?;
            self.fold(&open)?;
        }
        Ok(())
    }

    pub(super) fn publish(mut self, cancel: &AtomicBool) -> Result<(), EngineError> {
        if !self.shared.rules.broken(Mistake::ForgetLog) {
            self.fold_all()?;
        }
        if !self.shared.rules.broken(Mistake::StaleIndex) {
            self.refresh_indexes(cancel)?;
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(EngineError::Cancelled);
        }
        let log = self.txn.get(LOG_OBJECT).map(|log| log.bytes());
        if log.is_some() || self.wants_log {
            // It was full if it is there and wanted all the same.
            let factor = if self.wants_log { 2 } else { 1 };
            let least = self.shared.rules.log_bytes;
            let bytes = log.map_or(least, |bytes| (bytes * factor).clamp(least, LOG_MAX_BYTES));
            self.txn.put_log(LOG_OBJECT, bytes)?;
        }
        let Self {
            shared,
            txn,
            base,
            objects,
            ..
        } = self;
        // Neither the transaction's own view nor the version before must keep the space that this frees.
        drop((base, objects));
        shared.cache.forget();
        let txn = Arc::try_unwrap(txn).map_err(|_| EngineError::TransactionBusy)?;
        txn.commit()?;
        Background::published(&shared);
        Ok(())
    }

    /// Brings the indexes of all touched tables up to date: new segments get an Elf, those of gone segments go.
    fn refresh_indexes(&mut self, cancel: &AtomicBool) -> Result<(), EngineError> {
        let options = self.shared.index_options();
        for uid in std::mem::take(&mut self.touched) {
            // A table that was dropped has taken its indexes with it.
            let Ok(open) = self.objects().table_of(uid) else {
                continue;
            };
            let table = Table::open_in(&self.txn, open.table.name())?;
            let objects = Arc::clone(self.objects());
            for index in objects.indexes() {
                if index.table.as_deref() == Some(table.name()) {
                    refresh_index(&self.txn, &table, &index.name, &options, cancel)?;
                }
            }
        }
        self.objects = None;
        Ok(())
    }
}

/// The rows of a batch of the delta that are not deleted.
fn live_rows(delta: &TableDelta, start: usize, batch: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let rows = start..start + batch.num_rows();
    if delta.are_live(&rows) {
        return Ok(batch.clone());
    }
    let live: BooleanArray = rows.map(|row| Some(!delta.is_gone(row))).collect();
    filter_record_batch(batch, &live).map_err(|error| EngineError::Query(error.to_string()))
}
