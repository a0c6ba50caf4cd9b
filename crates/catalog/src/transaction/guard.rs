//! The transaction of a statement: that of the session if BEGIN has opened one, or one of its own.
//!
//! BEGIN takes no lock. The transaction sees the version of the database that its first statement saw, and
//! takes the writer's lock for its first statement that writes. Invariant: all that it has read is still so
//! in the newest version; if another writer has changed rows or objects in between, the statement fails, as
//! what it would write may rest on what was changed. A compaction of this process in between changes neither.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datafusion::execution::memory_pool::MemoryReservation;
use halocline_keyed::{KeyedError, KeyedTable, KeyedTables, Replacements, UnpublishedTable};
use halocline_pool::Pool;
use halocline_sql::EngineError;
use halocline_store::{StoreError, StoreTransaction, Stores};

use super::{Savepoint, Transaction};
use crate::Catalog;
use crate::context::EngineContext;
use crate::tuning::EngineFault;

/// The open transaction of a session.
#[derive(Default)]
pub struct TransactionSlot {
    state: Mutex<SlotState>,
    /// Its part in tables with a primary key, once it has read or written one.
    keyed: Mutex<Option<KeyedPart>>,
}

/// The part of a session's transaction in tables with a primary key.
struct KeyedPart {
    stores: Stores,
    transaction: Arc<Mutex<StoreTransaction>>,
    writes: bool,
    /// That of what it has written, by the names of the stores.
    memory: Vec<(String, MemoryReservation)>,
    /// New tables in place of others, once there are some.
    replaced: Option<(Arc<KeyedTables>, Replacements)>,
}

#[derive(Default)]
enum SlotState {
    /// There is none.
    #[default]
    Idle,
    /// BEGIN was run, and nothing has been read or written.
    Begun,
    /// It has read this version and written nothing; it holds no lock.
    Reading(Arc<Catalog>),
    /// It has written and waits for the next statement.
    Open(Box<Transaction>),
    /// A statement is running in it.
    Running,
    /// It was rolled back because a statement in it was interrupted.
    Lost,
}

impl TransactionSlot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keyed(&self) -> MutexGuard<'_, Option<KeyedPart>> {
        self.keyed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open transaction's part in tables with a primary key, which begins now if there is none;
    /// `None` if no transaction is open.
    ///
    /// # Errors
    /// The stores were not open when the transaction began to read other tables, and the pool has changed
    /// since: it could see both kinds of tables as of two moments. The pool cannot be read.
    pub fn keyed_transaction(
        &self,
        stores: &Stores,
        pool: &Pool,
    ) -> Result<Option<Arc<Mutex<StoreTransaction>>>, EngineError> {
        let state = self.state();
        if matches!(&*state, SlotState::Idle) {
            return Ok(None);
        }
        let mut keyed = self.keyed();
        if let Some(part) = &mut *keyed {
            part.continue_on(stores)?;
            return Ok(Some(Arc::clone(&part.transaction)));
        }
        let part = KeyedPart::begin(stores);
        if let SlotState::Reading(read) = &*state
            && !read.objects().are_those_of(&pool.snapshot()?)
        {
            return Err(EngineError::ChangedSinceRead);
        }
        Ok(Some(Arc::clone(&keyed.insert(part).transaction)))
    }

    /// Returns true if the open transaction has changed tables without a primary key, so that it holds the
    /// writer's lock.
    pub fn holds_lock(&self) -> bool {
        matches!(&*self.state(), SlotState::Open(_))
    }

    /// Fails if a transaction is not the open one any more.
    ///
    /// # Errors
    /// It is over, or lost.
    pub fn check_writes_keyed(&self, transaction: &Arc<Mutex<StoreTransaction>>) -> Result<(), EngineError> {
        match &*self.state() {
            SlotState::Begun | SlotState::Reading(_) | SlotState::Open(_) => {}
            SlotState::Running => return Err(EngineError::TransactionBusy),
            SlotState::Lost => return Err(EngineError::TransactionLost),
            SlotState::Idle => return Err(EngineError::TransactionOver),
        }
        match &*self.keyed() {
            Some(part) if Arc::ptr_eq(&part.transaction, transaction) => Ok(()),
            _ => Err(EngineError::TransactionOver),
        }
    }

    /// Notes that the open transaction has written to a table with a primary key, which takes memory until it
    /// ends.
    ///
    /// # Errors
    /// It is over, or lost.
    pub fn write_keyed(
        &self,
        transaction: &Arc<Mutex<StoreTransaction>>,
        table: &KeyedTable,
        memory: MemoryReservation,
    ) -> Result<(), EngineError> {
        match &mut *self.keyed() {
            Some(part) if Arc::ptr_eq(&part.transaction, transaction) => {
                part.writes = true;
                part.memory.push((table.store().name().to_owned(), memory));
                Ok(())
            }
            _ => Err(EngineError::TransactionOver),
        }
    }

    /// Lets a new table take the place of another one in the open transaction.
    ///
    /// # Errors
    /// It is over, or lost; those of [`KeyedTables::replace_in`].
    pub fn replace_keyed(
        &self,
        transaction: &Arc<Mutex<StoreTransaction>>,
        tables: &Arc<KeyedTables>,
        new: UnpublishedTable,
        old: &Arc<KeyedTable>,
    ) -> Result<(), EngineError> {
        self.check_writes_keyed(transaction)?;
        match &mut *self.keyed() {
            Some(part) if Arc::ptr_eq(&part.transaction, transaction) => {
                let begin = || (Arc::clone(tables), Replacements::default());
                let (_, replacements) = part.replaced.get_or_insert_with(begin);
                let mut transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
                tables.replace_in(&mut transaction, new, old, replacements)?;
                part.writes = true;
                // The transaction forgets its writes to the old table.
                part.memory.retain(|(store, _)| store != old.store().name());
                Ok(())
            }
            _ => Err(EngineError::TransactionOver),
        }
    }

    /// Takes the open transaction out, leaving another state; `Idle` if none is open.
    ///
    /// # Errors
    /// A statement of the transaction is running, or was interrupted.
    fn take(&self, leaving: SlotState) -> Result<SlotState, EngineError> {
        let mut state = self.state();
        match &*state {
            SlotState::Idle => Ok(SlotState::Idle),
            SlotState::Running => Err(EngineError::TransactionBusy),
            SlotState::Lost => Err(EngineError::TransactionLost),
            SlotState::Begun | SlotState::Reading(_) | SlotState::Open(_) => {
                Ok(std::mem::replace(&mut *state, leaving))
            }
        }
    }

    /// Returns the version that the session's next query sees, which the open transaction keeps from then on;
    /// `None` if no transaction is open.
    ///
    /// # Errors
    /// A statement of the transaction is running, or was interrupted; the pool cannot be read.
    pub fn catalog(&self, engine: &EngineContext) -> Result<Option<Arc<Catalog>>, EngineError> {
        let mut state = self.state();
        match &mut *state {
            SlotState::Idle => Ok(None),
            SlotState::Begun => {
                // Tables of both kinds are seen as of one moment, also if it reads the others later.
                engine.stores.open_beside_writer();
                let (first, part) = engine.moment(KeyedPart::begin)?;
                let mut keyed = self.keyed();
                *keyed = keyed.take().or(part);
                *state = SlotState::Reading(Arc::clone(&first));
                Ok(Some(first))
            }
            SlotState::Reading(read) => Ok(Some(Arc::clone(read))),
            SlotState::Open(transaction) => Ok(Some(transaction.catalog())),
            SlotState::Running => Err(EngineError::TransactionBusy),
            SlotState::Lost => Err(EngineError::TransactionLost),
        }
    }

    /// Returns the same as [`catalog`](Self::catalog), for names that are looked up again under the lock: the
    /// transaction does not count as one that has read.
    ///
    /// # Errors
    /// Those of [`catalog`](Self::catalog).
    pub fn peek(&self, engine: &EngineContext) -> Result<Option<Arc<Catalog>>, EngineError> {
        if matches!(&*self.state(), SlotState::Begun) {
            return Ok(None);
        }
        self.catalog(engine)
    }

    /// Fails if a transaction is open.
    ///
    /// # Errors
    /// One is; `what` cannot be done inside.
    pub fn must_be_idle(&self, what: &'static str) -> Result<(), EngineError> {
        match &*self.state() {
            SlotState::Idle => Ok(()),
            _ => Err(EngineError::InTransaction { what }),
        }
    }

    /// Runs `BEGIN`.
    ///
    /// # Errors
    /// A transaction is open.
    pub fn open(&self) -> Result<(), EngineError> {
        match &mut *self.state() {
            idle @ SlotState::Idle => *idle = SlotState::Begun,
            _ => return Err(EngineError::InTransaction { what: "BEGIN" }),
        }
        Ok(())
    }

    /// Runs `COMMIT`.
    ///
    /// # Errors
    /// There is none; a statement of it is running, or was interrupted; the pool cannot be written; the
    /// caller wants the end. In the last three cases the transaction is over, and nothing of it is stored.
    pub fn commit(&self, cancel: &AtomicBool) -> Result<(), EngineError> {
        let taken = self.take(SlotState::Idle);
        if matches!(taken, Err(EngineError::TransactionBusy)) {
            return taken.map(drop);
        }
        let keyed = self.keyed().take();
        let committed = match taken {
            Ok(SlotState::Open(transaction)) => match keyed {
                Some(keyed) => keyed.commit_with(*transaction, cancel),
                None => transaction.commit(cancel),
            },
            Ok(SlotState::Idle) => Err(EngineError::NoTransaction { what: "COMMIT" }),
            Ok(_) => keyed.map_or(Ok(()), KeyedPart::commit),
            Err(error) => {
                *self.state() = SlotState::Idle;
                Err(error)
            }
        };
        let all_rows = |store| -> EngineError {
            let what = "all rows".to_owned();
            StoreError::Conflict { store, what }.into()
        };
        committed.map_err(|error| match error {
            // Another table took the place of one that it has changed, or there is none any more.
            EngineError::Store(StoreError::Dropped { name: store }) => all_rows(store),
            EngineError::Keyed(error) => match *error {
                KeyedError::Changed { table } => all_rows(table),
                KeyedError::List(error) => error.into(),
                error => error.into(),
            },
            error => error,
        })
    }

    /// Runs `ROLLBACK`.
    ///
    /// # Errors
    /// There is none; a statement of it is running.
    pub fn roll_back(&self) -> Result<(), EngineError> {
        let taken = self.take(SlotState::Idle);
        if matches!(taken, Err(EngineError::TransactionBusy)) {
            return taken.map(drop);
        }
        drop(self.keyed().take());
        match taken {
            Ok(SlotState::Idle) => Err(EngineError::NoTransaction { what: "ROLLBACK" }),
            Ok(transaction) => {
                drop(transaction);
                Ok(())
            }
            Err(EngineError::TransactionLost) => {
                *self.state() = SlotState::Idle;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl KeyedPart {
    fn begin(stores: &Stores) -> Self {
        Self {
            stores: stores.clone(),
            transaction: Arc::new(Mutex::new(stores.begin())),
            writes: false,
            memory: Vec::new(),
            replaced: None,
        }
    }

    /// Continues with stores that were opened since, for writing or anew, if they are as they were when the
    /// transaction began.
    ///
    /// # Errors
    /// They are not.
    fn continue_on(&mut self, stores: &Stores) -> Result<(), EngineError> {
        let mut transaction = self.transaction.lock().unwrap_or_else(PoisonError::into_inner);
        match transaction.continue_on(stores) {
            Err(StoreError::Stale { .. }) => return Err(EngineError::ChangedSinceRead),
            continued => continued?,
        }
        drop(transaction);
        self.stores = stores.clone();
        Ok(())
    }

    /// Takes the transaction out. Plans that are still held read an empty one from now on.
    fn take(&self) -> StoreTransaction {
        let mut held = self.transaction.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, self.stores.begin())
    }

    /// Returns true if this part has only read, beside the process that writes: there is nothing to commit
    /// then.
    fn only_reads(&self) -> bool {
        !self.writes && self.stores.is_reader()
    }

    fn commit(mut self) -> Result<(), EngineError> {
        if self.only_reads() {
            return Ok(());
        }
        match self.replaced.take() {
            None => Ok(self.take().commit()?),
            Some((tables, replacements)) => {
                tables.commit_replacing(self.take(), replacements)?;
                // Its snapshot is older than the replacement.
                drop(self);
                tables.drop_replaced();
                Ok(())
            }
        }
    }

    /// Commits this part together with the changes of other tables.
    fn commit_with(mut self, others: Transaction, cancel: &AtomicBool) -> Result<(), EngineError> {
        if self.only_reads() {
            // The writer's lock is held, so that nothing is committed to both kinds of tables before
            // `others`.
            self.take().compare()?;
            return others.commit(cancel);
        }
        if !self.writes {
            return self.take().commit_with(|_| others.commit(cancel));
        }
        if !others.has_changes() {
            return self.commit();
        }
        let Some((tables, replacements)) = self.replaced.take() else {
            return others.commit_with_stores(cancel, |decide| self.take().commit_with(decide));
        };
        others.commit_with_stores(cancel, |decide| {
            tables.commit_replacing_with(self.take(), replacements, decide)
        })?;
        drop(self);
        tables.drop_replaced();
        Ok(())
    }
}

/// A guard on the transaction that a statement runs in.
pub struct TransactionGuard {
    /// The transaction.
    pub transaction: Transaction,
    /// Set for the transaction of the session: the mark in its slot, and the state before the statement.
    within: Option<(RunningStatement, Savepoint)>,
}

/// A mark that declares the transaction of the session lost on drop, unless the transaction was returned.
struct RunningStatement(Option<Arc<TransactionSlot>>);

impl Drop for RunningStatement {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            *slot.state() = SlotState::Lost;
        }
    }
}

impl TransactionGuard {
    /// Returns the session's open transaction, or a new one, with the writer's lock, for which it waits up to
    /// `wait`.
    ///
    /// # Errors
    /// A statement of the open transaction is running, or was interrupted; another writer keeps the lock, or
    /// has changed what the open transaction has read; `cancel` was set; the pool is open for reading only.
    pub fn take(
        slot: &Arc<TransactionSlot>,
        engine: &Arc<EngineContext>,
        what: &str,
        wait: Duration,
        cancel: &AtomicBool,
    ) -> Result<Self, EngineError> {
        let transaction = match slot.take(SlotState::Running)? {
            SlotState::Open(mut transaction) => {
                transaction.note_statement(what);
                *transaction
            }
            SlotState::Begun => Self::lock_for(slot, engine, what, wait, cancel, None)?,
            SlotState::Reading(read) => Self::lock_for(slot, engine, what, wait, cancel, Some(read))?,
            SlotState::Idle | SlotState::Running | SlotState::Lost => {
                return Ok(Self {
                    transaction: Transaction::begin(engine, what, wait, cancel)?,
                    within: None,
                });
            }
        };
        let within = Some((RunningStatement(Some(Arc::clone(slot))), transaction.savepoint()));
        Ok(Self { transaction, within })
    }

    /// Takes the lock for the first statement of the open transaction that writes. After an error the
    /// transaction is what it was.
    fn lock_for(
        slot: &Arc<TransactionSlot>,
        engine: &Arc<EngineContext>,
        what: &str,
        wait: Duration,
        cancel: &AtomicBool,
        read: Option<Arc<Catalog>>,
    ) -> Result<Transaction, EngineError> {
        let locked = Transaction::begin(engine, what, wait, cancel).and_then(|transaction| {
            let rewrites = engine.rewrites.lock().unwrap_or_else(PoisonError::into_inner);
            if read
                .as_ref()
                .is_none_or(|read| rewrites.are_equal(read, transaction.base()))
            {
                Ok(transaction)
            } else {
                Err(EngineError::ChangedSinceRead)
            }
        });
        if locked.is_err() {
            *slot.state() = read.map_or(SlotState::Begun, SlotState::Reading);
        }
        locked
    }

    /// Ends the statement. A transaction of its own is committed, or dropped after an error; that of the
    /// session is returned to it, after an error in its state before the statement.
    ///
    /// # Errors
    /// The statement's own, or that of the commit.
    pub fn finish<T>(self, result: Result<T, EngineError>, cancel: &AtomicBool) -> Result<T, EngineError> {
        let Self {
            mut transaction,
            within,
        } = self;
        let Some((mut running, savepoint)) = within else {
            let value = result?;
            transaction.commit(cancel)?;
            return Ok(value);
        };
        if result.is_err() {
            transaction.undo(savepoint)?;
        }
        if transaction.engine().tuning.injected(EngineFault::CommitEarly) {
            // One that the log cannot take is published with all the others.
            let _ = transaction.store_pending()?;
        }
        if let Some(slot) = running.0.take() {
            *slot.state() = SlotState::Open(Box::new(transaction));
        }
        result
    }
}
