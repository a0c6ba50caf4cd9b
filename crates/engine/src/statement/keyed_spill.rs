//! The changes of a statement that do not fit in DRAM: [`SpilledChanges`].

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use halocline_catalog::context::EngineContext;
use halocline_catalog::memory::WriterShare;
use halocline_catalog::transaction::TransactionSlot;
use halocline_import::TemporaryFiles;
use halocline_keyed::{
    KeyedError, KeyedRewrite, KeyedTable, KeyedTables, KeyedView, RewriteRule, RewrittenRows,
    UnpublishedTable,
};
use halocline_pool::PoolError;
use halocline_sql::EngineError;
use halocline_store::{LoadOptions, StoreError, StoreTransaction};

use super::keyed_changes::{ONE_ROW, SEVERAL_VALUES, USE_ON_CONFLICT};
use super::row_errors::KeyedRowErrors;

/// Most bytes of DRAM of the sort: more makes no merge faster.
const MAX_MEMORY: usize = 256 << 20;

/// Changes in temporary files. They make a new table of the old one, which takes its place.
pub(super) struct SpilledChanges {
    pub(super) rewrite: KeyedRewrite,
    table: Arc<KeyedTable>,
    statement: String,
    rule: RewriteRule,
    /// A hint for rows with a key that is there.
    pub(super) instead: &'static str,
    /// The memory of the sort.
    _share: WriterShare,
}

impl SpilledChanges {
    pub(super) fn new(
        engine: &EngineContext,
        table: &Arc<KeyedTable>,
        statement: &str,
        rule: RewriteRule,
    ) -> Self {
        let (share, files) = (engine.writer_share(), Arc::clone(&engine.spill_files));
        let memory = share.options.memory.min(MAX_MEMORY);
        let options = LoadOptions::new(memory, Arc::new(move || files.file()));
        Self {
            rewrite: KeyedRewrite::new(table, rule, &options),
            table: Arc::clone(table),
            statement: statement.to_owned(),
            rule,
            instead: USE_ON_CONFLICT,
            _share: share,
        }
    }

    /// Makes the new table, and commits it with the transaction in which the statement was run. Returns the
    /// number of rows; `None` if others have changed what the statement depends on. Blocks.
    ///
    /// # Errors
    /// [`EngineError::DuplicateKey`]; a row has several new values; the pool or a temporary file cannot be
    /// written; the caller wants the end.
    pub(super) fn publish(
        self,
        tables: &KeyedTables,
        transaction: &Arc<Mutex<StoreTransaction>>,
        cancel: &AtomicBool,
    ) -> Result<Option<u64>, EngineError> {
        let old = Arc::clone(&self.table);
        let (table, rows) = self.rewritten(tables, transaction, cancel)?;
        let transaction = {
            let mut held = transaction.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, tables.stores().begin())
        };
        match tables.publish_rewritten(table, &old, transaction) {
            Err(KeyedError::Changed { .. }) => Ok(None),
            published => Ok(published.map(|_| Some(rows))?),
        }
    }

    /// Makes the new table, which takes the place of the old one in the open transaction of a session.
    /// Returns the number of rows. Blocks.
    ///
    /// # Errors
    /// Those of [`publish`](Self::publish); the transaction is over; it holds the lock of the pool, which has
    /// to grow.
    pub(super) fn replace_in(
        self,
        slot: &TransactionSlot,
        tables: &Arc<KeyedTables>,
        transaction: &Arc<Mutex<StoreTransaction>>,
        cancel: &AtomicBool,
    ) -> Result<u64, EngineError> {
        let (old, statement) = (Arc::clone(&self.table), self.statement.clone());
        let rewritten = self.rewritten(tables, transaction, cancel);
        let (table, rows) = rewritten.map_err(|error| match error {
            error if is_locked(&error) && slot.holds_lock() => EngineError::Query(format!(
                "{statement}: the changes do not fit in the memory, and the pool cannot grow for a new table because the open \
                 transaction has changed tables without a primary key; run the statement before those, or outside of the \
                 transaction"
            )),
            error => error,
        })?;
        slot.replace_keyed(transaction, tables, table, &old)?;
        Ok(rows)
    }

    /// Makes the new table of what a transaction sees, and returns it with the number of rows.
    fn rewritten(
        self,
        tables: &KeyedTables,
        transaction: &Arc<Mutex<StoreTransaction>>,
        cancel: &AtomicBool,
    ) -> Result<(UnpublishedTable, u64), EngineError> {
        let view = KeyedView::Transaction(Arc::clone(transaction));
        let rewritten = self.rewrite.finish(tables, &view, cancel);
        let errors = KeyedRowErrors::new(&self.table, self.statement);
        let (table, rows) = rewritten.map_err(|error| errors.of_rewrite(error, self.instead))?;
        let RewrittenRows { deleted, written } = rows;
        let rows = match self.rule {
            RewriteRule::Delete => deleted,
            _ => written,
        };
        Ok((table, rows))
    }
}

/// Returns true if another writer holds the lock of the pool.
fn is_locked(error: &EngineError) -> bool {
    let EngineError::Keyed(error) = error else {
        return false;
    };
    matches!(
        &**error,
        KeyedError::Store {
            source: StoreError::Pool(PoolError::Locked { .. }),
            ..
        }
    )
}

impl KeyedRowErrors<'_> {
    /// Returns the error of changes that make a new table.
    fn of_rewrite(&self, error: KeyedError, instead: &'static str) -> EngineError {
        match error {
            KeyedError::DuplicateRow {
                key,
                number,
                by_statement,
                ..
            } => {
                let instead = if by_statement { ONE_ROW } else { instead };
                self.duplicate_key(&key, (number > 0).then_some(number), instead)
            }
            KeyedError::UpdatedTwice { .. } => EngineError::Query(SEVERAL_VALUES.to_owned()),
            KeyedError::Cancelled { .. } => EngineError::Cancelled,
            error => self.of_load(error),
        }
    }
}
