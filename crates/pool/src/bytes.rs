//! Read access to extents: [`ExtentBytes`].
#![allow(unsafe_code, reason = "hands out slices of what it keeps alive and immutable")]

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use halocline_media::{Bytes, Device, Medium};

use crate::snapshot::Pinned;

/// The bytes of an extent, where they lie in the pool: nothing is copied. Cheap to clone. Or bytes in DRAM that stand for
/// an extent: see [`from_owner`](Self::from_owner).
///
/// Keeps the mapping and its generation's pin alive, so the bytes stay as they are even when the object is replaced or
/// the pool is closed meanwhile.
#[derive(Clone)]
pub struct ExtentBytes {
    start: NonNull<u8>,
    len: usize,
    /// The emulated device it lies on, and its address there.
    device: Option<(Arc<Device>, u64)>,
    /// The pin, or whatever else holds the bytes.
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: the bytes are immutable while their owner lives (see `ExtentBytes::new` and `from_owner`), so sharing them is
// sharing a `&[u8]`; what keeps them alive is `Send` and `Sync` itself.
unsafe impl Send for ExtentBytes {}
// SAFETY: as above.
unsafe impl Sync for ExtentBytes {}

impl ExtentBytes {
    /// The `len` bytes at `offset`.
    ///
    /// # Safety
    /// The range is a finished extent that nobody stores to again while the pin lives: one that the pinned generation
    /// names, or one that a transaction on it has finished (whose space is not given back while the pin is shared).
    pub(crate) unsafe fn new(pinned: Arc<Pinned>, offset: u64, len: usize) -> ExtentBytes {
        // SAFETY: the caller's promise.
        let bytes = unsafe { pinned.medium().slice(offset, len) };
        let start = NonNull::from(bytes).cast();
        let device = pinned
            .medium()
            .device()
            .map(|(device, base)| (device, base + offset));
        ExtentBytes {
            start,
            len,
            device,
            _owner: pinned,
        }
    }
}

impl ExtentBytes {
    /// Bytes that are in no pool, for what else reads extents; the owner is kept as long as they are. No emulated device is
    /// charged for them.
    pub fn from_owner<T: AsRef<[u8]> + Send + Sync + 'static>(owner: T) -> ExtentBytes {
        let owner = Arc::new(owner);
        let bytes: &[u8] = (*owner).as_ref();
        ExtentBytes {
            start: NonNull::from(bytes).cast(),
            len: bytes.len(),
            device: None,
            _owner: owner,
        }
    }
}

impl Deref for ExtentBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range was a valid slice when this was made. Of a pool: the mapping does not move and lives as long as
        // the medium, which the pin holds; by the promise made to `new`, nobody stores to it. Of an owner: it was borrowed
        // from the value in the `Arc`, which neither moves nor is lent out mutably while `_owner` shares it.
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
        if let Some((device, base)) = &self.device {
            device.touch_bytes(*base, self, offset, len);
        }
    }

    #[inline(always)]
    fn touch_each(&self, offsets: impl Iterator<Item = usize>) {
        if let Some((device, base)) = &self.device {
            let inside = offsets.filter(|offset| *offset < self.len);
            device.touch_each(inside.map(|offset| base + offset as u64));
        }
    }

    #[inline(always)]
    fn scan(&self, offset: usize, len: usize) {
        if let Some((device, base)) = &self.device {
            let end = offset.saturating_add(len).min(self.len);
            device.scan(base + offset as u64, end.saturating_sub(offset));
        }
    }

    #[inline(always)]
    fn scan_ahead(&self, offset: usize, len: usize) {
        if let Some((device, base)) = &self.device {
            let end = offset.saturating_add(len).min(self.len);
            device.scan_ahead(base + offset as u64, end.saturating_sub(offset));
        }
    }

    #[inline(always)]
    fn prefetch(&self, offset: usize) {
        halocline_media::prefetch(self, offset);
        if let Some((device, base)) = &self.device
            && offset < self.len
        {
            device.prefetch(base + offset as u64);
        }
    }

    #[inline]
    fn device(&self) -> Option<&Arc<Device>> {
        self.device.as_ref().map(|(device, _)| device)
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

/// Reads a range that is about to be summed, unpinned.
///
/// # Safety
/// As long as the slice lives, nobody stores to the range.
pub(crate) unsafe fn unpinned(medium: &dyn Medium, offset: u64, len: u64) -> &[u8] {
    // SAFETY: the caller's promise.
    unsafe { medium.slice(offset, len as usize) }
}
