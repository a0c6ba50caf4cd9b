//! The writing transaction: [`Txn`].
//!
//! Invariants: everything stored before a publish goes to space that no generation names and no reader can
//! see. It is durable before the superblock that names it is stored. Of the two superblocks that publishes
//! write, the older one is overwritten. So at any moment a crash leaves either the previous or the new
//! generation, complete.
//!
//! A transaction owns its lock and its base snapshot and can be shared by threads. Space that an
//! [`ExtentBytes`](crate::ExtentBytes) of it still reads is not released when it ends.
#![allow(
    unsafe_code,
    reason = "vouches for extents that the transaction has finished or the pool has published"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use halocline_media::{Medium, MediumKind};

use crate::PoolError;
use crate::access::{SlabLock, WriterLock};
use crate::bytes::ExtentBytes;
use crate::directory::{Directory, ObjectMap, ObjectRecord, encode, encoded_len};
use crate::fault::{PoolFault, injected};
use crate::features::Features;
use crate::layout::{DATA_START, FORMAT_VERSION, MAX_META, MAX_NAME, Superblock, blocks, checksum};
use crate::limbo::{AgedRange, LimboList};
use crate::object::{ExtentRef, ObjectKind};
use crate::pool::PoolInner;
use crate::reserve::{RESERVE_RANGES, ReserveUse};
use crate::snapshot::{Object, PinnedGeneration};
use crate::space::Space;
use crate::sums;
use crate::superblock::SuperblockCopies;
use crate::turn::WriteTurn;
use crate::verify::VerifiedReads;
use crate::writer::{ExtentWriter, ScratchExtent};

/// A transaction: writes extents, puts and removes objects, and publishes all changes atomically by
/// [`commit`](Txn::commit). Dropping it discards them.
///
/// Threads may share it: any number of [`ExtentWriter`]s can be in use at a time. Readers see nothing of it
/// before the commit.
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

/// The objects that a publish changes.
struct TxnChanges {
    named: Vec<Arc<ObjectRecord>>,
    dropped: Vec<Arc<ObjectRecord>>,
}

impl TxnChanges {
    fn named(&self) -> impl Iterator<Item = &ExtentRef> {
        self.named.iter().flat_map(|record| record.extents.iter())
    }

    fn dropped(&self) -> impl Iterator<Item = &ExtentRef> {
        self.dropped.iter().flat_map(|record| record.extents.iter())
    }
}

impl TxnState {
    /// Creates or extends a slab, which must be the transaction's only change.
    pub(crate) fn put_slab(&mut self, name: &str, record: ObjectRecord) {
        debug_assert!(self.changed.is_empty(), "a transaction of its own");
        let name: Arc<str> = name.into();
        Arc::make_mut(&mut self.objects).insert(Arc::clone(&name), Arc::new(record));
        self.changed.insert(name);
        self.keeps_logs = true;
    }

    /// Replaces the record of an object whose extents have only been relocated.
    pub(crate) fn put_moved(&mut self, name: Arc<str>, record: Arc<ObjectRecord>) {
        if record.extents.iter().any(|extent| extent.sums) {
            self.features = self.features | Features::BLOCK_SUMS;
        }
        Arc::make_mut(&mut self.objects).insert(Arc::clone(&name), record);
        self.changed.insert(name);
    }
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

    /// Allocates space for an extent of at most `max_len` bytes. The unused part is released when the extent
    /// is finished, all of it if the writer is dropped.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::Media`].
    pub fn alloc(&self, max_len: u64) -> Result<ExtentWriter<'_>, PoolError> {
        let space = blocks(max_len) + sums::space_of(max_len);
        Ok(ExtentWriter::new(self, self.reserve(space)?, max_len))
    }

    /// Allocates `len` bytes of temporary space in the pool, for data that does not fit the memory budget. It
    /// is released with the transaction at the latest.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::Media`].
    pub fn scratch(&self, len: u64) -> Result<ScratchExtent<'_>, PoolError> {
        Ok(ScratchExtent::new(self, self.reserve(len)?, len))
    }

    /// Creates or replaces an object. Its extents are any that this transaction has finished or that a
    /// published object names (to keep, share or rename them).
    ///
    /// # Errors
    /// [`PoolError::InvalidName`], [`PoolError::NameTooLong`], [`PoolError::MetaTooLong`],
    /// [`PoolError::UnknownExtent`], [`PoolError::IsALog`] for a log (use [`put_log`](Txn::put_log)),
    /// [`PoolError::IsASlab`] for a slab (use [`Pool::create_slab`](crate::Pool::create_slab)),
    /// [`PoolError::SlabInUse`] if it would replace an open slab. The transaction is unchanged.
    pub fn put(
        &self,
        name: &str,
        kind: ObjectKind,
        meta: &[u8],
        extents: Vec<ExtentRef>,
    ) -> Result<(), PoolError> {
        check_name(name)?;
        if kind == ObjectKind::LOG {
            return Err(PoolError::IsALog {
                path: self.inner.path.to_path_buf(),
                name: name.to_owned(),
            });
        }
        if kind == ObjectKind::SLAB {
            return Err(PoolError::IsASlab {
                path: self.inner.path.to_path_buf(),
                name: name.to_owned(),
            });
        }
        if meta.len() > MAX_META {
            return Err(PoolError::MetaTooLong {
                name: name.to_owned(),
                len: meta.len(),
                max: MAX_META,
            });
        }
        let mut state = self.state();
        for extent in &extents {
            self.check_known(&state, name, extent)?;
        }
        self.lock_slab(&mut state, name)?;
        if extents.iter().any(|extent| extent.sums) {
            state.features = state.features | Features::BLOCK_SUMS;
        }
        let name: Arc<str> = name.into();
        Arc::make_mut(&mut state.objects).insert(
            Arc::clone(&name),
            Arc::new(ObjectRecord::new(kind, meta.into(), extents.into())),
        );
        state.changed.insert(name);
        Ok(())
    }

    /// Removes an object. Snapshots keep it; its space is reused when none of them is left.
    ///
    /// # Errors
    /// [`PoolError::NoSuchObject`], [`PoolError::SlabInUse`] for an open slab.
    pub fn remove(&self, name: &str) -> Result<(), PoolError> {
        let mut state = self.state();
        self.lock_slab(&mut state, name)?;
        let Some((name, _)) = Arc::make_mut(&mut state.objects).remove_entry(name) else {
            return Err(PoolError::NoSuchObject {
                path: self.inner.path.to_path_buf(),
                name: name.to_owned(),
            });
        };
        state.changed.insert(name);
        Ok(())
    }

    /// Returns the object of this name as this transaction sees it.
    pub fn get(&self, name: &str) -> Option<Object> {
        let state = self.state();
        let (name, record) = state.objects.get_key_value(name)?;
        Some(Object::new(
            Arc::clone(&self.base),
            Arc::clone(name),
            Arc::clone(record),
        ))
    }

    /// Returns all objects as this transaction sees them, in the order of their names.
    pub fn objects(&self) -> Vec<Object> {
        let state = self.state();
        let object = |(name, record): (&Arc<str>, &Arc<ObjectRecord>)| {
            Object::new(Arc::clone(&self.base), Arc::clone(name), Arc::clone(record))
        };
        state.objects.iter().map(object).collect()
    }

    /// Returns the bytes of an extent that this transaction has finished or that is published. They stay
    /// unchanged while the result lives, even if the transaction is rolled back; until then no other
    /// handle can write.
    ///
    /// # Errors
    /// [`PoolError::UnknownExtent`].
    pub fn extent(&self, extent: &ExtentRef) -> Result<ExtentBytes, PoolError> {
        let state = self.state();
        self.check_known(&state, "", extent)?;
        let known = self.base.verification().state(extent);
        // SAFETY: the extent is finished by this transaction, whose end leaves its space alone while the pin
        // is shared, or named by the base generation, which the pin keeps. The state is locked, so it
        // cannot end meanwhile.
        Ok(unsafe { ExtentBytes::new(Arc::clone(&self.base), extent, known) })
    }

    /// Publishes all changes atomically; returns the new generation. Without changes, nothing is published
    /// and the base generation is returned.
    ///
    /// When this returns, the generation survives the death of the process. It survives power loss if fences
    /// on this medium do ([`Medium::fence_is_durable`]), otherwise from the next
    /// [`Pool::sync`](crate::Pool::sync) on.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::LogNotFolded`], [`PoolError::DamagedLog`], [`PoolError::Media`].
    /// The transaction is rolled back. After a failed write it may be unknown whether the generation is
    /// published until the pool is opened again; what was published before is safe in any case.
    pub fn commit(self) -> Result<u64, PoolError> {
        if self.state().changed.is_empty() && !self.state().republishes {
            return Ok(self.base_generation());
        }
        self.start_logs()?;
        let state = self.state();
        let inner = &*self.inner;
        let medium = &inner.medium;
        let generation = self.base_generation() + 1;
        let features = (state.features | Features::LIMBO_LIST).for_objects(&state.objects);
        let changes = self.changes(&state);
        let len = encoded_len(&state.objects);
        drop(state);
        let oldest = inner.tidy()?.oldest().unwrap_or(self.base_generation());
        // Allocating the directory may free some of the limbo but adds nothing to it, so this is an upper
        // bound.
        let most = self.aged_ranges(&changes, generation, oldest).len() + RESERVE_RANGES;
        let early = self.reserved_ranges();
        let offset = self.reserve((len + LimboList::encoded_len(most)) as u64)?;
        let reserve = if injected(PoolFault::ReserveListedEarly) {
            early
        } else {
            self.reserved_ranges()
        };
        let limbo = LimboList::new(
            inner.reusable_up_to().min(self.base_generation()),
            self.aged_ranges(&changes, generation, oldest),
            reserve,
        );
        let bytes = encode(generation, &self.state().objects, Some(&limbo));
        self.trim(offset, bytes.len() as u64);
        let directory = ExtentRef::plain(offset, bytes.len() as u64, checksum(&bytes));
        medium.store(offset, &bytes);
        medium.flush(offset, directory.len);
        if thread::current().id() != self.thread {
            // The fence below belongs to this thread and does not cover flushes of the thread that wrote
            // these.
            self.state()
                .finished
                .values()
                .for_each(|extent| medium.flush(extent.offset, extent.space().end - extent.offset));
        }
        // Everything that the new superblock names must be durable before the superblock is stored.
        medium.fence()?;
        if let Err(error) = self.publish(features, generation, &directory) {
            // It is unknown whether the superblock is durable, so nothing may be written to the space that it
            // names.
            inner.failed.store(true, Ordering::Release);
            if let Some(space) = &mut inner.writer().space {
                space.spoil();
            }
            return Err(error);
        }
        self.settle(generation, directory, &changes, features, limbo);
        // Acknowledge only what can be found again under the path of the file.
        inner.access.check_place()?;
        Ok(generation)
    }

    /// Returns the records of changed objects, new and old.
    fn changes(&self, state: &TxnState) -> TxnChanges {
        let records = |objects: &ObjectMap| -> Vec<Arc<ObjectRecord>> {
            let changed = state.changed.iter();
            changed.filter_map(|name| objects.get(name).cloned()).collect()
        };
        TxnChanges {
            named: records(&state.objects),
            dropped: records(&self.base.directory().objects),
        }
    }

    /// Returns the ranges of a limbo list for the next generation.
    fn aged_ranges(&self, changes: &TxnChanges, generation: u64, oldest: u64) -> Vec<AgedRange> {
        let writer = self.inner.writer();
        let Some(space) = &writer.space else {
            return Vec::new();
        };
        let dropped = changes.dropped().chain([&self.base.directory().extent]);
        space.aged_ranges(generation, changes.named(), dropped, oldest)
    }

    /// Returns the ranges of the reserve.
    fn reserved_ranges(&self) -> Vec<Range<u64>> {
        let writer = self.inner.writer();
        writer.space.as_ref().map_or_else(Vec::new, Space::reserve)
    }

    /// Stores the new superblock over the older copy and makes it durable, which publishes the generation.
    fn publish(&self, features: Features, generation: u64, directory: &ExtentRef) -> Result<(), PoolError> {
        let inner = &*self.inner;
        let medium = &inner.medium;
        let slots = SuperblockCopies::read(medium);
        let mut superblock = Superblock::new(
            FORMAT_VERSION,
            self.superblock.uuid,
            inner.boot_id,
            generation,
            medium.len(),
            directory,
        );
        features.store(&mut superblock);
        let durable = medium.fence_is_durable();
        // Where fences are not durable, the superblock may only vouch for what the last sync has written.
        superblock.synced_generation = if durable {
            generation
        } else {
            slots.sync_copy_generation()
        }
        .into();
        superblock.write(medium, slots.publish_target());
        medium.fence()?;
        if !durable {
            inner.unsynced.store(generation, Ordering::Release);
        }
        Ok(())
    }

    /// Updates the state in memory after a publish.
    fn settle(
        &self,
        generation: u64,
        directory: ExtentRef,
        changes: &TxnChanges,
        features: Features,
        limbo: LimboList,
    ) {
        let mut state = self.state();
        let named = changes.named().chain([&directory]);
        let dropped = changes.dropped().chain([&self.base.directory().extent]);
        if let Some(space) = &mut self.inner.writer().space {
            space.publish(generation, named, dropped);
            state.reserved.retain(|offset, _| !space.is_named(*offset));
        }
        let objects = std::mem::take(&mut state.objects);
        let directory = Directory {
            generation,
            objects,
            extent: directory,
            limbo: Some(limbo),
            features,
        };
        if let Some(space) = &mut self.inner.writer().space {
            space.want_reserve(self.inner.reserve_for(&directory));
        }
        self.inner.set_current(directory);
    }

    /// Allocates space for this transaction. Empty extents need none.
    pub(crate) fn reserve(&self, len: u64) -> Result<u64, PoolError> {
        if len == 0 {
            return Ok(DATA_START);
        }
        let purpose = self.state().reserve_use;
        let offset = self.inner.allocate(len, purpose)?;
        self.state().reserved.insert(offset, blocks(len));
        Ok(offset)
    }

    /// Allocates this range for the transaction, in whole blocks, or returns false if a part of it is not
    /// free.
    pub(crate) fn reserve_at(&self, range: Range<u64>) -> Result<bool, PoolError> {
        let taken = self.inner.allocate_at(range.clone())?;
        if taken {
            self.state().reserved.insert(range.start, range.end - range.start);
        }
        Ok(taken)
    }

    /// Releases the end of the space reserved at `offset`, except the blocks of its first `len` bytes.
    pub(crate) fn trim(&self, offset: u64, len: u64) {
        let keep = blocks(len);
        let mut state = self.state();
        let Some(reserved) = state.reserved.get_mut(&offset) else {
            return;
        };
        let freed = offset + keep..offset + *reserved;
        *reserved = keep;
        if keep == 0 {
            state.reserved.remove(&offset);
        }
        drop(state);
        if let Some(space) = &mut self.inner.writer().space {
            space.release(freed);
        }
    }

    /// Records an extent whose bytes are stored and flushed.
    pub(crate) fn finished(&self, extent: ExtentRef) -> Result<(), PoolError> {
        if thread::current().id() != self.thread {
            // The commit's fence belongs to another thread and does not cover this one's flushes.
            self.inner.medium.fence()?;
        }
        if extent.len > 0 {
            self.inner.verification.written(&extent);
            self.state().finished.insert(extent.offset, extent);
        }
        Ok(())
    }

    fn check_known(&self, state: &TxnState, object: &str, extent: &ExtentRef) -> Result<(), PoolError> {
        let finished = || state.finished.get(&extent.offset) == Some(extent);
        let published = || {
            self.inner
                .writer()
                .space
                .as_ref()
                .is_some_and(|space| space.is_live(extent))
                && !self
                    .base
                    .directory()
                    .mutable()
                    .any(|mutable| mutable.offset == extent.offset)
        };
        if extent.len == 0 && extent.offset == DATA_START || finished() || published() {
            return Ok(());
        }
        Err(PoolError::UnknownExtent {
            object: object.to_owned(),
            offset: extent.offset,
        })
    }

    /// Locks the slab of this name, if there is one, so that nobody has it open until the transaction ends.
    pub(crate) fn lock_slab(&self, state: &mut TxnState, name: &str) -> Result<(), PoolError> {
        let Some(record) = state.objects.get(name) else {
            return Ok(());
        };
        if record.kind != ObjectKind::SLAB || injected(PoolFault::RemoveOpenSlab) {
            return Ok(());
        }
        let head = record.extents[0].offset;
        let lock = self.inner.access.lock_slab(head, false)?;
        let lock = lock.ok_or_else(|| self.inner.access.slab_in_use(head, name))?;
        state.slabs.push(lock);
        Ok(())
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

impl Drop for Txn {
    /// Releases reserved and unpublished space: immediately or, if it is still being read, when the next
    /// generation is published and this one is no longer pinned. Until then other handles cannot write,
    /// because they would consider the space free.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let generation = self.base.directory().generation;
        let shared = Arc::get_mut(&mut self.base).is_none();
        if shared && !state.reserved.is_empty() {
            self.base.keep_lock(Arc::clone(&self.lock));
        }
        if let Some(space) = &mut self.inner.writer().space {
            for (offset, len) in state.reserved.drain() {
                if shared {
                    space.release_after_readers(offset..offset + len, generation)
                } else {
                    space.release(offset..offset + len)
                }
            }
        }
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

pub(crate) fn check_name(name: &str) -> Result<(), PoolError> {
    let invalid = |reason| {
        Err(PoolError::InvalidName {
            name: name.to_owned(),
            reason,
        })
    };
    if name.is_empty() {
        return invalid("it is empty");
    }
    if name.len() > MAX_NAME {
        return Err(PoolError::NameTooLong {
            name: name.to_owned(),
            len: name.len(),
            max: MAX_NAME,
        });
    }
    if name.chars().any(char::is_control) {
        return invalid("it contains control characters");
    }
    Ok(())
}
