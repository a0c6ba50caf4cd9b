//! The handle of an open pool: [`Pool`].
//!
//! Durability in default mode: a publish survives the process. Power loss is survived up to the last sync,
//! which also happens when the last handle that has published something closes, and when reclaiming space
//! needs it.

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
use crate::features::Features;
use crate::layout::{DATA_START, INITIAL_LEN, Superblock, checksum};
use crate::log::PinnedLog;
use crate::log_count::RecordCount;
use crate::mistake::{Mistake, made};
use crate::snapshot::{PinnedGeneration, Snapshot};
use crate::space::Space;
use crate::superblock::{SuperblockCopies, read_newest};
use crate::txn::Txn;
use crate::verify::{VerificationState, VerifiedReads, VerifyMode};

/// How to open or create a pool's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// Open it for reading only: any number may read beside one writer.
    pub read_only: bool,
    /// On the page cache, make every publish survive power loss, at the price of an `msync` each. If not set, publishes
    /// survive the death of the process, and power loss up to the last [`Pool::sync`].
    pub strict: bool,
    /// Treat the page cache as if it were DAX: for benchmarks on DRAM-backed files only, nothing is durable.
    pub assume_dax: bool,
}

/// What [`Pool::info`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolInfo {
    /// The file, or the medium's name in angle brackets.
    pub path: PathBuf,
    /// What the pool lies on.
    pub kind: MediumKind,
    /// Length of the file in bytes.
    pub len: u64,
    /// Bytes that the file takes of its file system: less than `len` after a [`Pool::vacuum`].
    pub allocated: u64,
    /// Bytes that the newest generation names, superblocks and directory included.
    pub used: u64,
    /// All other bytes; those that older snapshots see among them.
    pub free: u64,
    /// The newest published generation.
    pub generation: u64,
    /// The newest generation that power loss cannot harm.
    pub synced_generation: u64,
    /// How many objects there are.
    pub objects: usize,
    /// Given at creation, never changed.
    pub uuid: [u8; 16],
    /// Version of the format: what a program must know to read the pool.
    pub version: u32,
}

/// Sizes that tests make small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolGeometry {
    /// Bytes of a new pool.
    pub(crate) initial_len: u64,
    /// The least a pool grows by; its length is a multiple of this afterwards.
    pub(crate) growth: u64,
    /// Where a sync is slow, the least space that makes one worth while to let it go.
    pub(crate) worth: u64,
}

impl Default for PoolGeometry {
    fn default() -> PoolGeometry {
        PoolGeometry {
            initial_len: INITIAL_LEN,
            growth: 4 << 20,
            worth: 1 << 20,
        }
    }
}

/// What only the writer uses, and whether there is one in this handle.
#[derive(Debug, Default)]
pub(crate) struct WriterState {
    pub(crate) busy: bool,
    /// The lock, as long as a transaction of this handle or what it has left behind holds it.
    pub(crate) lock: Weak<WriterLock>,
    pub(crate) space: Option<Space>,
}

/// What all clones of a handle share.
pub(crate) struct PoolInner {
    pub(crate) medium: Medium,
    pub(crate) path: Arc<Path>,
    pub(crate) access: Arc<Access>,
    pub(crate) writer: Mutex<WriterState>,
    /// Told when a transaction of this handle ends.
    pub(crate) turn_over: Condvar,
    pub(crate) geometry: PoolGeometry,
    pub(crate) boot_id: [u8; 16],
    /// Newest generation that a sync of this handle has made durable and written to a synced superblock: unlike what a
    /// superblock of another handle says, this is known to be durable.
    pub(crate) known_synced: AtomicU64,
    /// Newest generation this handle has published without syncing it; 0 if there is none.
    pub(crate) unsynced: AtomicU64,
    /// Whether this handle has appended to a log since its last sync.
    pub(crate) unsynced_log: AtomicBool,
    /// Set when a publish failed half-way: the medium must say that it still works before the next one.
    pub(crate) failed: AtomicBool,
    /// Tells records of this handle from those of others, of this or another life of the machine.
    pub(crate) salt: u32,
    random: RandomState,
    drawn: AtomicU64,
    read_only: bool,
    current: Mutex<Option<Arc<Directory>>>,
    pub(crate) verification: Arc<VerificationState>,
}

/// An open pool. Cheap to clone; clones share the writer's lock and all state.
///
/// Any number of threads and processes may read while one writes. The last clone to go syncs what it has published; use
/// [`close`](Pool::close) to learn whether it could.
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
    /// The file, or the medium's name in angle brackets.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// What the pool lies on.
    pub fn kind(&self) -> MediumKind {
        self.inner.medium.kind()
    }

    /// The newest published generation, pinned. Costs two loads and a system call for the file's length when nothing was
    /// published since the last call.
    ///
    /// # Errors
    /// [`PoolError::Truncated`], [`PoolError::DamagedSuperblock`] or [`PoolError::DamagedDirectory`] if the file was
    /// damaged while it is open; [`PoolError::Io`] if the file system has no locks.
    pub fn snapshot(&self) -> Result<Snapshot, PoolError> {
        // To touch what was cut off would end the process.
        self.inner.medium.refresh()?;
        self.inner
            .pin_newest()
            .map(|(_, pinned)| Snapshot::new(Arc::new(pinned)))
    }

    /// Starts the one transaction that may write, on the newest generation. It holds the writer's lock to its end.
    ///
    /// # Errors
    /// [`PoolError::Locked`] at once if any other handle or thread has one, [`PoolError::ReadOnly`], and all of
    /// [`snapshot`](Pool::snapshot).
    pub fn begin(&self) -> Result<Txn, PoolError> {
        Txn::begin(&self.inner)
    }

    /// As [`begin`](Pool::begin), but waits up to `timeout` for the other writer to be done. Writers that wait are not
    /// served in any order.
    ///
    /// # Errors
    /// [`PoolError::Locked`] if it was not done by then, and all of [`begin`](Pool::begin).
    pub fn begin_wait(&self, timeout: Duration) -> Result<Txn, PoolError> {
        Txn::begin_wait(&self.inner, timeout)
    }

    /// Decides when extents are compared with their checksums, for all that read through this handle and its clones.
    pub fn set_verify_mode(&self, mode: VerifyMode) {
        self.inner.verification.set_mode(mode);
    }

    /// When extents are compared with their checksums.
    pub fn verify_mode(&self) -> VerifyMode {
        self.inner.verification.mode()
    }

    /// Forgets which blocks were found intact, so that they are verified again when they are next read.
    pub fn forget_verified(&self) {
        self.inner.verification.forget();
    }

    /// As [`Snapshot::verified_reads`].
    pub fn verified_reads(&self) -> VerifiedReads {
        VerifiedReads::new(&self.inner.verification)
    }

    /// Makes the newest generation and all that its logs hold survive power loss, and lets the space that earlier ones freed be used again. Fine
    /// beside a writer, here or in another process; what it has not published is not part of it.
    ///
    /// # Errors
    /// [`PoolError::ReadOnly`], [`PoolError::Media`] if the disk fails.
    pub fn sync(&self) -> Result<(), PoolError> {
        self.inner.sync()
    }

    /// Syncs what this handle has published, and closes it. Snapshots live on.
    ///
    /// # Errors
    /// As [`sync`](Pool::sync).
    pub fn close(self) -> Result<(), PoolError> {
        self.inner.sync_own()
    }

    /// Facts about the pool and its newest generation. Linear in the number of extents.
    ///
    /// # Errors
    /// As [`snapshot`](Pool::snapshot).
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

    /// A number that nobody has drawn before or will draw again.
    pub(crate) fn draw(&self) -> u64 {
        self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// A number of this boot of the machine.
    pub(crate) fn boot_tag(&self) -> u64 {
        checksum(&self.boot_id)
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, WriterState> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// PinnedRanges the newest generation: reads the superblock, pins, and looks again whether it is still the newest, as only
    /// then its writer is sure to have seen the pin.
    pub(crate) fn pin_newest(&self) -> Result<(Superblock, PinnedGeneration), PoolError> {
        let mut superblock = read_newest(&self.medium, &self.path)?;
        loop {
            let generation = superblock.generation.get();
            self.access.pin(generation)?;
            if made(Mistake::SkipSecondLook) {
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

    /// The directory of a pinned superblock, from memory if it is the one read last.
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

    /// Remembers the directory that this handle has just published.
    pub(crate) fn set_current(&self, directory: Directory) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(directory));
    }

    /// As [`Pool::sync`].
    pub(crate) fn sync(&self) -> Result<(), PoolError> {
        let appended = self.unsynced_log.swap(false, Ordering::AcqRel);
        let result = self.sync_newest(true);
        if result.is_err() && appended {
            self.unsynced_log.store(true, Ordering::Release);
        }
        result
    }

    /// Makes the newest generation durable, with a superblock that vouches for it; `logs` says whether what was appended
    /// to its logs must be durable as well where that is not implied.
    pub(crate) fn sync_newest(&self, logs: bool) -> Result<(), PoolError> {
        self.writable()?;
        let _lock = self.access.lock_sync()?;
        self.medium.refresh()?;
        let mut newest = read_newest(&self.medium, &self.path)?;
        let lazy = !self.medium.fence_is_durable();
        // PinnedGeneration, so that the space of its logs stays theirs until their counts are stored.
        let mut pinned = None;
        if logs && lazy && newest.has_logs() {
            let (superblock, pin) = self.pin_newest()?;
            newest = superblock;
            pinned = Some(pin);
        }
        let logs_now = || pinned.iter().flat_map(PinnedGeneration::logs);
        // A damaged log keeps the count it has.
        let ends: Vec<Option<RecordCount>> = logs_now()
            .map(|log| log.end().ok().map(|_| log.verified()))
            .collect();
        let generation = newest.generation.get();
        let known = self.known_synced.load(Ordering::Acquire) >= generation;
        let implied = !known && lazy;
        if made(Mistake::CountBeforeSync) {
            raise_counts(logs_now(), &ends);
        }
        if logs && newest.has_logs() && !implied && !made(Mistake::SkipLogSync) {
            // How far other handles have appended, and whether they have flushed it, is not known.
            self.medium.sync()?;
        }
        if !known {
            self.write_synced(newest)?;
            self.known_synced.fetch_max(generation, Ordering::AcqRel);
        }
        // Not waited for: the next sync makes them durable, and until then they say less than there is.
        raise_counts(logs_now(), &ends);
        Ok(())
    }

    /// Makes a generation durable, then the superblock that vouches for it. The caller has the lock of syncs.
    fn write_synced(&self, mut superblock: Superblock) -> Result<(), PoolError> {
        let medium = &self.medium;
        let durable = medium.fence_is_durable();
        let stays = durable && superblock.is_synced();
        if !stays && !made(Mistake::SyncSuperblockFirst) {
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

/// Stores that so many records of each log are durable.
fn raise_counts<'a>(logs: impl Iterator<Item = PinnedLog<'a>>, records: &[Option<RecordCount>]) {
    for (log, records) in logs.zip(records) {
        if let (Some(counts), Some(records)) = (log.counts(), *records) {
            counts.raise_durable(records);
        }
    }
}

/// The most bytes of zeros of a directory that may have no blocks.
const MOST_HOLES: u64 = 16 << 20;

/// Reads the directory of a superblock that [`check_reach`](crate::superblock::check_reach) has passed.
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
    // What a writer has stored has blocks, but for zeros that a copy of the file may have left out. So a length that is
    // not true costs no more memory than the file is worth.
    if extent.len > medium.allocated()?.saturating_add(MOST_HOLES) {
        return Err(damaged("it is longer than all that the file holds".into()));
    }
    let mut bytes = vec![0; extent.len as usize];
    medium.load(extent.offset, &mut bytes);
    if checksum(&bytes) != extent.checksum {
        return Err(damaged("its checksum is wrong".into()));
    }
    let features = Features::of(superblock);
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
