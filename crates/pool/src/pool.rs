//! The handle of an open pool: [`Pool`].
//!
//! Durability in the default mode: a publish survives the process. Power loss is survived up to the last
//! sync, which also happens when the last handle that has published something closes, and when reclaiming
//! space requires it.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use halocline_media::{Medium, MediumKind};

use crate::PoolError;
use crate::access::{Access, WriterLock};
use crate::directory::Directory;
use crate::fault::{PoolFault, injected};
use crate::features::Features;
use crate::layout::{DATA_START, INITIAL_LEN, RESERVE, Superblock, checksum};
use crate::limbo::LimboList;
use crate::log::PinnedLog;
use crate::log_count::RecordCount;
use crate::snapshot::{PinnedGeneration, Snapshot};
use crate::space::Space;
use crate::superblock::{SuperblockCopies, read_newest};
use crate::txn::Txn;
use crate::verify::{VerificationState, VerifiedReads, VerifyMode};

/// Options for creating or opening a pool's file.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// Opens the pool for reading only, beside at most one writer and any number of readers.
    pub read_only: bool,
    /// Makes every publish survive power loss on the page cache, at the price of an `msync` each. Otherwise
    /// publishes survive the death of the process, and power loss up to the last [`Pool::sync`].
    pub strict: bool,
    /// Treats the page cache as if it were DAX, for benchmarks on DRAM-backed files only: nothing is
    /// durable.
    pub assume_dax: bool,
}

impl PoolOptions {
    /// Sets [`read_only`](Self::read_only).
    #[must_use]
    pub fn with_read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Sets [`strict`](Self::strict).
    #[must_use]
    pub fn with_strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Sets [`assume_dax`](Self::assume_dax).
    #[must_use]
    pub fn with_assume_dax(self, assume_dax: bool) -> Self {
        Self { assume_dax, ..self }
    }
}

/// Facts about a pool, as returned by [`Pool::info`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolInfo {
    /// The path of the file, or the medium's name in angle brackets.
    pub path: PathBuf,
    /// The kind of the medium.
    pub kind: MediumKind,
    /// Length of the file in bytes.
    pub len: u64,
    /// Bytes that the file occupies in its file system: less than `len` after a [`Pool::vacuum`].
    pub allocated: u64,
    /// Bytes in use by the newest generation, including superblocks and directory.
    pub used: u64,
    /// All other bytes, including those that only older snapshots use, and the reserve.
    pub free: u64,
    /// Bytes set aside so that objects can be dropped on a full disk.
    pub reserve: u64,
    /// The newest published generation.
    pub generation: u64,
    /// The newest generation that survives power loss.
    pub synced_generation: u64,
    /// Number of objects.
    pub objects: usize,
    /// Identifier of the pool, assigned at creation.
    pub uuid: [u8; 16],
    /// Format version, which a program must support to read the pool.
    pub version: u32,
}

/// Sizes that tests reduce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolGeometry {
    /// Length of a new pool, in bytes.
    pub(crate) initial_len: u64,
    /// Growth unit in bytes: the length becomes a multiple of it.
    pub(crate) growth: u64,
    /// Minimum space that justifies a sync to release it, where a sync is slow.
    pub(crate) worth: u64,
    /// Bytes of the reserve beside those for a directory and logs, or 0 for none.
    pub(crate) reserve: u64,
}

impl Default for PoolGeometry {
    fn default() -> PoolGeometry {
        PoolGeometry {
            initial_len: INITIAL_LEN,
            growth: 4 << 20,
            worth: 1 << 20,
            reserve: RESERVE,
        }
    }
}

/// State of the writer, and whether this handle has one.
#[derive(Debug, Default)]
pub(crate) struct WriterState {
    pub(crate) busy: bool,
    /// The lock, as long as a transaction of this handle, or an extent that outlives one, holds it.
    pub(crate) lock: Weak<WriterLock>,
    pub(crate) space: Option<Space>,
}

/// State shared by all clones of a handle.
pub(crate) struct PoolInner {
    pub(crate) medium: Medium,
    pub(crate) path: Arc<Path>,
    pub(crate) access: Arc<Access>,
    pub(crate) writer: Mutex<WriterState>,
    /// Notified when a transaction of this handle ends.
    pub(crate) turn_over: Condvar,
    pub(crate) geometry: PoolGeometry,
    pub(crate) boot_id: [u8; 16],
    /// Newest generation that a sync of this handle has made durable and written to a synced superblock.
    /// Unlike a superblock of another handle, this is known to be durable.
    pub(crate) known_synced: AtomicU64,
    /// Newest generation that this handle has published without syncing, or 0.
    pub(crate) unsynced: AtomicU64,
    /// True if this handle has appended to a log since its last sync.
    pub(crate) unsynced_log: AtomicBool,
    /// Set when a publish fails half-way: the next one must first check that the medium still works.
    pub(crate) failed: AtomicBool,
    /// Distinguishes records of this handle from those of other handles and earlier boots.
    pub(crate) salt: u32,
    random: RandomState,
    drawn: AtomicU64,
    read_only: bool,
    current: Mutex<Option<Arc<Directory>>>,
    pub(crate) verification: Arc<VerificationState>,
}

/// An open pool. Cheap to clone; clones share the writer's lock and all state.
///
/// Any number of threads and processes may read while one writes. Dropping the last clone syncs what it has
/// published; call [`close`](Pool::close) to see errors of that.
pub struct Pool {
    pub(crate) inner: Arc<PoolInner>,
}

impl Clone for Pool {
    fn clone(&self) -> Pool {
        Pool {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl Pool {
    /// Returns the path of the file, or the medium's name in angle brackets.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the kind of the medium.
    pub fn kind(&self) -> MediumKind {
        self.inner.medium.kind()
    }

    /// Pins and returns the newest published generation. Costs two loads and a system call for the file's
    /// length if nothing was published since the last call.
    ///
    /// # Errors
    /// [`PoolError::Truncated`], [`PoolError::DamagedSuperblock`] or [`PoolError::DamagedDirectory`] if the
    /// file was damaged while it is open; [`PoolError::Io`] if the file system does not support locks.
    pub fn snapshot(&self) -> Result<Snapshot, PoolError> {
        // Detect truncation first: touching missing bytes would end the process.
        self.inner.medium.refresh()?;
        self.inner
            .pin_newest()
            .map(|(_, pinned)| Snapshot::new(Arc::new(pinned)))
    }

    /// Starts the only writing transaction, based on the newest generation. It holds the writer's lock until
    /// it ends.
    ///
    /// # Errors
    /// [`PoolError::Locked`] immediately if another handle or thread has a transaction,
    /// [`PoolError::ReadOnly`], and all of [`snapshot`](Pool::snapshot).
    pub fn begin(&self) -> Result<Txn, PoolError> {
        Txn::begin(&self.inner)
    }

    /// Starts a transaction like [`begin`](Pool::begin), but waits up to `timeout` for the current writer.
    /// Waiting writers are not queued in any order.
    ///
    /// # Errors
    /// [`PoolError::Locked`] after the timeout, and all of [`begin`](Pool::begin).
    pub fn begin_wait(&self, timeout: Duration) -> Result<Txn, PoolError> {
        Txn::begin_wait(&self.inner, timeout)
    }

    /// Sets when extents are verified, for all reads through this handle and its clones.
    pub fn set_verify_mode(&self, mode: VerifyMode) {
        self.inner.verification.set_mode(mode);
    }

    /// Returns when extents are verified.
    pub fn verify_mode(&self) -> VerifyMode {
        self.inner.verification.mode()
    }

    /// Discards the record of verified blocks, so that each is verified again on its next read.
    pub fn forget_verified(&self) {
        self.inner.verification.forget();
    }

    /// Turns verification on while the result lives; see [`Snapshot::verified_reads`].
    pub fn verified_reads(&self) -> VerifiedReads {
        VerifiedReads::new(&self.inner.verification)
    }

    /// Makes the newest generation and the contents of its logs survive power loss, and releases the space
    /// that earlier ones have freed. Can run beside a writer, here or in another process; unpublished
    /// changes are not included.
    ///
    /// # Errors
    /// [`PoolError::ReadOnly`], [`PoolError::Media`] if the disk fails.
    pub fn sync(&self) -> Result<(), PoolError> {
        self.inner.sync()
    }

    /// Checks that the path still leads to the open file, unless that was seen less than `within` ago: for
    /// owners of slabs, whose changes no publish checks. A handle without a path has nothing to check.
    ///
    /// # Errors
    /// [`PoolError::FileGone`]: what is written now would be lost.
    pub fn check_place(&self, within: Duration) -> Result<(), PoolError> {
        self.inner.access.check_place_within(within)
    }

    /// Syncs what this handle has published, and closes it. Snapshots stay usable.
    ///
    /// # Errors
    /// Fails like [`sync`](Pool::sync).
    pub fn close(self) -> Result<(), PoolError> {
        self.inner.sync_own()
    }

    /// Returns facts about the pool and its newest generation. Linear in the number of extents.
    ///
    /// # Errors
    /// Fails like [`snapshot`](Pool::snapshot).
    pub fn info(&self) -> Result<PoolInfo, PoolError> {
        let inner = &self.inner;
        let len = inner.medium.refresh()?;
        let (superblock, pinned) = inner.pin_newest()?;
        let directory = pinned.directory();
        let mut extents: Vec<_> = directory
            .extents()
            .map(|extent| (extent.space().start, extent.space().end))
            .collect();
        extents.sort_unstable();
        extents.dedup();
        let used = DATA_START + extents.iter().map(|(start, end)| end - start).sum::<u64>();
        Ok(PoolInfo {
            path: inner.path.to_path_buf(),
            kind: inner.medium.kind(),
            len,
            allocated: inner.medium.allocated()?,
            used,
            free: len.saturating_sub(used),
            reserve: directory.limbo.as_ref().map_or(0, LimboList::reserve_bytes),
            generation: directory.generation,
            synced_generation: SuperblockCopies::read(&inner.medium).synced_generation(),
            objects: directory.objects.len(),
            uuid: superblock.uuid,
            version: superblock.version.get(),
        })
    }
}

impl PoolInner {
    pub(crate) fn new(
        medium: Medium,
        path: Arc<Path>,
        access: Arc<Access>,
        read_only: bool,
        geometry: PoolGeometry,
    ) -> PoolInner {
        let random = RandomState::new();
        PoolInner {
            medium,
            path,
            access,
            writer: Mutex::default(),
            turn_over: Condvar::new(),
            geometry,
            boot_id: halocline_media::boot_id(),
            known_synced: AtomicU64::new(0),
            unsynced: AtomicU64::new(0),
            unsynced_log: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            salt: random.hash_one("salt") as u32,
            random,
            drawn: AtomicU64::new(0),
            read_only,
            current: Mutex::default(),
            verification: Arc::default(),
        }
    }

    pub(crate) fn writable(&self) -> Result<(), PoolError> {
        if self.read_only {
            Err(PoolError::ReadOnly {
                path: self.path.to_path_buf(),
            })
        } else {
            Ok(())
        }
    }

    /// Returns a random number that is unlikely to repeat.
    pub(crate) fn draw(&self) -> u64 {
        self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a number that identifies this boot.
    pub(crate) fn boot_tag(&self) -> u64 {
        checksum(&self.boot_id)
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, WriterState> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins the newest generation. After the pin, reads the superblock again: only if the generation is still
    /// the newest, its writer is sure to see the pin.
    pub(crate) fn pin_newest(&self) -> Result<(Superblock, PinnedGeneration), PoolError> {
        let mut superblock = read_newest(&self.medium, &self.path)?;
        loop {
            let generation = superblock.generation.get();
            self.access.pin(generation)?;
            if injected(PoolFault::SkipSecondLook) {
                break;
            }
            let again = read_newest(&self.medium, &self.path);
            match again {
                Ok(newest) if newest.generation.get() != generation => superblock = newest,
                Ok(_) => break,
                Err(error) => {
                    self.access.unpin(generation);
                    return Err(error);
                }
            }
            self.access.unpin(generation);
        }
        match self.directory_of(&superblock) {
            Ok(directory) => {
                let medium = self.medium.clone();
                let pinned = PinnedGeneration::new(
                    medium,
                    directory,
                    Arc::clone(&self.access),
                    Arc::clone(&self.path),
                    Arc::clone(&self.verification),
                    self.boot_tag(),
                );
                Ok((superblock, pinned))
            }
            Err(error) => {
                self.access.unpin(superblock.generation.get());
                Err(error)
            }
        }
    }

    /// Returns the directory of a pinned superblock, from memory if it was read last.
    fn directory_of(&self, superblock: &Superblock) -> Result<Arc<Directory>, PoolError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = &*current
            && directory.generation == superblock.generation.get()
            && directory.extent == superblock.directory()
        {
            return Ok(Arc::clone(directory));
        }
        let directory = Arc::new(read_directory(&self.medium, &self.path, superblock)?);
        *current = Some(Arc::clone(&directory));
        Ok(directory)
    }

    /// Caches the directory that this handle has just published.
    pub(crate) fn set_current(&self, directory: Directory) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(directory));
    }

    /// Implements [`Pool::sync`].
    pub(crate) fn sync(&self) -> Result<(), PoolError> {
        let appended = self.unsynced_log.swap(false, Ordering::AcqRel);
        let result = self.sync_newest(true);
        if result.is_err() && appended {
            self.unsynced_log.store(true, Ordering::Release);
        }
        result
    }

    /// Makes the newest generation durable, with a synced superblock. If `logs` is true, records appended to
    /// its logs are made durable as well where the sync does not imply it.
    pub(crate) fn sync_newest(&self, logs: bool) -> Result<(), PoolError> {
        self.writable()?;
        let _lock = self.access.lock_sync()?;
        self.medium.refresh()?;
        let mut newest = read_newest(&self.medium, &self.path)?;
        let lazy = !self.medium.fence_is_durable();
        // Pin the generation, so that its logs keep their space until their counts are stored.
        let mut pinned = None;
        if logs && lazy && newest.has_logs() {
            let (superblock, pin) = self.pin_newest()?;
            newest = superblock;
            pinned = Some(pin);
        }
        let logs_now = || pinned.iter().flat_map(PinnedGeneration::logs);
        // A damaged log keeps its present count.
        let ends: Vec<Option<RecordCount>> = logs_now()
            .map(|log| log.end().ok().map(|_| log.verified()))
            .collect();
        let generation = newest.generation.get();
        let known = self.known_synced.load(Ordering::Acquire) >= generation;
        let implied = !known && lazy;
        if injected(PoolFault::CountBeforeSync) {
            raise_counts(logs_now(), &ends);
        }
        if logs && newest.has_logs() && !implied && !injected(PoolFault::SkipLogSync) {
            // Other handles may have appended records without flushing them, so sync everything.
            self.medium.sync()?;
        }
        if !known {
            self.write_synced(newest)?;
            self.known_synced.fetch_max(generation, Ordering::AcqRel);
        }
        // Do not wait for the counts: the next sync makes them durable, and until then they are valid lower
        // bounds.
        raise_counts(logs_now(), &ends);
        Ok(())
    }

    /// Makes a generation durable, then its synced superblock. The caller holds the lock of syncs.
    fn write_synced(&self, mut superblock: Superblock) -> Result<(), PoolError> {
        let medium = &self.medium;
        let durable = medium.fence_is_durable();
        let stays = durable && superblock.is_synced();
        if !stays && !injected(PoolFault::SyncSuperblockFirst) {
            // The data first: the superblock stored below vouches for it.
            medium.sync()?;
        }
        superblock.synced_generation = superblock.generation;
        superblock.boot_id = self.boot_id;
        superblock.write(medium, SuperblockCopies::read(medium).sync_target());
        medium.fence()?;
        if !durable {
            medium.sync()?;
        }
        Ok(())
    }

    /// Syncs if this handle has published or appended something that is not synced.
    fn sync_own(&self) -> Result<(), PoolError> {
        let unsynced = self.unsynced.load(Ordering::Acquire) > self.known_synced.load(Ordering::Acquire);
        if unsynced || self.unsynced_log.load(Ordering::Acquire) {
            self.sync()
        } else {
            Ok(())
        }
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        if let Err(error) = self.sync_own() {
            tracing::warn!(path = %self.path.display(), %error, "closed without syncing the last changes");
        }
    }
}

/// Stores in each log's count that these records are durable.
fn raise_counts<'a>(logs: impl Iterator<Item = PinnedLog<'a>>, records: &[Option<RecordCount>]) {
    for (log, records) in logs.zip(records) {
        if let (Some(counts), Some(records)) = (log.counts(), *records) {
            counts.raise_durable(records);
        }
    }
}

/// Maximum bytes of a directory's zeros that may lack blocks.
const MAX_HOLE_BYTES: u64 = 16 << 20;

/// Reads the directory of a superblock that [`check_reach`](crate::superblock::check_reach) has accepted.
///
/// # Errors
/// [`PoolError::DamagedDirectory`].
pub(crate) fn read_directory(
    medium: &Medium,
    path: &Path,
    superblock: &Superblock,
) -> Result<Directory, PoolError> {
    let extent = superblock.directory();
    let generation = superblock.generation.get();
    let damaged = |reason: Cow<'static, str>| PoolError::DamagedDirectory {
        path: path.to_owned(),
        generation,
        reason,
    };
    // Stored bytes have blocks, except zeros that a copy of the file may have omitted. This bounds the memory
    // that a false length can cost.
    if extent.len > medium.allocated()?.saturating_add(MAX_HOLE_BYTES) {
        return Err(damaged("it is longer than all that the file holds".into()));
    }
    let mut bytes = vec![0; extent.len as usize];
    medium.load(extent.offset, &mut bytes);
    if checksum(&bytes) != extent.checksum {
        return Err(damaged("its checksum is wrong".into()));
    }
    let features = Features::from_superblock(superblock);
    Directory::decode(&bytes, extent, generation, superblock.file_len.get(), features).map_err(damaged)
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("path", &self.inner.path)
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}
