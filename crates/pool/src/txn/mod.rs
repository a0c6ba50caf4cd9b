//! The writing transaction: [`Txn`].
//!
//! Invariants: everything stored before a publish goes to space that no generation names and no reader can
//! see. A [commit](commit) makes it durable before it stores the superblock that names it.
//!
//! A transaction owns its lock and its base snapshot and can be shared by threads. Space that an
//! [`ExtentBytes`](crate::ExtentBytes) of it still reads is not released when it ends.

mod commit;
mod log;
mod objects;
mod space;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use halocline_media::{Medium, MediumKind};

use crate::PoolError;
use crate::access::{SlabLock, WriterLock};
use crate::directory::ObjectMap;
use crate::features::Features;
use crate::layout::Superblock;
use crate::object::ExtentRef;
use crate::pool::PoolInner;
use crate::reserve::ReserveUse;
use crate::snapshot::PinnedGeneration;
use crate::superblock::SuperblockCopies;
use crate::turn::WriteTurn;
use crate::verify::VerifiedReads;

pub(crate) use objects::check_name;

/// A transaction: writes extents, puts and removes objects, and publishes all changes atomically by
/// [`commit`](Txn::commit). Dropping it discards them.
///
/// Threads may share it: any number of [`ExtentWriter`](crate::ExtentWriter)s can be in use at a time.
/// Readers see nothing of it before the commit.
pub struct Txn {
    pub(crate) inner: Arc<PoolInner>,
    base: Arc<PinnedGeneration>,
    superblock: Superblock,
    state: Mutex<TxnState>,
    /// The thread whose fences the commit relies on.
    thread: ThreadId,
    /// Keeps verification on, because what is stored may derive from anything read meanwhile.
    _verified: VerifiedReads,
    // Declared last, so that the lock is released after everything else is dropped.
    lock: Arc<WriterLock>,
    _turn: WriteTurn,
}

/// The changes of a transaction so far, and what it holds for them.
#[derive(Debug)]
pub(crate) struct TxnState {
    /// The objects of the base, or a copy after the first change.
    pub(crate) objects: Arc<ObjectMap>,
    pub(crate) changed: BTreeSet<Arc<str>>,
    /// Reserved space: offset to length.
    reserved: HashMap<u64, u64>,
    finished: HashMap<u64, ExtentRef>,
    /// Locks of slabs that it removes or replaces.
    slabs: Vec<SlabLock>,
    /// Features of the generation to publish: those of the base and those [required](Txn::require).
    features: Features,
    /// Initial records of logs of the next generation, by the offsets of their extents.
    pub(crate) first_records: BTreeMap<u64, Vec<Vec<u8>>>,
    /// True if logs stay unchanged with all records, which do not concern what the transaction changes.
    pub(crate) keeps_logs: bool,
    /// True if a generation is published even if no object has changed.
    pub(crate) republishes: bool,
    /// Set if allocations may take the reserve.
    pub(crate) reserve_use: Option<ReserveUse>,
}

impl Txn {
    pub(crate) fn begin(inner: &Arc<PoolInner>) -> Result<Txn, PoolError> {
        inner.writable()?;
        let (turn, lock) = WriteTurn::take(inner)?;
        if inner.failed.load(Ordering::Acquire) {
            // Check that the medium still works: the fence fails if it has latched an error.
            inner.medium.fence()?;
            inner.failed.store(false, Ordering::Release);
        }
        inner.access.check_place()?;
        let len = inner.medium.refresh()?;
        let (superblock, base) = inner.pin_newest()?;
        SuperblockCopies::read(&inner.medium)
            .features()
            .check_writable(&inner.path)?;
        inner.adopt(&superblock, base.directory(), len)?;
        let objects = Arc::clone(&base.directory().objects);
        let state = TxnState {
            objects,
            changed: BTreeSet::new(),
            reserved: HashMap::new(),
            finished: HashMap::new(),
            slabs: Vec::new(),
            features: base.directory().features,
            first_records: BTreeMap::new(),
            keeps_logs: false,
            republishes: false,
            reserve_use: None,
        };
        Ok(Txn {
            inner: Arc::clone(inner),
            base: Arc::new(base),
            superblock,
            state: Mutex::new(state),
            thread: thread::current().id(),
            _verified: VerifiedReads::new(&inner.verification),
            lock,
            _turn: turn,
        })
    }

    /// Returns the kind of the medium.
    pub fn kind(&self) -> MediumKind {
        self.inner.medium.kind()
    }

    /// Returns the generation that this transaction is based on.
    pub fn base_generation(&self) -> u64 {
        self.base.directory().generation
    }

    /// Adds features to those of the generation that this transaction publishes.
    pub(crate) fn require(&self, features: Features) {
        let mut state = self.state();
        state.features = state.features | features;
    }

    /// Returns the base generation.
    pub(crate) fn base(&self) -> &PinnedGeneration {
        &self.base
    }

    pub(crate) fn medium(&self) -> &Medium {
        &self.inner.medium
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, TxnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn")
            .field("path", &self.inner.path)
            .field("base", &self.base_generation())
            .finish_non_exhaustive()
    }
}
