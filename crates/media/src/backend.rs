//! The interface that each kind of memory implements: [`MediumAccess`] for loads, stores and their
//! durability, [`MediumBackend`] for growth and maintenance. Code above this crate uses
//! [`Medium`](crate::Medium) instead, which dispatches to one of them.

use std::sync::Arc;

use crate::{AccessObserver, FileMedium, LINE, Mapped, MediaError, MediumKind, Words};

/// Loads, stores, flushes and fences. The contract is that of [`Medium`](crate::Medium).
///
/// # Panics
/// Every method that takes an offset, except `words`, `mapped` and the prefetches, panics if the range
/// reaches beyond [`len`](Self::len). Stores panic if the medium is read-only; `load_u64` and `store_u64`
/// panic if the offset is not a multiple of 8.
pub trait MediumAccess: Send + Sync + 'static {
    /// Returns the number of usable bytes.
    fn len(&self) -> u64;

    /// Returns true if there are no usable bytes yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `offset` on to `into`.
    fn load(&self, offset: u64, into: &mut [u8]);

    /// Loads the aligned little-endian word at `offset` with acquire order.
    fn load_u64(&self, offset: u64) -> u64;

    /// Returns the words of a range for direct loads, or `None` if loads must go through
    /// [`load_u64`](Self::load_u64) (they are recorded or charged) or if the range is invalid.
    #[inline]
    fn words(&self, offset: u64, words: usize) -> Option<Words<'_>> {
        let _ = (offset, words);
        None
    }

    /// Returns the words of a range that starts at a line for direct loads and stores, or `None` if accesses
    /// must go through this trait or the range is invalid. The answer is the same for all valid ranges of
    /// a medium.
    #[inline]
    fn mapped(&self, offset: u64, words: usize) -> Option<Mapped<'_>> {
        let _ = (offset, words);
        None
    }

    /// Returns the bytes of a range.
    ///
    /// # Safety
    /// While the slice lives, no thread and no process that maps the same file stores to the range, and the
    /// file is not truncated below its end.
    #[allow(unsafe_code, reason = "the caller must keep writers away")]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8];

    /// Prefetches the line at `offset`. Does nothing if it is out of range.
    fn prefetch(&self, offset: u64);

    /// Prefetches `lines` lines from the one at `offset` on.
    #[inline]
    fn prefetch_lines(&self, offset: u64, lines: u64) {
        (0..lines).for_each(|line| self.prefetch(offset.saturating_add(line * LINE)));
    }

    /// Copies `bytes` to `offset`, not before earlier stores of this thread. Aligned 8-byte words are written
    /// whole and, in stores of less than 16 KiB, in ascending order.
    fn store(&self, offset: u64, bytes: &[u8]);

    /// Copies `bytes` to `offset`, where nobody looks before a later store publishes them: like
    /// [`store`](Self::store), but words may arrive in any order.
    fn store_unread(&self, offset: u64, bytes: &[u8]) {
        self.store(offset, bytes);
    }

    /// Stores the aligned little-endian word at `offset` with release order.
    fn store_u64(&self, offset: u64, value: u64);

    /// Starts to write back all lines that overlap the range. They are not durable before the next fence.
    fn flush(&self, offset: u64, len: u64);

    /// Waits until the lines that this thread has flushed are durable, or only orders stores where
    /// [`MediumBackend::fence_is_durable`] is false.
    ///
    /// # Errors
    /// [`MediaError::Io`] in strict mode, then [`MediaError::Poisoned`].
    fn fence(&self) -> Result<(), MediaError>;

    /// Flushes the range and fences.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    fn persist(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.flush(offset, len);
        self.fence()
    }
}

/// A kind of memory: [`MediumAccess`], and growth, truncation and synchronization. The contract is that of
/// [`Medium`](crate::Medium).
pub trait MediumBackend: MediumAccess {
    /// Returns the kind of memory.
    fn kind(&self) -> MediumKind;

    /// Makes at least `new_len` bytes usable, rounded up to [`PAGE`](crate::PAGE). A shorter `new_len`
    /// changes nothing.
    ///
    /// # Errors
    /// See [`Medium::grow`](crate::Medium::grow).
    fn grow(&self, new_len: u64) -> Result<(), MediaError>;

    /// Allocates blocks for the range where a [`discard`](Self::discard) or a copy of the file has left it
    /// without.
    ///
    /// # Errors
    /// As [`grow`](Self::grow).
    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let _ = (offset, len);
        Ok(())
    }

    /// Returns the blocks of the whole [`HOLE`](crate::HOLE)s in the range to the system, where the medium
    /// can.
    ///
    /// # Errors
    /// See [`Medium::discard`](crate::Medium::discard).
    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let _ = (offset, len);
        Ok(())
    }

    /// Truncates the medium to `len` bytes, rounded up to [`PAGE`](crate::PAGE), where it can, and returns
    /// its length.
    ///
    /// # Errors
    /// See [`Medium::truncate`](crate::Medium::truncate).
    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        let _ = len;
        Ok(self.len())
    }

    /// Returns true if [`gather`](Self::gather) may have an effect.
    fn can_gather(&self) -> bool {
        false
    }

    /// Collapses the pages of a range to huge pages where the file system can but does not do so by itself.
    /// Returns false if the system refuses.
    fn gather(&self, offset: u64, len: u64) -> bool {
        let _ = (offset, len);
        false
    }

    /// Returns the number of bytes for which there are blocks.
    ///
    /// # Errors
    /// [`MediaError::Io`].
    fn allocated(&self) -> Result<u64, MediaError> {
        Ok(self.len())
    }

    /// Maps what another process has added, and returns the length.
    ///
    /// # Errors
    /// [`MediaError::Truncated`] if the file is shorter than what is mapped.
    fn refresh(&self) -> Result<u64, MediaError> {
        Ok(self.len())
    }

    /// Makes all stores so far survive power loss, flushed or not. Does nothing on [`MediumKind::Dram`].
    ///
    /// # Errors
    /// [`MediaError::Io`], then [`MediaError::Poisoned`].
    fn sync(&self) -> Result<(), MediaError>;

    /// Returns true if a fence protects against power loss.
    fn fence_is_durable(&self) -> bool;

    /// Returns the observer of reads through slices, and the address that it knows offset 0 by.
    fn observer(&self) -> Option<(Arc<dyn AccessObserver>, u64)> {
        None
    }

    /// Returns the file below, if there is one.
    fn as_file(&self) -> Option<&FileMedium> {
        None
    }
}
