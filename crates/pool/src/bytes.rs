//! Read access to extents: [`ExtentBytes`].
//!
//! Extents of a pool on an emulated medium report their reads, at the price of one branch that is otherwise
//! never taken.
#![allow(unsafe_code, reason = "hands out slices of what it keeps alive and immutable")]

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halocline_media::{AccessObserver, BlockDamage, Bytes, Medium, VERIFIED_BLOCK};

use crate::layout::BLOCK;
use crate::object::ExtentRef;
use crate::snapshot::PinnedGeneration;
use crate::verify::ExtentVerification;

/// The bytes of an extent, read in place without copying, or bytes in DRAM that stand for an extent (see
/// [`from_owner`](Self::from_owner)). Cheap to clone.
///
/// Keeps the mapping and its generation's pin alive, so the bytes stay unchanged even if the object is
/// replaced or the pool is closed meanwhile. The slice itself does not guarantee that the bytes are what was
/// written: a reader must call [`verify_range`](Self::verify_range) or [`Bytes::verify`] first, or have a
/// checksum of its own.
#[derive(Clone)]
pub struct ExtentBytes {
    start: NonNull<u8>,
    len: usize,
    /// Bytes that the extent occupies in the pool, including the checksums of its blocks.
    space: usize,
    /// The verification state; `None` for bytes outside a pool.
    state: Option<Arc<ExtentVerification>>,
    /// The observer of the medium, and the address that it uses for the first byte.
    observer: Option<(Arc<dyn AccessObserver>, u64)>,
    /// The pin, or the owner of bytes outside a pool.
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: the bytes are immutable while their owner lives (see `ExtentBytes::new` and `from_owner`), so
// sharing them is sharing a `&[u8]`; what keeps them alive is `Send` and `Sync` itself.
unsafe impl Send for ExtentBytes {}
// SAFETY: as above.
unsafe impl Sync for ExtentBytes {}

impl ExtentBytes {
    /// Borrows the bytes of an extent with the given verification state.
    ///
    /// # Safety
    /// The range is a finished extent that nobody stores to again while the pin lives: one that the pinned
    /// generation names, or one that a transaction on it has finished (whose space is not given back
    /// while the pin is shared).
    pub(crate) unsafe fn new(
        pinned: Arc<PinnedGeneration>,
        extent: &ExtentRef,
        state: Arc<ExtentVerification>,
    ) -> ExtentBytes {
        let offset = extent.offset;
        let space = if extent.sums {
            extent.space().end - offset
        } else {
            extent.len
        };
        // SAFETY: the caller's promise, which is about all space of the extent.
        let bytes = unsafe { pinned.medium().slice(offset, space as usize) };
        let start = NonNull::from(bytes).cast();
        let observer = pinned
            .medium()
            .observer()
            .map(|(observer, base)| (observer, base + offset));
        ExtentBytes {
            start,
            len: extent.len as usize,
            space: space as usize,
            state: Some(state),
            observer,
            _owner: pinned,
        }
    }

    /// Returns all bytes that the extent occupies.
    fn space(&self) -> &[u8] {
        // SAFETY: as in `deref`; `new` has sliced this many bytes, and `from_owner` sets both lengths to that
        // of the slice.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.space) }
    }

    /// Reports the read of a range of the extent's space.
    fn charge(&self, start: u64, len: u64) {
        if let Some((observer, base)) = &self.observer {
            observer.scan(base + start, len as usize);
        }
    }

    /// Verifies the blocks of a range that have not been verified since the pool was opened, unless
    /// verification is off. Reads whole blocks of 4 KiB, and 4 KiB of checksums per 2 MiB of the extent.
    /// Extents of more than 64 KiB written before format 4 have no block checksums and are not verified
    /// here.
    ///
    /// # Errors
    /// The first damaged block.
    pub fn verify_range(&self, range: Range<usize>) -> Result<(), BlockDamage> {
        match &self.state {
            Some(state) if state.is_on() => self.verify_by(state, range, false),
            _ => Ok(()),
        }
    }

    /// Verifies a range like [`verify_range`](Self::verify_range), including blocks verified before, and even
    /// if verification is off.
    ///
    /// # Errors
    /// The first damaged block.
    pub fn verify_range_again(&self, range: Range<usize>) -> Result<(), BlockDamage> {
        match &self.state {
            Some(state) => self.verify_by(state, range, true),
            None => Ok(()),
        }
    }

    fn verify_by(
        &self,
        state: &ExtentVerification,
        range: Range<usize>,
        again: bool,
    ) -> Result<(), BlockDamage> {
        let range = range.start as u64..range.end as u64;
        let verified = state.verify(self.space(), range, again, |start, len| self.charge(start, len));
        verified.map_err(|block| self.block_damage(state, block))
    }

    /// Verifies the blocks that hold these bytes unless they have been verified. Returns false if one is
    /// damaged, which [`Bytes::damage`] then reports.
    #[inline]
    pub fn is_intact(&self, offset: usize, len: usize) -> bool {
        let verified = self.verified_blocks();
        verified.is_empty() || len == 0 || self.is_intact_now(verified, offset, len)
    }

    fn is_intact_now(&self, verified: &[AtomicU64], offset: usize, len: usize) -> bool {
        let all = || {
            (offset / VERIFIED_BLOCK..=(offset + len - 1) / VERIFIED_BLOCK).all(|block| {
                let word = verified.get(block / 64);
                word.is_none_or(|word| word.load(Ordering::Acquire) >> (block % 64) & 1 == 1)
            })
        };
        all() || self.verify_or_note(offset, len)
    }

    fn verify_or_note(&self, offset: usize, len: usize) -> bool {
        let Some(state) = &self.state else {
            return true;
        };
        let range = offset as u64..offset.saturating_add(len) as u64;
        let verified = state.verify(self.space(), range, false, |start, len| self.charge(start, len));
        verified.map_err(|block| state.note_damage(block)).is_ok()
    }

    /// Verifies the whole extent unless it has been verified, by its own checksum if its blocks have none.
    ///
    /// # Errors
    /// The damaged block, or the whole extent if its blocks have no checksums.
    pub(crate) fn verify_all(&self) -> Result<(), BlockDamage> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let verified = state.verify_all(self.space(), |start, len| self.charge(start, len));
        verified.map_err(|block| self.block_damage(state, block))
    }

    fn block_damage(&self, state: &ExtentVerification, block: u64) -> BlockDamage {
        let offset = block * BLOCK;
        BlockDamage {
            object: state.name(),
            offset,
            len: BLOCK.min((self.len as u64).saturating_sub(offset)),
        }
    }

    /// Returns true if reads must be verified at this moment: the bytes are in a pool and verification is not
    /// off.
    #[inline]
    pub fn is_to_be_verified(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.is_on())
    }

    /// Returns one bit per 64 bytes in which the extent's owner can record what it has verified by checksums
    /// of its own. All readers share the bits while the pool is open. `None` for bytes outside a pool.
    pub fn notes(&self) -> Option<&[AtomicU64]> {
        self.state.as_ref().map(|state| state.notes())
    }
}

impl ExtentBytes {
    /// Wraps bytes outside a pool for code that reads extents, and keeps their owner alive. Not charged to an
    /// emulated device.
    pub fn from_owner<T: AsRef<[u8]> + Send + Sync + 'static>(owner: T) -> ExtentBytes {
        let owner = Arc::new(owner);
        let bytes: &[u8] = (*owner).as_ref();
        ExtentBytes {
            start: NonNull::from(bytes).cast(),
            len: bytes.len(),
            space: bytes.len(),
            state: None,
            observer: None,
            _owner: owner,
        }
    }
}

impl Deref for ExtentBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range was a valid slice when this was made. Of a pool: the mapping does not move and
        // lives as long as the medium, which the pin holds; by the promise made to `new`, nobody
        // stores to it. Of an owner: it was borrowed from the value in the `Arc`, which neither moves
        // nor is lent out mutably while `_owner` shares it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Bytes for ExtentBytes {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        self
    }

    #[inline(always)]
    fn touch(&self, offset: usize, len: usize) {
        if let Some((observer, base)) = &self.observer {
            let end = offset.saturating_add(len).min(self.len);
            if let Some(read) = self.get(offset..end).filter(|read| !read.is_empty()) {
                observer.touch(base + offset as u64, read);
            }
        }
    }

    #[inline(always)]
    fn touch_each(&self, offsets: impl Iterator<Item = usize>) {
        if let Some((observer, base)) = &self.observer {
            let inside = offsets.filter(|offset| *offset < self.len);
            observer.touch_each(&mut inside.map(|offset| base + offset as u64));
        }
    }

    #[inline(always)]
    fn scan(&self, offset: usize, len: usize) {
        if let Some((observer, base)) = &self.observer {
            let end = offset.saturating_add(len).min(self.len);
            observer.scan(base + offset as u64, end.saturating_sub(offset));
        }
    }

    #[inline(always)]
    fn scan_ahead(&self, offset: usize, len: usize) {
        if let Some((observer, base)) = &self.observer {
            let end = offset.saturating_add(len).min(self.len);
            observer.scan_ahead(base + offset as u64, end.saturating_sub(offset));
        }
    }

    #[inline(always)]
    fn prefetch(&self, offset: usize) {
        halocline_media::prefetch(self, offset);
        if let Some((observer, base)) = &self.observer
            && offset < self.len
        {
            observer.prefetch(base + offset as u64);
        }
    }

    #[inline]
    fn verified_blocks(&self) -> &[AtomicU64] {
        match &self.state {
            Some(state) => state.verified_blocks(),
            None => &[],
        }
    }

    #[cold]
    fn verify(&self, offset: usize, len: usize) {
        self.verify_or_note(offset, len);
    }

    #[inline]
    fn damage(&self) -> Option<BlockDamage> {
        let state = self.state.as_ref()?;
        let block = state.damaged()?;
        state.is_on().then(|| self.block_damage(state, block))
    }

    #[inline]
    fn observer(&self) -> Option<&dyn AccessObserver> {
        self.observer.as_ref().map(|(observer, _)| &**observer)
    }
}

impl AsRef<[u8]> for ExtentBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ExtentBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtentBytes")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Reads a range for checksumming, without a pin.
///
/// # Safety
/// While the slice lives, nobody stores to the range.
pub(crate) unsafe fn unpinned(medium: &Medium, offset: u64, len: u64) -> &[u8] {
    // SAFETY: the caller's promise.
    unsafe { medium.slice(offset, len as usize) }
}
