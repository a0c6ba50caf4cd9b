//! A reader's view of one generation: [`Snapshot`] and [`Object`].
#![allow(unsafe_code, reason = "vouches for extents of a pinned generation")]

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use halocline_media::Medium;
use zerocopy::FromBytes;

use crate::PoolError;
use crate::access::{Access, WriterLock};
use crate::bytes::ExtentBytes;
use crate::directory::{Directory, ObjectRecord};
use crate::layout::{SUMMED_FROM, SlabMeta};
use crate::log::{LogRecords, PinnedLog};
use crate::object::{ExtentRef, ObjectKind};
use crate::verify::{VerificationState, VerifiedReads};

/// A pinned generation: the space that it names is not overwritten while this lives.
pub(crate) struct PinnedGeneration {
    medium: Medium,
    directory: Arc<Directory>,
    access: Arc<Access>,
    path: Arc<Path>,
    verification: Arc<VerificationState>,
    /// Identifies this boot.
    boot: u64,
    /// Set when a transaction ends while its unpublished extents are still read. Until then only its own
    /// handle, which knows what to spare, may write.
    lock: OnceLock<Arc<WriterLock>>,
}

impl PinnedGeneration {
    /// Takes ownership of a pin of the directory's generation.
    pub(crate) fn new(
        medium: Medium,
        directory: Arc<Directory>,
        access: Arc<Access>,
        path: Arc<Path>,
        verification: Arc<VerificationState>,
        boot: u64,
    ) -> PinnedGeneration {
        PinnedGeneration {
            medium,
            directory,
            access,
            path,
            verification,
            boot,
            lock: OnceLock::new(),
        }
    }

    /// Holds the writer's lock as long as anyone reads through this.
    pub(crate) fn keep_lock(&self, lock: Arc<WriterLock>) {
        self.lock.get_or_init(|| lock);
    }

    pub(crate) fn medium(&self) -> &Medium {
        &self.medium
    }

    pub(crate) fn verification(&self) -> &Arc<VerificationState> {
        &self.verification
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Implements [`Snapshot::log_persist`].
    pub(crate) fn log_persist(&self, name: &str, upto: u64) -> Result<(), PoolError> {
        log_of(self, name)?.persist(upto)?;
        self.access.check_place()
    }

    /// Implements [`Snapshot::log_records`].
    pub(crate) fn log_records(&self, name: &str, from: u64) -> Result<LogRecords, PoolError> {
        log_of(self, name)?
            .records(from)
            .map_err(|damage| damage.into_error(&self.path, name))?
            .ok_or_else(|| PoolError::NoSuchPosition {
                path: self.path.to_path_buf(),
                name: name.to_owned(),
                position: from,
            })
    }

    /// Returns the logs of the generation.
    pub(crate) fn logs(&self) -> impl Iterator<Item = PinnedLog<'_>> {
        let records = self.directory.objects.values();
        records.filter_map(|record| PinnedLog::from_record(&self.medium, record, self.boot))
    }
}

/// Returns a log of the pinned generation.
///
/// # Errors
/// [`PoolError::NoSuchObject`], [`PoolError::NotALog`].
pub(crate) fn log_of<'a>(pinned: &'a PinnedGeneration, name: &str) -> Result<PinnedLog<'a>, PoolError> {
    let path = || pinned.path.to_path_buf();
    let name_owned = || name.to_owned();
    let Some(record) = pinned.directory.objects.get(name) else {
        return Err(PoolError::NoSuchObject {
            path: path(),
            name: name_owned(),
        });
    };
    PinnedLog::from_record(&pinned.medium, record, pinned.boot).ok_or_else(|| PoolError::NotALog {
        path: path(),
        name: name_owned(),
        kind: record.kind,
    })
}

impl Drop for PinnedGeneration {
    fn drop(&mut self) {
        self.access.unpin(self.directory.generation);
    }
}

impl fmt::Debug for PinnedGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedGeneration")
            .field("generation", &self.directory.generation)
            .finish_non_exhaustive()
    }
}

/// A published generation of a pool. It stays complete and unchanged for as long as it is held, whatever is
/// published, replaced or dropped meanwhile, here or in another process. Cheap to clone.
///
/// Space that later generations free is not reused while an older snapshot lives, so drop it as soon as
/// possible.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pinned: Arc<PinnedGeneration>,
}

impl Snapshot {
    pub(crate) fn new(pinned: Arc<PinnedGeneration>) -> Snapshot {
        Snapshot { pinned }
    }

    /// Returns the number of this generation. Each publish makes the next.
    pub fn generation(&self) -> u64 {
        self.pinned.directory.generation
    }

    /// Verifies everything read through the pool's handle while the result lives, even if [verification is
    /// off](crate::Pool::set_verify_mode). For code that stores data derived from what it reads.
    pub fn verified_reads(&self) -> VerifiedReads {
        VerifiedReads::new(&self.pinned.verification)
    }

    /// Returns all objects in the order of their names.
    pub fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        let objects = self.pinned.directory.objects.iter();
        objects
            .map(|(name, record)| Object::new(Arc::clone(&self.pinned), Arc::clone(name), Arc::clone(record)))
    }

    /// Returns the object of this name, if it exists.
    pub fn get(&self, name: &str) -> Option<Object> {
        let (name, record) = self.pinned.directory.objects.get_key_value(name)?;
        Some(Object::new(
            Arc::clone(&self.pinned),
            Arc::clone(name),
            Arc::clone(record),
        ))
    }

    /// Returns the object of this name.
    ///
    /// # Errors
    /// [`PoolError::NoSuchObject`].
    pub fn object(&self, name: &str) -> Result<Object, PoolError> {
        let missing = || PoolError::NoSuchObject {
            path: self.pinned.path.to_path_buf(),
            name: name.to_owned(),
        };
        self.get(name).ok_or_else(missing)
    }

    /// Returns all complete records of a log of this generation from a position on: 0, or the
    /// [`end`](LogRecords::end) of an earlier call for the same generation. Includes records appended
    /// since the snapshot was taken, until another generation is published, but never a record of another
    /// generation. Linear in the bytes of these records; can run beside a writer.
    ///
    /// # Errors
    /// [`PoolError::NoSuchObject`], [`PoolError::NotALog`], [`PoolError::NoSuchPosition`],
    /// [`PoolError::DamagedLog`] if records of the log are missing.
    pub fn log_records(&self, name: &str, from: u64) -> Result<LogRecords, PoolError> {
        self.pinned.log_records(name, from)
    }

    /// Returns true if the count of a log is intact, or `None` if the log has no count.
    #[cfg(test)]
    pub(crate) fn log_counts(&self, name: &str) -> Result<Option<bool>, PoolError> {
        use crate::log_count::{CountBound, LogCounts};
        let log = log_of(&self.pinned, name)?;
        let own = |counts: &LogCounts<'_>| counts.bound() != CountBound::Superseded && counts.is_whole();
        Ok(log.counts().map(own))
    }

    /// Makes the records of a log up to a position returned by [`Txn::log_store`](crate::Txn::log_store)
    /// durable. Concurrent callers share a fence.
    ///
    /// # Errors
    /// [`PoolError::NoSuchObject`], [`PoolError::NotALog`], [`PoolError::Media`].
    pub fn log_persist(&self, name: &str, upto: u64) -> Result<(), PoolError> {
        self.pinned.log_persist(name, upto)
    }
}

/// A named object of a snapshot or a transaction, with metadata and extents. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Object {
    pinned: Arc<PinnedGeneration>,
    name: Arc<str>,
    record: Arc<ObjectRecord>,
}

impl Object {
    /// Creates an object whose extents the pinned generation names, or a transaction based on it has
    /// finished.
    pub(crate) fn new(pinned: Arc<PinnedGeneration>, name: Arc<str>, record: Arc<ObjectRecord>) -> Object {
        Object { pinned, name, record }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its kind.
    pub fn kind(&self) -> ObjectKind {
        self.record.kind
    }

    /// Returns its metadata, which the directory's checksum covers.
    pub fn meta(&self) -> &[u8] {
        &self.record.meta
    }

    /// Returns the eight bytes that identify the owner of a slab, or `None` for other objects.
    pub fn slab_owner(&self) -> Option<[u8; 8]> {
        if self.kind() != ObjectKind::SLAB {
            return None;
        }
        SlabMeta::read_from_bytes(self.meta()).ok().map(|meta| meta.owner)
    }

    /// Returns the number of extents.
    pub fn extent_count(&self) -> usize {
        self.record.extents.len()
    }

    /// Returns the bytes in its extents, without metadata.
    pub fn bytes(&self) -> u64 {
        self.record.extents.iter().map(|extent| extent.len).sum()
    }

    /// Returns the location of extent `index`, which an object of a later transaction may use.
    ///
    /// # Panics
    /// If `index` is not below [`extent_count`](Object::extent_count).
    pub fn extent_ref(&self, index: usize) -> ExtentRef {
        self.record.extents[index]
    }

    /// Returns the bytes of extent `index`. Short extents (up to 64 KiB) are verified as a whole on first
    /// use. Longer ones are verified block by block by their readers, because opening a pool must not
    /// read its data.
    ///
    /// # Errors
    /// [`PoolError::NoSuchExtent`], [`PoolError::ChecksumMismatch`], [`PoolError::IsALog`],
    /// [`PoolError::IsASlab`].
    pub fn extent(&self, index: usize) -> Result<ExtentBytes, PoolError> {
        let extent = self.find(index)?;
        if extent.len <= SUMMED_FROM {
            self.verify(index, extent)
        } else {
            Ok(self.bytes_of(index, extent))
        }
    }

    /// Returns the bytes of extent `index` after verifying them, unless they have been verified before.
    ///
    /// # Errors
    /// [`PoolError::NoSuchExtent`], [`PoolError::ChecksumMismatch`], [`PoolError::IsALog`],
    /// [`PoolError::IsASlab`].
    pub fn extent_verified(&self, index: usize) -> Result<ExtentBytes, PoolError> {
        let extent = self.find(index)?;
        self.verify(index, extent)
    }

    fn find(&self, index: usize) -> Result<ExtentRef, PoolError> {
        if self.kind() == ObjectKind::LOG {
            return Err(PoolError::IsALog {
                path: self.pinned.path.to_path_buf(),
                name: self.name().to_owned(),
            });
        }
        if self.kind() == ObjectKind::SLAB {
            return Err(PoolError::IsASlab {
                path: self.pinned.path.to_path_buf(),
                name: self.name().to_owned(),
            });
        }
        self.record
            .extents
            .get(index)
            .copied()
            .ok_or_else(|| PoolError::NoSuchExtent {
                path: self.pinned.path.to_path_buf(),
                object: self.name().to_owned(),
                extent: index,
                count: self.extent_count(),
            })
    }

    fn verify(&self, index: usize, extent: ExtentRef) -> Result<ExtentBytes, PoolError> {
        let bytes = self.bytes_of(index, extent);
        match bytes.verify_all() {
            Ok(()) => Ok(bytes),
            Err(_) => Err(PoolError::ChecksumMismatch {
                path: self.pinned.path.to_path_buf(),
                object: self.name().to_owned(),
                extent: index,
            }),
        }
    }

    fn bytes_of(&self, index: usize, extent: ExtentRef) -> ExtentBytes {
        let state = self.record.states[index].get_or_init(|| {
            let state = self.pinned.verification.state(&extent);
            state.set_name(|| format!("extent {index} of '{}'", self.name));
            state
        });
        // SAFETY: `new` was given extents of the pinned generation, or finished by a transaction that works
        // on it.
        unsafe { ExtentBytes::new(Arc::clone(&self.pinned), &extent, Arc::clone(state)) }
    }
}
