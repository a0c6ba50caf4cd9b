//! The one interface to memory: [`Medium`].

use std::fmt;
use std::sync::Arc;

use crate::{Device, Mapped, MediaError, Words};

/// Bytes of a cache line: what one flush writes back, and the scope in which stores stay in order.
pub const LINE: u64 = 64;

/// Bytes of a page: lengths of media are rounded up to it.
pub const PAGE: u64 = 4096;

/// Holes start and end at multiples of this: the kernel may keep so much of a file in one piece, and asks for blocks for
/// all of it when any page of it is stored to.
pub const HOLE: u64 = 2 << 20;

/// What a medium is, and with it what a fence on it means. `Display` is for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediumKind {
    /// Anonymous memory of this process: gone when it ends.
    Dram,
    /// A file on a DAX file system, mapped with `MAP_SYNC`: a fence is durable.
    Dax,
    /// A file mapped through the page cache that is *treated* as DAX: a flush is issued, a fence counted as
    /// durable although it is not. For measurements on DRAM-backed files; says so wherever it is displayed.
    AssumedDax,
    /// A file mapped through the page cache.
    PageCache {
        /// Whether each fence is an `msync`. If not, a fence orders stores and survives the end of the
        /// process; power loss is survived up to the last [`Medium::sync`].
        strict: bool,
    },
    /// Memory that records every store, for crash tests; behaves as DAX.
    Tracked,
}

impl MediumKind {
    /// Bytes of the memory's own unit of access: 256 for DAX (that of Optane), a page for a page-cache file,
    /// else a line.
    pub fn unit(self) -> u64 {
        match self {
            MediumKind::Dax => 256,
            MediumKind::PageCache { .. } => PAGE,
            MediumKind::Dram | MediumKind::AssumedDax | MediumKind::Tracked => LINE,
        }
    }
}

impl fmt::Display for MediumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MediumKind::Dram => "DRAM",
            MediumKind::Dax => "DAX file",
            MediumKind::AssumedDax => "page-cache file assumed to be DAX (benchmarks only, not durable)",
            MediumKind::PageCache { strict: false } => "page-cache file (default durability)",
            MediumKind::PageCache { strict: true } => "page-cache file (strict durability)",
            MediumKind::Tracked => "tracked memory (crash tests)",
        })
    }
}

/// A growable range of bytes in one kind of memory, addressed by offset.
///
/// Any number of threads may load and store at once. Loads and stores that overlap do not tear within an
/// aligned 8-byte word; which words of a longer range are old and which new is not promised, so that whoever
/// lets them race must find out afterwards (version counter, checksum) or order them with
/// [`load_u64`](Medium::load_u64) and [`store_u64`](Medium::store_u64).
///
/// Durability: a store is *visible* at once and *durable* when its lines were flushed after it and a fence
/// came after that, if [`fence_is_durable`](Medium::fence_is_durable); else at the next
/// [`sync`](Medium::sync).
///
/// # Panics
/// Every call that takes an offset (but `words`, `mapped` and the prefetches) panics when it reaches beyond [`len`](Medium::len), every store when the
/// medium was opened read-only, `load_u64` and `store_u64` when the offset is not a multiple of 8.
pub trait Medium: Send + Sync + 'static {
    /// What this medium is.
    fn kind(&self) -> MediumKind;

    /// Bytes that may be used now. Another process may have grown a file: [`refresh`](Medium::refresh).
    fn len(&self) -> u64;

    /// Whether there is nothing to use yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes at least `new_len` bytes usable, rounded up to [`PAGE`]; a shorter `new_len` changes nothing.
    /// The new bytes are zero and backed by real blocks; nothing that is mapped moves. On return the length
    /// is as durable as a fence would make it.
    ///
    /// # Errors
    /// [`MediaError::DiskFull`] (nothing changed; try again later), [`MediaError::AddressSpace`],
    /// [`MediaError::OutOfMemory`], [`MediaError::ReadOnly`], [`MediaError::Io`] and from then on
    /// [`MediaError::Poisoned`].
    fn grow(&self, new_len: u64) -> Result<(), MediaError>;

    /// Makes sure that the range has real blocks, where a [`discard`](Medium::discard) or a copy of the file may have left
    /// it without: stores to it then never meet a full disk. Keeps all contents. Holes begin and end at
    /// multiples of [`HOLE`], and so should the range.
    ///
    /// # Errors
    /// As [`grow`](Medium::grow).
    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let _ = (offset, len);
        Ok(())
    }

    /// Gives the blocks of the whole pieces of [`HOLE`] bytes in the range back to the system, where the medium can. Stores to it are only
    /// safe after a [`reserve`](Medium::reserve); until something is stored it may read as it was or as zeros, also after
    /// a crash. The length stays.
    ///
    /// # Errors
    /// [`MediaError::ReadOnly`], [`MediaError::Io`] and from then on [`MediaError::Poisoned`].
    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let _ = (offset, len);
        Ok(())
    }

    /// Cuts the medium off at `len`, rounded up to [`PAGE`], where it can, and returns its length then; a greater `len`
    /// changes nothing. What is cut off comes back as zeros when the medium [grows](Medium::grow). A crash may leave
    /// the old length.
    ///
    /// Nobody may use the bytes behind `len` any more, nor have borrowed them, and no other process may have the file
    /// mapped.
    ///
    /// # Errors
    /// [`MediaError::ReadOnly`], [`MediaError::Truncated`] if someone else has cut it off, [`MediaError::OutOfMemory`]
    /// or
    /// [`MediaError::Io`]: the length is unchanged, or the medium uses less of the file than there is.
    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        let _ = len;
        Ok(self.len())
    }

    /// Whether [`gather`](Medium::gather) may do anything.
    fn can_gather(&self) -> bool {
        false
    }

    /// Puts the pages of a range together to huge ones, as a DAX file has them from the start, where the file system does not
    /// do so itself but can. Contents stay, and may be used meanwhile. Takes milliseconds for each huge page: for a thread of
    /// its own.
    fn gather(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Bytes that the medium really takes: less than [`len`](Medium::len) after a [`discard`](Medium::discard), a little
    /// more where the file system counts its own blocks.
    ///
    /// # Errors
    /// [`MediaError::Io`].
    fn allocated(&self) -> Result<u64, MediaError> {
        Ok(self.len())
    }

    /// Maps what another process has added; returns [`len`](Medium::len).
    ///
    /// # Errors
    /// [`MediaError::Truncated`] if the file has become shorter than what is mapped: stop using it, as to
    /// touch the missing part kills the process.
    fn refresh(&self) -> Result<u64, MediaError>;

    /// Copies the bytes from `offset` on into `into`. Stores that were visible before are seen.
    fn load(&self, offset: u64, into: &mut [u8]);

    /// Loads the aligned little-endian word at `offset` with acquire order.
    fn load_u64(&self, offset: u64) -> u64;

    /// The words of a range, where loading one as it is, with acquire order, is all that [`load_u64`](Medium::load_u64) does: for
    /// who loads several of them. `None` where loads are recorded or charged, and where `load_u64` would
    /// panic.
    #[inline]
    fn words(&self, offset: u64, words: usize) -> Option<Words<'_>> {
        let _ = (offset, words);
        None
    }

    /// The words of a range that starts at a line, to be changed as they are, where storing one, flushing and fencing is all that
    /// [`store_u64`](Medium::store_u64), [`flush`](Medium::flush) and [`fence`](Medium::fence) do; if so, always. `None` where accesses are
    /// recorded or charged, and where `store_u64` would panic.
    #[inline]
    fn mapped(&self, offset: u64, words: usize) -> Option<Mapped<'_>> {
        let _ = (offset, words);
        None
    }

    /// The bytes themselves.
    ///
    /// # Safety
    /// As long as the slice lives, nobody (no thread, no process that maps the same file) may store to the
    /// range, and the file must not be cut off.
    #[allow(unsafe_code, reason = "the caller must keep writers away")]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8];

    /// Asks the CPU to fetch the line at `offset`. Does nothing when it is out of range.
    fn prefetch(&self, offset: u64);

    /// The same for some lines from that at `offset` on.
    #[inline]
    fn prefetch_lines(&self, offset: u64, lines: u64) {
        (0..lines).for_each(|line| self.prefetch(offset.saturating_add(line * LINE)));
    }

    /// Copies `bytes` to `offset`: visible, not durable. Stays behind earlier stores of this thread. Aligned
    /// 8-byte words are written whole and, in stores of less than 16 KiB, in ascending order.
    fn store(&self, offset: u64, bytes: &[u8]);

    /// Stores the aligned little-endian word at `offset` with release order: visible, not durable.
    fn store_u64(&self, offset: u64, value: u64);

    /// Sends all lines that overlap the range on their way. Not durable before the next fence.
    fn flush(&self, offset: u64, len: u64);

    /// Waits until all lines this thread has flushed are durable, or only orders stores where
    /// [`fence_is_durable`](Medium::fence_is_durable) is false.
    ///
    /// # Errors
    /// In strict mode [`MediaError::Io`] if the system could not write; [`MediaError::Poisoned`] after any
    /// such error.
    fn fence(&self) -> Result<(), MediaError>;

    /// Flushes the range and fences.
    ///
    /// # Errors
    /// As [`fence`](Medium::fence).
    fn persist(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.flush(offset, len);
        self.fence()
    }

    /// Makes everything stored so far survive power loss, flushed or not, on every kind of file. Does nothing
    /// on [`MediumKind::Dram`], which no call can make durable.
    ///
    /// # Errors
    /// [`MediaError::Io`], then [`MediaError::Poisoned`].
    fn sync(&self) -> Result<(), MediaError>;

    /// Whether a fence protects against power loss: true for DAX, strict page cache and tracked memory (and
    /// assumed for [`MediumKind::AssumedDax`]); false for DRAM and the page cache's default.
    fn fence_is_durable(&self) -> bool;

    /// The emulated device that accesses are charged to, and the address of offset 0 on it. Who reads through
    /// [`slice`](Medium::slice) tells the device what it touches.
    fn device(&self) -> Option<(Arc<Device>, u64)> {
        None
    }
}
