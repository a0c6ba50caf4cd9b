//! Creation and opening of pools.
//!
//! A pool's file appears under its name only when it is complete: it is written under another name and
//! renamed. Opening reads the superblocks and the directory, but no data.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_media::{FileMedium, FileOptions, MediaError, Medium, MediumAccess, MediumBackend};

use crate::PoolError;
use crate::access::Access;
use crate::directory::{ObjectMap, encode};
use crate::fault::{PoolFault, injected};
use crate::layout::{DATA_START, FORMAT_WITHOUT_LOGS, MAGIC, Superblock, checksum};
use crate::leftovers::{remove_leftovers, unfinished_name};
use crate::locks::LockFile;
use crate::object::ExtentRef;
use crate::pool::{Pool, PoolGeometry, PoolInner, PoolOptions};
use crate::superblock::{SuperblockCopies, read_newest};

impl Pool {
    /// Creates an empty pool in a new file and opens it. The creation is atomic, and the file survives power
    /// loss when this returns.
    ///
    /// # Errors
    /// [`PoolError::AlreadyExists`], [`PoolError::DiskFull`], [`PoolError::ReadOnly`] if the options demand
    /// it, or an error of the file system.
    pub fn create(path: impl AsRef<Path>, options: &PoolOptions) -> Result<Pool, PoolError> {
        let path = path.as_ref();
        if options.read_only {
            return Err(PoolError::ReadOnly {
                path: path.to_owned(),
            });
        }
        if fs::symlink_metadata(path).is_ok() {
            return Err(PoolError::AlreadyExists {
                path: path.to_owned(),
            });
        }
        remove_leftovers(path);
        let unfinished = UnfinishedFile(unfinished_name(path));
        let file = FileOptions {
            create: true,
            ..file_options(options)
        };
        let written = FileMedium::open(&unfinished.0, &file).map_err(PoolError::from);
        let written = written.and_then(|medium| {
            // Another process that removes leftovers must find the file either empty or locked.
            let lock = lock_unfinished(&unfinished.0)?;
            initialise(&Medium::from(medium), PoolGeometry::default()).map(|()| lock)
        });
        let _lock = written.map_err(|error| cannot_create(path, error))?;
        unfinished.become_pool(path)?;
        let pool = Pool::open(path, options)?;
        pool.inner.known_synced.fetch_max(FIRST, Ordering::AcqRel);
        Ok(pool)
    }

    /// Opens a pool's file: for reading only if the process may not write it, or its file system is read-only.
    /// The duration depends on the size of the directory, not on that of the data.
    ///
    /// # Errors
    /// [`PoolError::NotFound`], [`PoolError::NotAPool`], [`PoolError::Truncated`],
    /// [`PoolError::NewerFormat`], [`PoolError::DamagedSuperblock`], [`PoolError::DamagedDirectory`],
    /// [`PoolError::UnsyncedAfterReboot`], or an error of the file system.
    pub fn open(path: impl AsRef<Path>, options: &PoolOptions) -> Result<Pool, PoolError> {
        Pool::open_wrapped(path, options, |medium| medium)
    }

    /// Opens a pool's file through a medium that `wrap` makes from the file's, such as an emulated device or
    /// a counter.
    ///
    /// # Errors
    /// Fails like [`Pool::open`].
    pub fn open_wrapped(
        path: impl AsRef<Path>,
        options: &PoolOptions,
        wrap: impl FnOnce(Medium) -> Medium,
    ) -> Result<Pool, PoolError> {
        let path = path.as_ref();
        let mut read_only = options.read_only;
        let (medium, locks) = match open_file(path, options) {
            Err(error) if !read_only && must_not_write(&error) => {
                tracing::debug!(%error, "opened for reading");
                read_only = true;
                open_file(path, &options.clone().with_read_only(true))?
            }
            opened => opened?,
        };
        let access = Access::of_file(locks, path.into());
        finish_open(PoolInner::new(
            wrap(medium),
            path.into(),
            access,
            read_only,
            PoolGeometry::default(),
        ))
    }

    /// Creates an empty pool on a medium, which grows as needed.
    ///
    /// # Errors
    /// [`PoolError::AlreadyExists`] if the medium holds a pool, or an error of the medium.
    pub fn create_on(medium: impl Into<Medium>) -> Result<Pool, PoolError> {
        Pool::create_with(medium, PoolGeometry::default())
    }

    /// Opens the pool on a medium. Several handles on one medium coordinate like handles on one file.
    ///
    /// # Errors
    /// Fails like [`Pool::open`].
    pub fn open_on(medium: impl Into<Medium>) -> Result<Pool, PoolError> {
        Pool::open_with(medium, PoolGeometry::default(), halocline_media::boot_id())
    }

    pub(crate) fn create_with(medium: impl Into<Medium>, geometry: PoolGeometry) -> Result<Pool, PoolError> {
        let medium = medium.into();
        let path = medium_name(&medium);
        if medium.len() >= DATA_START && SuperblockCopies::read(&medium).valid().next().is_some() {
            return Err(PoolError::AlreadyExists {
                path: path.to_path_buf(),
            });
        }
        initialise(&medium, geometry)?;
        let pool = Pool::open_with(medium, geometry, halocline_media::boot_id())?;
        pool.inner.known_synced.fetch_max(FIRST, Ordering::AcqRel);
        Ok(pool)
    }

    pub(crate) fn open_with(
        medium: impl Into<Medium>,
        geometry: PoolGeometry,
        boot_id: [u8; 16],
    ) -> Result<Pool, PoolError> {
        let medium = medium.into();
        let path = medium_name(&medium);
        let access = Access::of_medium(&medium, &path);
        let mut inner = PoolInner::new(medium, path, access, false, geometry);
        inner.boot_id = boot_id;
        finish_open(inner)
    }
}

/// Returns true for the errors of a file that exists but may not be written.
fn must_not_write(error: &PoolError) -> bool {
    match error {
        PoolError::Io { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
        ),
        _ => false,
    }
}

/// Opens a pool's file and a second descriptor for its locks, after checking how the file starts.
pub(crate) fn open_file(path: &Path, options: &PoolOptions) -> Result<(Medium, LockFile), PoolError> {
    look(path)?;
    let file = FileOptions {
        keep_holes: true,
        ..file_options(options)
    };
    let locks = File::options().read(true).write(!options.read_only).open(path);
    let locks = LockFile::new(locks.map_err(|error| PoolError::io("open", path, error))?);
    // Take the lock before the file is mapped, so that nobody shortens it afterwards.
    locks
        .share_open()
        .map_err(|error| PoolError::io("lock", path, error))?;
    let medium = FileMedium::open(path, &file)?;
    if !options.read_only {
        remove_leftovers(path);
        medium.reserve(0, DATA_START.min(medium.len()))?;
    }
    Ok((Medium::from(medium), locks))
}

/// Rejects a file that is clearly not a pool before it is mapped.
fn look(path: &Path) -> Result<(), PoolError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => PoolError::NotFound {
            path: path.to_owned(),
        },
        _ => PoolError::io("open", path, error),
    };
    let foreign = |reason| {
        Err(PoolError::NotAPool {
            path: path.to_owned(),
            reason,
        })
    };
    // Check before opening: opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return foreign("it is not a regular file");
    }
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file
        .metadata()
        .map_err(|error| PoolError::io("look at", path, error))?;
    if metadata.len() == 0 {
        return foreign("it is empty");
    }
    if metadata.len() < DATA_START {
        let mut start = [0; MAGIC.len()];
        return match file.read_exact(&mut start) {
            Ok(()) if start == MAGIC => Err(PoolError::Truncated {
                path: path.to_owned(),
                expected: DATA_START,
                actual: metadata.len(),
            }),
            _ => foreign("it is too short"),
        };
    }
    Ok(())
}

fn finish_open(inner: PoolInner) -> Result<Pool, PoolError> {
    let newest = read_newest(&inner.medium, &inner.path)?;
    let slots = SuperblockCopies::read(&inner.medium);
    let synced = slots.synced_generation();
    let rebooted = newest.boot_id != inner.boot_id && !injected(PoolFault::TrustNewestAfterReboot);
    if newest.generation.get() > synced && rebooted {
        let newest = newest.generation.get();
        return Err(PoolError::UnsyncedAfterReboot {
            path: inner.path.to_path_buf(),
            newest,
            synced,
        });
    }
    inner.pin_newest()?;
    if inner.writable().is_ok() {
        slots.features().check_writable(&inner.path)?;
    }
    Ok(Pool {
        inner: Arc::new(inner),
    })
}

/// The generation of an empty pool.
const FIRST: u64 = 1;

/// Writes an empty pool, durable on return.
fn initialise(medium: &Medium, geometry: PoolGeometry) -> Result<(), PoolError> {
    medium.grow(geometry.initial_len)?;
    let directory = encode(FIRST, &ObjectMap::new(), None);
    let extent = ExtentRef::plain(DATA_START, directory.len() as u64, checksum(&directory));
    medium.store(extent.offset, &directory);
    let boot_id = halocline_media::boot_id();
    let mut superblock = Superblock::new(
        FORMAT_WITHOUT_LOGS,
        new_uuid()?,
        boot_id,
        FIRST,
        geometry.initial_len,
        &extent,
    );
    superblock.synced_generation = superblock.generation;
    superblock.store(medium, 0);
    superblock.store(medium, 2);
    // A crash before this point may leave any part, which does not count as a pool.
    medium.sync()?;
    Ok(())
}

/// Returns a random identifier of the pool (version 4, variant 1 of RFC 9562).
fn new_uuid() -> Result<[u8; 16], PoolError> {
    const SOURCE: &str = "/dev/urandom";
    let mut uuid = [0; 16];
    let read = File::open(SOURCE).and_then(|mut source| source.read_exact(&mut uuid));
    read.map_err(|error| PoolError::io("read", Path::new(SOURCE), error))?;
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

fn file_options(options: &PoolOptions) -> FileOptions {
    FileOptions {
        read_only: options.read_only,
        strict: options.strict,
        assume_dax: options.assume_dax,
        ..FileOptions::default()
    }
}

/// Returns a name for a medium without a path.
pub(crate) fn medium_name(medium: &Medium) -> Arc<Path> {
    PathBuf::from(format!("<{}>", medium.kind())).into()
}

/// Converts an error of the unfinished file to one of the pool.
fn cannot_create(path: &Path, error: PoolError) -> PoolError {
    match error {
        PoolError::DiskFull { wanted, .. } => PoolError::DiskFull {
            path: path.to_owned(),
            wanted,
        },
        PoolError::NotFound { .. } => PoolError::io("create", path, io::Error::from(io::ErrorKind::NotFound)),
        PoolError::Media(MediaError::Io { action, source, .. }) => PoolError::io(action, path, source),
        other => other,
    }
}

/// Locks a file that is not a pool yet.
fn lock_unfinished(path: &Path) -> Result<LockFile, PoolError> {
    let file = File::options().read(true).write(true).open(path);
    let lock = file
        .map(LockFile::new)
        .and_then(|lock| lock.try_writer().map(|_| lock));
    lock.map_err(|error| PoolError::io("lock", path, error))
}

/// The file of an unfinished pool, removed on drop unless it has been renamed.
struct UnfinishedFile(PathBuf);

impl UnfinishedFile {
    fn become_pool(self, path: &Path) -> Result<(), PoolError> {
        rename_to_new(&self.0, path)?;
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let synced = File::open(parent).and_then(|directory| directory.sync_all());
        synced.map_err(|error| PoolError::io("sync the directory of", path, error))
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        // Failure is expected after the rename, and otherwise less important than the error that led here.
        let _ = fs::remove_file(&self.0);
    }
}

/// Renames without replacing a file that may have appeared meanwhile.
fn rename_to_new(from: &Path, to: &Path) -> Result<(), PoolError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let refused = || PoolError::AlreadyExists { path: to.to_owned() };
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(refused()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from).map_err(|error| PoolError::io("remove", from, error)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(refused()),
            Err(error) => Err(PoolError::io("create", to, error)),
        },
        Err(error) => Err(PoolError::io("create", to, error)),
    }
}
