//! A file as a medium, mapped with DAX where the file system supports it and through the page cache
//! otherwise.
//!
//! The file is mapped from its start, without gaps, up to its last known length. Growth allocates the blocks
//! before it sets the length, so that no reader ever sees a length without blocks, which would end in SIGBUS
//! on a full disk.
//!
//! `MAP_SYNC` is tried first. Where the file system grants it, a flush is a CPU instruction and a fence is
//! `sfence`. Otherwise a fence orders stores, which then survive the process but not power loss. In strict
//! mode a fence is an `msync` of the pages that were flushed since the previous fence, or one `fdatasync` if
//! they form several ranges, and what is appended to a log is written by system calls.
//!
//! On ext4 (Linux 6.16 and later) a file that is written through its mapping gets huge pages, which halves
//! the time of random reads; a file written by `write` does not. On tmpfs, `gather` collapses existing pages
//! into huge ones (`MADV_COLLAPSE`).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use rustix::mm::MapFlags;

use crate::bus_error::FileTableSlot;
use crate::dirty::DirtyPages;
use crate::error_latch::ErrorLatch;
use crate::flush::{FlushInstruction, flush_instruction, store_fence};
use crate::region::{self, Region, round_up};
use crate::{
    HOLE, LINE, Mapped, MediaError, MediumAccess, MediumBackend, MediumKind, PAGE, Words, blocks,
    forward_medium,
};

/// Bytes from which on a store goes through the mapping in strict mode too: the write-back of many pages
/// outweighs that of the journal, and pages that a mapping creates are larger.
const LONG_WRITE: usize = 64 << 10;

/// Options for opening a file as a medium.
#[derive(Debug, Clone, Default)]
pub struct FileOptions {
    /// Maps the file for reading only: stores panic, and growth fails.
    pub read_only: bool,
    /// Creates the file if it does not exist, accessible to its owner only (mode 0600).
    pub create: bool,
    /// Makes each fence an `msync`. Applies to the page cache only.
    pub strict: bool,
    /// Treats the page cache as if it were DAX, for measurements on DRAM-backed files; nothing is durable.
    /// Overrides `strict`.
    pub assume_dax: bool,
    /// Keeps holes in the file. The caller must call [`Medium::reserve`](crate::Medium::reserve) before it
    /// stores to a possible hole.
    pub keep_holes: bool,
    /// Bytes of address space to reserve, which limit the growth of the file while it is open. 0 reserves a
    /// TiB, or less if the system is short of address space.
    pub reserve: u64,
}

/// A mapped file. Other processes may map the same file; the caller ensures that only one of them writes.
///
/// The file must not be truncated while it is mapped: an access to the missing bytes ends the process, with a
/// message if the program has called [`exit_on_bus_error`](crate::exit_on_bus_error), otherwise silently. A
/// [`refresh`](crate::Medium::refresh) reports the truncation before anything is touched.
#[derive(Debug)]
pub struct FileMedium {
    /// Declared before `region`, because fields are dropped in order and the table entry must go before the
    /// mapping.
    _known: FileTableSlot,
    region: Region,
    file: File,
    path: PathBuf,
    kind: MediumKind,
    growth: Mutex<()>,
    dirty: DirtyPages,
    /// The flush instruction of [`Mapped`] words, or `None` if the file does not offer them.
    flush_mapped: Option<FlushInstruction>,
    /// True while the directory entry of a new file may not be durable yet.
    new_name: AtomicBool,
    latch: ErrorLatch,
}

impl FileMedium {
    /// Opens and maps `path`: with `MAP_SYNC` if the file system grants it ([`MediumKind::Dax`]), otherwise
    /// through the page cache; [`kind`](crate::Medium::kind) tells which. A new file is empty until it
    /// [grows](crate::Medium::grow). If a writable file has holes (as copies sometimes do), their blocks are
    /// allocated first, unless `keep_holes` is set.
    ///
    /// # Errors
    /// [`MediaError::NotFound`], [`MediaError::NotAFile`], [`MediaError::DiskFull`] (no blocks for the
    /// holes), [`MediaError::OutOfMemory`] (no address space) or [`MediaError::Io`].
    pub fn open(path: impl AsRef<Path>, options: &FileOptions) -> Result<FileMedium, MediaError> {
        let path = path.as_ref().to_path_buf();
        let file = open_file(&path, options)?;
        let len = file_len(&file, &path)?;
        if !options.read_only && !options.keep_holes {
            blocks::fill_holes(&file, &path, len)?;
        }
        let region = Region::reserve(options.reserve, len, !options.read_only)?;
        let kind = if region::grants_map_sync(file.as_fd(), !options.read_only) {
            MediumKind::Dax
        } else if options.assume_dax {
            MediumKind::AssumedDax
        } else {
            MediumKind::PageCache {
                strict: options.strict,
            }
        };
        let flush_mapped = match kind {
            _ if options.read_only => None,
            MediumKind::PageCache { strict: true } => None,
            MediumKind::PageCache { strict: false } => Some(FlushInstruction::None),
            _ => Some(flush_instruction()),
        };
        let known = FileTableSlot::enter(region.start().addr().get(), region.reserved() as usize, &path);
        let medium = FileMedium {
            _known: known,
            region,
            file,
            path,
            kind,
            growth: Mutex::new(()),
            dirty: DirtyPages::default(),
            flush_mapped,
            new_name: AtomicBool::new(options.create),
            latch: ErrorLatch::default(),
        };
        medium.map(len)?;
        tracing::debug!(path = %medium.path.display(), kind = %kind, len, "mapped");
        Ok(medium)
    }

    /// Returns the path that the file was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file was opened for reading only.
    pub fn read_only(&self) -> bool {
        !self.region.writable()
    }

    /// Executes a fence for files without dirty-page tracking.
    #[inline(always)]
    pub(crate) fn fence_mapped(&self) -> Result<(), MediaError> {
        self.latch.check(|| self.name())?;
        match self.kind {
            MediumKind::PageCache { .. } => fence(Ordering::Release),
            _ => store_fence(),
        }
        Ok(())
    }

    fn map(&self, len: u64) -> Result<(), MediaError> {
        let flags = match self.kind {
            MediumKind::Dax => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            _ => MapFlags::SHARED,
        };
        self.region.check_fits(len)?;
        self.region
            .extend_file(self.file.as_fd(), len, flags)
            .map_err(|error| self.io("map", error))
    }

    fn io(&self, action: &'static str, error: impl Into<std::io::Error>) -> MediaError {
        MediaError::Io {
            action,
            path: self.path.clone(),
            source: error.into(),
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns the file's length, or fails if it is shorter than the mapping. The caller holds the growth
    /// lock.
    fn checked_len(&self) -> Result<u64, MediaError> {
        let actual = file_len(&self.file, &self.path)?;
        let expected = self.region.len();
        if actual < expected {
            return Err(MediaError::Truncated {
                path: self.path.clone(),
                expected,
                actual,
            });
        }
        Ok(actual)
    }

    /// Makes the file's length durable, and its name if the file is new.
    fn sync_metadata(&self) -> Result<(), MediaError> {
        rustix::fs::fsync(&self.file).map_err(|error| self.io("sync", error))?;
        self.sync_name()
    }

    fn sync_name(&self) -> Result<(), MediaError> {
        if self.new_name.swap(false, Ordering::Relaxed) {
            let folder = match self.path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(|error| self.io("sync the folder of", error))?;
        }
        Ok(())
    }

    /// Writes to the page cache, which the mapping shows. An error fails the next fence.
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.region.check_range(offset, bytes.len() as u64);
        self.region.check_writable();
        let written = self.file.write_all_at(bytes, offset);
        // A fence reports it.
        let _ = self
            .latch
            .keep(written.map_err(|error| self.io("write to", error)));
    }

    /// Writes back the ranges flushed since the last fence: one range by `msync`, several by one `fdatasync`,
    /// because each call waits for the disk's own cache.
    fn write_back(&self) -> Result<(), MediaError> {
        self.dirty.write_back(|ranges| match ranges {
            [] => Ok(()),
            [(from, to)] => self
                .region
                .msync(*from, *to)
                .map_err(|error| self.io("write back", error)),
            _ => rustix::fs::fdatasync(&self.file).map_err(|error| self.io("write back", error)),
        })
    }
}

impl AsFd for FileMedium {
    /// Returns the file descriptor, for locking.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl MediumAccess for FileMedium {
    forward_medium!(region: len, load, load_u64, slice, prefetch, prefetch_lines, store, store_u64);

    #[inline]
    fn words(&self, offset: u64, words: usize) -> Option<Words<'_>> {
        self.region.words(offset, words).map(Words::new)
    }

    #[inline(always)]
    fn mapped(&self, offset: u64, words: usize) -> Option<Mapped<'_>> {
        let flush = self.flush_mapped?;
        let words = self.region.words(offset, words)?;
        offset
            .is_multiple_of(LINE)
            .then(|| Mapped::new(words, self, flush))
    }

    /// Writes fewer than `LONG_WRITE` bytes in strict mode to the page cache by a system call. A store
    /// through the mapping would be the first one after a write-back, and so cause a page fault, in which
    /// ext4 begins a transaction of its journal that the next write-back then has to wait for.
    #[inline]
    fn store_unread(&self, offset: u64, bytes: &[u8]) {
        match self.kind {
            MediumKind::PageCache { strict: true } if bytes.len() < LONG_WRITE => self.write(offset, bytes),
            _ => self.region.store(offset, bytes),
        }
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        match self.kind {
            MediumKind::PageCache { strict: true } if len > 0 => {
                self.region.check_range(offset, len);
                self.dirty.add(offset, offset + len);
            }
            MediumKind::PageCache { .. } => self.region.check_range(offset, len),
            _ => self.region.flush(offset, len),
        }
    }

    #[inline]
    fn fence(&self) -> Result<(), MediaError> {
        self.fence_mapped()?;
        match self.kind {
            MediumKind::PageCache { strict: true } => self.latch.keep(self.write_back()),
            _ => Ok(()),
        }
    }
}

impl MediumBackend for FileMedium {
    fn kind(&self) -> MediumKind {
        self.kind
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        if self.read_only() {
            return Err(MediaError::ReadOnly { name: self.name() });
        }
        self.latch.check(|| self.name())?;
        self.region.check_fits(new_len)?;
        let new_len = round_up(new_len, PAGE);
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if new_len <= self.len() {
            return Ok(());
        }
        let old_len = self.checked_len()?;
        if new_len > old_len {
            match blocks::extend(&self.file, &self.path, old_len, new_len) {
                // Nothing has changed and the caller may retry, so a full disk does not latch.
                Err(full @ MediaError::DiskFull { .. }) => return Err(full),
                other => self.latch.keep(other)?,
            }
            if self.fence_is_durable() {
                self.latch.keep(self.sync_metadata())?;
            }
        }
        self.map(new_len.max(old_len))
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        if self.read_only() {
            return Err(MediaError::ReadOnly { name: self.name() });
        }
        self.latch.check(|| self.name())?;
        self.region.check_range(offset, len);
        if len == 0 {
            return Ok(());
        }
        let (from, to) = (offset / HOLE * HOLE, round_up(offset + len, HOLE).min(self.len()));
        match blocks::fill(&self.file, &self.path, from, to - from) {
            Err(full @ MediaError::DiskFull { .. }) => Err(full),
            other => self.latch.keep(other),
        }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        if self.read_only() {
            return Err(MediaError::ReadOnly { name: self.name() });
        }
        self.latch.check(|| self.name())?;
        self.region.check_range(offset, len);
        let (from, to) = (round_up(offset, HOLE), (offset + len) / HOLE * HOLE);
        if from >= to {
            return Ok(());
        }
        self.latch
            .keep(blocks::punch(&self.file, &self.path, from, to - from))
    }

    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        if self.read_only() {
            return Err(MediaError::ReadOnly { name: self.name() });
        }
        // Write pending ranges back now, because they may lie past the new end.
        self.fence()?;
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let actual = self.checked_len()?;
        let len = round_up(len, PAGE).min(self.len());
        if len < self.len() {
            // Shrink the mapping first: a mapped page without a file behind it would end the process.
            self.region.shrink(len)?;
        } else if actual > len {
            // Others have let it grow.
            return Ok(len);
        }
        // The length may stay: a process that was killed while the file grew leaves blocks beyond its end.
        rustix::fs::ftruncate(&self.file, len).map_err(|error| self.io("shorten", error))?;
        Ok(self.len())
    }

    /// Returns true on tmpfs, the only file system that needs the call.
    fn can_gather(&self) -> bool {
        const TMPFS: i64 = 0x0102_1994;
        !self.read_only() && rustix::fs::fstatfs(&self.file).is_ok_and(|found| found.f_type == TMPFS)
    }

    fn gather(&self, offset: u64, len: u64) -> bool {
        self.region.check_range(offset, len);
        len == 0 || self.can_gather() && self.region.collapse(offset, offset + len)
    }

    fn allocated(&self) -> Result<u64, MediaError> {
        let found = self.file.metadata().map_err(|error| self.io("look up", error))?;
        Ok(found.blocks() * 512)
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        let _growing = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.checked_len()?;
        if len > self.region.len() {
            self.map(len)?;
        }
        Ok(len)
    }

    fn sync(&self) -> Result<(), MediaError> {
        if self.read_only() {
            return Ok(());
        }
        self.latch.check(|| self.name())?;
        store_fence();
        let result = rustix::fs::fdatasync(&self.file).map_err(|error| self.io("sync", error));
        self.latch.keep(result.and_then(|()| self.sync_name()))
    }

    fn fence_is_durable(&self) -> bool {
        self.kind != MediumKind::PageCache { strict: false }
    }
}

fn open_file(path: &Path, options: &FileOptions) -> Result<File, MediaError> {
    let create = options.create && !options.read_only;
    let io = |source| MediaError::Io {
        action: "open",
        path: path.to_path_buf(),
        source,
    };
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(MediaError::NotAFile {
                path: path.to_path_buf(),
            });
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !create => {
            return Err(MediaError::NotFound {
                path: path.to_path_buf(),
            });
        }
        _ => {}
    }
    File::options()
        .read(true)
        .write(!options.read_only)
        .create(create)
        .mode(0o600)
        .truncate(false)
        .open(path)
        .map_err(io)
}

fn file_len(file: &File, path: &Path) -> Result<u64, MediaError> {
    match file.metadata() {
        Ok(found) => Ok(found.len()),
        Err(source) => Err(MediaError::Io {
            action: "look up",
            path: path.to_path_buf(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a file medium of one page in strict mode.
    fn strict(folder: &Path) -> FileMedium {
        let options = FileOptions {
            create: true,
            strict: true,
            ..FileOptions::default()
        };
        let medium = FileMedium::open(folder.join("medium"), &options).unwrap();
        medium.grow(PAGE).unwrap();
        medium
    }

    #[test]
    fn the_first_error_latches() {
        let folder = tempfile::tempdir().unwrap();
        let mut medium = strict(folder.path());
        let Ok(broken) = File::options().read(true).write(true).open("/dev/full") else {
            return;
        };
        let whole = std::mem::replace(&mut medium.file, broken);
        // A device without a disk behind it cannot be synced.
        let first = medium.sync().unwrap_err();
        assert!(matches!(first, MediaError::Io { action: "sync", .. }), "{first}");
        medium.file = whole;
        medium.store_u64(0, 1);
        for result in [medium.persist(0, 8), medium.sync(), medium.grow(2 * PAGE)] {
            let error = result.unwrap_err();
            assert!(matches!(error, MediaError::Poisoned { .. }), "{error}");
            assert!(error.to_string().contains(&first.to_string()), "{error}");
        }
        assert_eq!(medium.load_u64(0), 1);
    }

    #[test]
    fn a_failed_write_of_unread_bytes_fails_the_fence() {
        let folder = tempfile::tempdir().unwrap();
        let mut medium = strict(folder.path());
        let Ok(full) = File::options().read(true).write(true).open("/dev/full") else {
            return;
        };
        let whole = std::mem::replace(&mut medium.file, full);
        medium.store_unread(64, b"lost");
        medium.file = whole;
        let error = medium.persist(64, 4).unwrap_err().to_string();
        assert!(error.contains("write to"), "{error}");
    }
}
