//! Whose transaction a statement runs in: the session's, if BEGIN has opened one, or one of its own.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Savepoint, Transaction};
use crate::EngineError;
use crate::catalog::Catalog;
use crate::database::Shared;
use crate::rules::Mistake;

/// The open transaction of a session.
#[derive(Default)]
pub(crate) struct Slot(Mutex<State>);

#[derive(Default)]
enum State {
    /// There is none.
    #[default]
    Idle,
    /// It waits for the next statement.
    Open(Box<Transaction>),
    /// A statement has it.
    Running,
    /// The statement that had it was interrupted; it is gone.
    Lost,
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the open transaction out, leaving another state; none if there is none to take.
    fn take(&self, leaving: State) -> Result<Option<Transaction>, EngineError> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, leaving) {
            State::Open(transaction) => Ok(Some(*transaction)),
            State::Idle => {
                *state = State::Idle;
                Ok(None)
            }
            State::Running => {
                *state = State::Running;
                Err(EngineError::TransactionBusy)
            }
            State::Lost => {
                *state = State::Lost;
                Err(EngineError::TransactionLost)
            }
        }
    }

    /// What the session's next query sees; none if no transaction is open.
    ///
    /// # Errors
    /// A statement of the transaction is running, or was interrupted.
    pub(crate) fn catalog(&self) -> Result<Option<Arc<Catalog>>, EngineError> {
        match &mut *self.state() {
            State::Idle => Ok(None),
            State::Open(transaction) => Ok(Some(transaction.catalog())),
            State::Running => Err(EngineError::TransactionBusy),
            State::Lost => Err(EngineError::TransactionLost),
        }
    }

    /// Is no transaction open.
    ///
    /// # Errors
    /// One is; `what` cannot be done inside.
    pub(crate) fn must_be_idle(&self, what: &'static str) -> Result<(), EngineError> {
        match &*self.state() {
            State::Idle => Ok(()),
            _ => Err(EngineError::InTransaction { what }),
        }
    }

    /// `BEGIN`.
    ///
    /// # Errors
    /// A transaction is open; another writer keeps the lock; the pool is open for reading only.
    pub(crate) fn open(&self, shared: &Arc<Shared>) -> Result<(), EngineError> {
        self.must_be_idle("BEGIN")?;
        let transaction = Transaction::begin(shared, "BEGIN", shared.lock_wait())?;
        match &mut *self.state() {
            idle @ State::Idle => *idle = State::Open(Box::new(transaction)),
            _ => return Err(EngineError::InTransaction { what: "BEGIN" }),
        }
        Ok(())
    }

    /// `COMMIT`.
    ///
    /// # Errors
    /// There is none; a statement of it is running, or was interrupted; the pool cannot be written; the caller wants the
    /// end. In the last three cases the transaction is over, and nothing of it is stored.
    pub(crate) fn commit(&self, cancel: &AtomicBool) -> Result<(), EngineError> {
        match self.take(State::Idle) {
            Ok(Some(transaction)) => transaction.commit(cancel),
            Ok(None) => Err(EngineError::NoTransaction { what: "COMMIT" }),
            Err(error @ EngineError::TransactionLost) => {
                *self.state() = State::Idle;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// `ROLLBACK`.
    ///
    /// # Errors
    /// There is none; a statement of it is running.
    pub(crate) fn roll_back(&self) -> Result<(), EngineError> {
        match self.take(State::Idle) {
            Ok(Some(transaction)) => {
                drop(transaction);
                Ok(())
            }
            Ok(None) => Err(EngineError::NoTransaction { what: "ROLLBACK" }),
            Err(EngineError::TransactionLost) => {
                *self.state() = State::Idle;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// A transaction while a statement runs in it.
pub(crate) struct Held {
    pub(crate) transaction: Transaction,
    /// Of the session's transaction.
    within: Option<(Running, Savepoint)>,
}

/// Says that the session's transaction is lost unless it is given back.
struct Running(Option<Arc<Slot>>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            *slot.state() = State::Lost;
        }
    }
}

impl Held {
    /// The session's open transaction, or a new one.
    ///
    /// # Errors
    /// A statement of the open transaction is running, or was interrupted; another writer keeps the lock; the pool is
    /// open for reading only.
    pub(crate) fn take(slot: &Arc<Slot>, shared: &Arc<Shared>, what: &str) -> Result<Self, EngineError> {
        if let Some(transaction) = slot.take(State::Running)? {
            let within = Some((Running(Some(Arc::clone(slot))), transaction.savepoint()));
            return Ok(Self { transaction, within });
        }
        let transaction = Transaction::begin(shared, what, shared.lock_wait())?;
        Ok(Self {
            transaction,
            within: None,
        })
    }

    /// The end of the statement. A transaction of its own is committed, or dropped after an error; that of the session
    /// is given back, after an error as it was before.
    ///
    /// # Errors
    /// The statement's own, or that of the commit.
    pub(crate) fn finish<T>(
        self,
        result: Result<T, EngineError>,
        cancel: &AtomicBool,
    ) -> Result<T, EngineError> {
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
        if transaction.shared().rules.broken(Mistake::CommitEarly) {
            // One that the log cannot take is published with all the others.
            let _ = transaction.store_pending()?;
        }
        if let Some(slot) = running.0.take() {
            *slot.state() = State::Open(Box::new(transaction));
        }
        result
    }
}
