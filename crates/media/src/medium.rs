//! The type through which all other crates access memory: [`Medium`].

use std::fmt;
use std::sync::Arc;

use crate::{
    AccessObserver, Counting, Dram, FileMedium, Mapped, MediaError, MediumAccess, MediumBackend, MediumKind,
    Words,
};

/// A growable range of bytes in one kind of memory, addressed by offset. Clones share the same memory.
///
/// Any number of threads may load and store at once. Loads and stores that overlap do not tear within an
/// aligned 8-byte word. Which words of a longer range are old and which are new is unspecified: threads that
/// race must detect it afterwards (version counter, checksum) or order their accesses with
/// [`load_u64`](Medium::load_u64) and [`store_u64`](Medium::store_u64).
///
/// A store is *visible* at once. It is *durable* when its lines were flushed after it and a fence followed,
/// if [`fence_is_durable`](Medium::fence_is_durable); otherwise at the next [`sync`](Medium::sync).
///
/// # Panics
/// Every method that takes an offset, except `words`, `mapped` and the prefetches, panics if the range
/// reaches beyond [`len`](Medium::len). Stores panic if the medium is read-only; `load_u64` and `store_u64`
/// panic if the offset is not a multiple of 8.
#[derive(Clone)]
pub struct Medium(MediumImpl);

/// The implementation behind a medium. All production reads and writes go to a file, so files are
/// distinguished by one predictable branch; everything else is called through a vtable.
#[derive(Clone)]
enum MediumImpl {
    File(Arc<FileMedium>),
    Other(Arc<dyn MediumBackend>),
}

/// Dispatches a call that is made for every word. Only the path of a file is inlined.
macro_rules! forward_hot {
    ($self:ident, $medium:ident => $call:expr) => {{
        #[cold]
        #[inline(never)]
        fn out_of_line<T>(call: impl FnOnce() -> T) -> T {
            call()
        }
        match &$self.0 {
            MediumImpl::File($medium) => $call,
            MediumImpl::Other($medium) => out_of_line(|| $call),
        }
    }};
}

macro_rules! forward {
    ($self:ident, $medium:ident => $call:expr) => {
        match &$self.0 {
            MediumImpl::File($medium) => $call,
            MediumImpl::Other($medium) => $call,
        }
    };
}

impl Medium {
    /// Creates a medium over another implementation, such as one that records or delays accesses.
    pub fn over(backend: Arc<dyn MediumBackend>) -> Medium {
        Medium(MediumImpl::Other(backend))
    }

    /// Returns the file, if this is one or is backed by one.
    pub fn as_file(&self) -> Option<&FileMedium> {
        match &self.0 {
            MediumImpl::File(file) => Some(file),
            MediumImpl::Other(other) => other.as_file(),
        }
    }

    /// Returns an address that is the same for all clones of a medium and for no other medium that lives.
    pub fn address(&self) -> usize {
        match &self.0 {
            MediumImpl::File(file) => Arc::as_ptr(file).addr(),
            MediumImpl::Other(other) => Arc::as_ptr(other).addr(),
        }
    }

    /// Returns the kind of memory.
    pub fn kind(&self) -> MediumKind {
        forward!(self, medium => medium.kind())
    }

    /// Returns the number of usable bytes. Another process may have grown a file: see
    /// [`refresh`](Medium::refresh).
    #[inline]
    pub fn len(&self) -> u64 {
        forward!(self, medium => medium.len())
    }

    /// Returns true if there are no usable bytes yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes at least `new_len` bytes usable, rounded up to [`PAGE`](crate::PAGE). A shorter `new_len`
    /// changes nothing. The new bytes are zero and backed by real blocks; nothing that is mapped moves.
    /// On return the length is as durable as a fence would make it.
    ///
    /// # Errors
    /// [`MediaError::DiskFull`] (nothing changed; try again later), [`MediaError::AddressSpace`],
    /// [`MediaError::OutOfMemory`], [`MediaError::ReadOnly`], [`MediaError::Io`] and from then on
    /// [`MediaError::Poisoned`].
    pub fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        forward!(self, medium => medium.grow(new_len))
    }

    /// Allocates blocks for the range where a [`discard`](Medium::discard) or a copy of the file has left it
    /// without, so that stores to it never meet a full disk. Keeps all contents. Holes begin and end at
    /// multiples of [`HOLE`](crate::HOLE), and so should the range.
    ///
    /// # Errors
    /// As [`grow`](Medium::grow).
    pub fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        forward!(self, medium => medium.reserve(offset, len))
    }

    /// Returns the blocks of the whole [`HOLE`](crate::HOLE)s in the range to the system, where the medium
    /// can. Call [`reserve`](Medium::reserve) before the next store to it. Until then the range reads as
    /// before or as zeros, also after a crash. The length stays.
    ///
    /// # Errors
    /// [`MediaError::ReadOnly`], [`MediaError::Io`] and from then on [`MediaError::Poisoned`].
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        forward!(self, medium => medium.discard(offset, len))
    }

    /// Truncates the medium to `len` bytes, rounded up to [`PAGE`](crate::PAGE), where it can, and returns
    /// its length. A greater `len` changes nothing. The medium [grows](Medium::grow) by zeros afterwards.
    /// A crash may leave the old length.
    ///
    /// Nobody may use the bytes after `len` or have borrowed them, and no other process may have the file
    /// mapped.
    ///
    /// # Errors
    /// [`MediaError::ReadOnly`], [`MediaError::Truncated`] if another process has truncated it,
    /// [`MediaError::OutOfMemory`] or [`MediaError::Io`]: the length is unchanged, or the medium uses less of
    /// the file than there is.
    pub fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        forward!(self, medium => medium.truncate(len))
    }

    /// Returns true if [`gather`](Medium::gather) may have an effect.
    pub fn can_gather(&self) -> bool {
        forward!(self, medium => medium.can_gather())
    }

    /// Collapses the pages of a range to huge pages, as a DAX file has them from the start, where the file
    /// system can but does not do so by itself. Contents stay and may be used meanwhile. Takes
    /// milliseconds for each huge page. Returns false if the system refuses, wholly or in part.
    pub fn gather(&self, offset: u64, len: u64) -> bool {
        forward!(self, medium => medium.gather(offset, len))
    }

    /// Returns the number of bytes for which there are blocks: less than [`len`](Medium::len) after a
    /// [`discard`](Medium::discard), a little more where the file system counts its own blocks.
    ///
    /// # Errors
    /// [`MediaError::Io`].
    pub fn allocated(&self) -> Result<u64, MediaError> {
        forward!(self, medium => medium.allocated())
    }

    /// Maps what another process has added, and returns [`len`](Medium::len).
    ///
    /// # Errors
    /// [`MediaError::Truncated`] if the file is shorter than what is mapped. Stop using the medium then: an
    /// access to the missing part kills the process.
    pub fn refresh(&self) -> Result<u64, MediaError> {
        forward!(self, medium => medium.refresh())
    }

    /// Copies the bytes from `offset` on to `into`.
    #[inline]
    pub fn load(&self, offset: u64, into: &mut [u8]) {
        forward_hot!(self, medium => medium.load(offset, into));
    }

    /// Loads the aligned little-endian word at `offset` with acquire order.
    #[inline]
    pub fn load_u64(&self, offset: u64) -> u64 {
        forward_hot!(self, medium => medium.load_u64(offset))
    }

    /// Returns the bytes of a range.
    ///
    /// # Safety
    /// While the slice lives, no thread and no process that maps the same file stores to the range, and the
    /// file is not truncated below its end.
    #[allow(unsafe_code, reason = "forwards the caller's promise")]
    #[inline]
    pub unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: the caller's promise is what the backend requires.
        forward!(self, medium => unsafe { medium.slice(offset, len) })
    }

    /// Returns the words of a range for direct loads, or `None` where loads are recorded or charged, and
    /// where [`load_u64`](Medium::load_u64) would panic.
    #[inline]
    pub fn words(&self, offset: u64, words: usize) -> Option<Words<'_>> {
        forward_hot!(self, medium => medium.words(offset, words))
    }

    /// Returns the words of a range that starts at a line for direct loads, stores and flushes, or `None`
    /// where accesses are recorded or charged, and where [`store_u64`](Medium::store_u64) would panic.
    /// The answer is the same for all valid ranges of a medium.
    #[inline(always)]
    pub fn mapped(&self, offset: u64, words: usize) -> Option<Mapped<'_>> {
        match &self.0 {
            MediumImpl::File(file) => file.mapped(offset, words),
            MediumImpl::Other(_) => None,
        }
    }

    /// Prefetches the line at `offset`. Does nothing if it is out of range.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        forward_hot!(self, medium => medium.prefetch(offset));
    }

    /// Prefetches `lines` lines from the one at `offset` on.
    #[inline]
    pub fn prefetch_lines(&self, offset: u64, lines: u64) {
        forward_hot!(self, medium => medium.prefetch_lines(offset, lines));
    }

    /// Copies `bytes` to `offset`: visible, not durable. The copy is not reordered before earlier stores of
    /// this thread. Aligned 8-byte words are written whole and, in stores of less than 16 KiB, in
    /// ascending order.
    #[inline]
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        forward!(self, medium => medium.store(offset, bytes));
    }

    /// Copies `bytes` to `offset`, where nobody looks before a later store with release order publishes them:
    /// like [`store`](Medium::store), but words may arrive in any order. This is the way to append to a log:
    /// in strict mode it makes the next fence of a page-cache file much cheaper.
    #[inline]
    pub fn store_unread(&self, offset: u64, bytes: &[u8]) {
        forward!(self, medium => medium.store_unread(offset, bytes));
    }

    /// Stores the aligned little-endian word at `offset` with release order: visible, not durable.
    #[inline]
    pub fn store_u64(&self, offset: u64, value: u64) {
        forward_hot!(self, medium => medium.store_u64(offset, value));
    }

    /// Starts to write back all lines that overlap the range. They are not durable before the next fence.
    #[inline]
    pub fn flush(&self, offset: u64, len: u64) {
        forward_hot!(self, medium => medium.flush(offset, len));
    }

    /// Waits until the lines that this thread has flushed are durable, or only orders stores where
    /// [`fence_is_durable`](Medium::fence_is_durable) is false.
    ///
    /// # Errors
    /// In strict mode [`MediaError::Io`] if the system could not write; [`MediaError::Poisoned`] after any
    /// such error.
    #[inline]
    pub fn fence(&self) -> Result<(), MediaError> {
        forward_hot!(self, medium => medium.fence())
    }

    /// Flushes the range and fences.
    ///
    /// # Errors
    /// As [`fence`](Medium::fence).
    pub fn persist(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.flush(offset, len);
        self.fence()
    }

    /// Makes all stores so far survive power loss, flushed or not, on every kind of file. Does nothing on
    /// [`MediumKind::Dram`], which no call can make durable.
    ///
    /// # Errors
    /// [`MediaError::Io`], then [`MediaError::Poisoned`].
    pub fn sync(&self) -> Result<(), MediaError> {
        forward!(self, medium => medium.sync())
    }

    /// Returns true if a fence protects against power loss: for DAX, strict page cache and tracked memory
    /// (and by assumption for [`MediumKind::AssumedDax`]), not for DRAM and the page cache's default.
    pub fn fence_is_durable(&self) -> bool {
        forward!(self, medium => medium.fence_is_durable())
    }

    /// Returns the observer to which readers of [slices](Medium::slice) report, if there is one, and the
    /// address that it knows offset 0 by.
    pub fn observer(&self) -> Option<(Arc<dyn AccessObserver>, u64)> {
        match &self.0 {
            MediumImpl::File(_) => None,
            MediumImpl::Other(other) => other.observer(),
        }
    }
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Medium")
            .field("kind", &self.kind())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl From<FileMedium> for Medium {
    fn from(file: FileMedium) -> Medium {
        Medium(MediumImpl::File(Arc::new(file)))
    }
}

impl From<Dram> for Medium {
    fn from(memory: Dram) -> Medium {
        Medium::over(Arc::new(memory))
    }
}

impl From<Counting> for Medium {
    fn from(counting: Counting) -> Medium {
        Medium::over(Arc::new(counting))
    }
}

/// Shares a backend that the caller may keep a handle to, as crash tests and counters do.
impl<B: MediumBackend> From<Arc<B>> for Medium {
    fn from(backend: Arc<B>) -> Medium {
        Medium::over(backend)
    }
}

impl<B: MediumBackend> From<&Arc<B>> for Medium {
    fn from(backend: &Arc<B>) -> Medium {
        Medium::over(Arc::<B>::clone(backend))
    }
}

impl From<&Medium> for Medium {
    fn from(medium: &Medium) -> Medium {
        medium.clone()
    }
}
