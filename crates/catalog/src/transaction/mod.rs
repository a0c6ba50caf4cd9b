//! Transactions: the changes of one statement, or of all from BEGIN to COMMIT.
//!
//! A [`Transaction`] holds the writer's lock of the pool from its begin to its end; that of a session begins
//! with the first statement that writes. Its changes are of two kinds: small ones, kept in DRAM as they would
//! be logged, and changed objects (new segments, tables, indexes). If there are only small ones and not too
//! many, committing appends one record to the log. Otherwise it publishes a generation, into which everything
//! is folded that the log holds and the transaction has added.
//!
//! Invariants: until `commit` the changes are visible only inside; dropping it leaves nothing; a statement
//! inside that fails is undone, and the transaction continues without it.

mod guard;
mod publish;
mod savepoint;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use halocline_pool::{PoolError, ReserveUse, Txn};

pub use guard::{TransactionGuard, TransactionSlot};
use savepoint::Savepoint;

use crate::context::EngineContext;
use crate::delta::{Delta, TableChange, TableChanges, encode, size};
use crate::tuning::EngineFault;
use crate::{Catalog, CatalogObjects, LOG_OBJECT, OpenTable};
use halocline_sql::EngineError;

/// Bytes that a record may take; the log holds a few of the largest.
const SMALL_BYTES: usize = 256 << 10;
/// Bytes of new rows that a transaction keeps in DRAM at most before it makes segments of them.
const DELTA_BYTES: usize = 64 << 20;

/// Interval at which a statement that waits for another writer polls its cancellation flag.
pub const LOOK_AT_CANCEL: Duration = Duration::from_millis(100);

/// An active transaction.
pub struct Transaction {
    engine: Arc<EngineContext>,
    /// The present objects; `None` after a change until they are needed. Dropped before `txn`, which frees
    /// its space at once only if there are no readers of its objects.
    objects: Option<Arc<CatalogObjects>>,
    txn: Arc<Txn>,
    /// The version it is based on: the newest one when it began.
    base: Arc<Catalog>,
    /// Small changes: those of the log, then its own.
    delta: Delta,
    /// Its own small changes, as long as they may become a record.
    pending: TableChanges,
    pending_rows: u64,
    pending_bytes: usize,
    /// Set if there are more changes than a record can hold.
    publishes: bool,
    /// Tables that got or lost segments, by uid: their indexes are brought up to date at the end.
    touched: BTreeSet<u64>,
    /// Number of changes of objects.
    steps: u64,
    /// Set if there was no log, or no room in it, for a record.
    wants_log: bool,
    /// Set if stored rows were only rewritten.
    only_rewrites: bool,
    /// Set while all of its statements only free space, which works on a full disk.
    frees: Option<ReserveUse>,
}

/// Returns how a statement of this kind may use the reserve of the pool.
fn reserve_use_of(what: &str) -> Option<ReserveUse> {
    match what {
        "DROP TABLE" | "DROP INDEX" | "DROP VIEW" | "DROP MACRO" | "TRUNCATE" => Some(ReserveUse::Dropping),
        "DELETE" => Some(ReserveUse::Deleting),
        _ => None,
    }
}

impl Transaction {
    /// Takes the writer's lock, waiting for other writers up to `wait`, or until `cancel` is set.
    ///
    /// # Errors
    /// Another writer keeps it; the caller wants the end; the pool is open for reading only.
    pub fn begin(
        engine: &Arc<EngineContext>,
        what: &str,
        wait: Duration,
        cancel: &AtomicBool,
    ) -> Result<Self, EngineError> {
        let _waiting = engine.background.announce_writer();
        let start = Instant::now();
        loop {
            let left = wait.saturating_sub(start.elapsed());
            match Self::begin_quietly(engine, what, left.min(LOOK_AT_CANCEL)) {
                Err(EngineError::Pool(PoolError::Locked { .. })) if left > LOOK_AT_CANCEL => {}
                other => return other,
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(EngineError::Cancelled);
            }
        }
    }

    /// Does the same as [`begin`](Self::begin) without `cancel` and without ending a compaction in the
    /// background.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin).
    pub fn begin_quietly(
        engine: &Arc<EngineContext>,
        what: &str,
        wait: Duration,
    ) -> Result<Self, EngineError> {
        let txn = match engine.pool.begin_wait(wait) {
            Err(PoolError::ReadOnly { .. }) => {
                let what = what.to_string();
                return Err(EngineError::ReadOnly { what });
            }
            begun => Arc::new(begun?),
        };
        // The lock is held: nothing can come between this version and what is published over it.
        let base = engine.catalog()?;
        Ok(Self {
            engine: Arc::clone(engine),
            txn,
            delta: base.delta().clone(),
            objects: Some(Arc::clone(base.objects())),
            base,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            publishes: false,
            touched: BTreeSet::new(),
            steps: 0,
            wants_log: false,
            only_rewrites: false,
            frees: reserve_use_of(what),
        })
    }

    /// Notes that another statement runs inside, of this kind.
    pub fn note_statement(&mut self, what: &str) {
        self.frees = match (self.frees, reserve_use_of(what)) {
            (Some(ReserveUse::Dropping), Some(ReserveUse::Dropping)) => Some(ReserveUse::Dropping),
            (Some(_), Some(_)) => Some(ReserveUse::Deleting),
            _ => None,
        };
    }

    /// Returns the version that was the newest one when the lock was taken.
    pub fn base(&self) -> &Catalog {
        &self.base
    }

    /// Returns the state that all sessions share.
    pub fn engine(&self) -> &Arc<EngineContext> {
        &self.engine
    }

    /// Returns the underlying transaction of the pool, for changes of objects; [`changed`](Self::changed)
    /// must follow.
    pub fn txn(&self) -> &Arc<Txn> {
        &self.txn
    }

    /// Returns the database as the transaction sees it now.
    pub fn catalog(&mut self) -> Arc<Catalog> {
        let objects = Arc::clone(self.objects());
        Arc::new(Catalog::new(objects, self.delta.clone(), 0))
    }

    fn objects(&mut self) -> &Arc<CatalogObjects> {
        let (txn, placements) = (&self.txn, &self.engine.placements);
        self.objects
            .get_or_insert_with(|| Arc::new(CatalogObjects::of_transaction(txn, placements)))
    }

    /// Notes that objects were changed; `touched` are the tables whose segments have changed.
    pub fn changed(&mut self, touched: impl IntoIterator<Item = u64>) {
        self.touched.extend(touched);
        self.objects = None;
        self.steps += 1;
        self.publish_at_end();
    }

    /// Returns true unless committing would change nothing.
    fn has_changes(&self) -> bool {
        self.publishes || !self.pending.is_empty()
    }

    fn publish_at_end(&mut self) {
        self.publishes = true;
        self.pending = Vec::new();
    }

    /// Applies small changes of a table, which change `rows` rows. Exceeding the limit is no error: the
    /// changes are folded at the end.
    ///
    /// # Errors
    /// Rows have other columns than the table.
    pub fn apply(
        &mut self,
        open: &OpenTable,
        changes: Vec<TableChange>,
        rows: u64,
    ) -> Result<(), EngineError> {
        let uid = open.table.uid();
        for change in changes {
            let added = matches!(change, TableChange::DeleteAdded(_));
            if added && self.engine.tuning.injected(EngineFault::KeepAddedRows) {
                continue;
            }
            self.delta.apply(uid, &change)?;
            self.pending_bytes += size(&change);
            if !self.publishes {
                self.pending.push((uid, change));
            }
        }
        self.pending_rows += rows;
        if self.pending_rows > self.engine.tuning.small_rows || self.pending_bytes > SMALL_BYTES {
            self.publish_at_end();
        }
        if self.delta.bytes() > DELTA_BYTES.min(self.engine.budget().delta()) {
            self.fold_all()?;
        }
        Ok(())
    }

    /// Removes the changes of a table that was dropped or emptied.
    pub fn forget(&mut self, uid: u64) {
        if !self.engine.tuning.injected(EngineFault::TruncateSegmentsOnly) {
            self.delta.forget(uid);
        }
        self.changed([]);
    }

    /// Makes the transaction's changes those of the database, all at once. `cancel` is heard up to the moment
    /// in which a generation is published; a record of the log is quicker than that.
    ///
    /// # Errors
    /// The pool cannot be written, an index not be brought up to date, or the caller wants the end; then
    /// nothing has changed.
    pub fn commit(mut self, cancel: &AtomicBool) -> Result<(), EngineError> {
        if !self.publishes {
            if self.pending.is_empty() {
                return Ok(());
            }
            match self.store_pending()? {
                Some(end) => return self.persist(end),
                None => self.wants_log = true,
            }
        }
        self.publish(cancel)
    }

    /// Stores the pending changes as a record of the log, not durable yet. Returns its end; `None` if there
    /// is no log or no room in it.
    ///
    /// # Errors
    /// The pool cannot be written.
    fn store_pending(&mut self) -> Result<Option<u64>, EngineError> {
        let record = encode(&self.pending)?;
        match self.txn.log_store(LOG_OBJECT, &record) {
            Ok(end) => {
                self.pending.clear();
                Ok(Some(end))
            }
            Err(PoolError::NoSuchObject { .. } | PoolError::LogFull { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the transaction and makes its record durable. Other writers get their turn meanwhile; records
    /// that they store share the next fence.
    ///
    /// # Errors
    /// The medium reports a failure.
    fn persist(self, end: u64) -> Result<(), EngineError> {
        let Self {
            engine,
            base,
            txn,
            objects,
            ..
        } = self;
        drop((objects, txn));
        if !engine.tuning.injected(EngineFault::AcknowledgeEarly)
            && let Some(snapshot) = base.objects().snapshot()
        {
            snapshot.log_persist(LOG_OBJECT, end)?;
        }
        Ok(())
    }

    /// Does the same as [`commit`](Self::commit) for a transaction that has only rewritten stored rows: the
    /// version that it publishes holds the same rows as the one before.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub fn commit_rewritten(mut self, cancel: &AtomicBool) -> Result<(), EngineError> {
        self.only_rewrites = true;
        self.commit(cancel)
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint {
            objects: self.txn.objects(),
            delta: self.delta.clone(),
            pending: self.pending.len(),
            pending_rows: self.pending_rows,
            pending_bytes: self.pending_bytes,
            touched: self.touched.clone(),
            steps: self.steps,
        }
    }

    /// Undoes all changes since the savepoint; objects first, because that can fail.
    fn undo(&mut self, savepoint: Savepoint) -> Result<(), EngineError> {
        if self.engine.tuning.injected(EngineFault::KeepFailed) {
            return Ok(());
        }
        if savepoint.differs(&self.txn) {
            savepoint.restore_objects(&self.txn)?;
            self.objects = None;
        }
        // Pending changes that the statement has dropped for being too many are in the delta all the same.
        self.pending.truncate(savepoint.pending);
        self.delta = savepoint.delta;
        self.pending_rows = savepoint.pending_rows;
        self.pending_bytes = savepoint.pending_bytes;
        self.touched = savepoint.touched;
        self.steps = savepoint.steps;
        Ok(())
    }
}
