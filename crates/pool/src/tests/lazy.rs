//! Tracked memory that is durable like the page cache's default: by a sync only.

use std::sync::Arc;

use halocline_media::{MediaError, Medium, MediumKind, Tracked};

pub(crate) struct Lazy(pub(crate) Arc<Tracked>);

impl Medium for Lazy {
    fn kind(&self) -> MediumKind {
        MediumKind::PageCache { strict: false }
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        self.0.grow(new_len)
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        self.0.refresh()
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        self.0.load(offset, into);
    }

    fn load_u64(&self, offset: u64) -> u64 {
        self.0.load_u64(offset)
    }

    #[allow(unsafe_code, reason = "hands the caller's promise on")]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: the caller's promise is the memory's.
        unsafe { self.0.slice(offset, len) }
    }

    fn prefetch(&self, offset: u64) {
        self.0.prefetch(offset);
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.0.store(offset, bytes);
    }

    fn store_u64(&self, offset: u64, value: u64) {
        self.0.store_u64(offset, value);
    }

    fn flush(&self, _offset: u64, _len: u64) {}

    fn fence(&self) -> Result<(), MediaError> {
        Ok(())
    }

    /// A flush and a fence of everything, so that the explorer can leave them out.
    fn sync(&self) -> Result<(), MediaError> {
        self.0.persist(0, self.0.len())
    }

    fn fence_is_durable(&self) -> bool {
        false
    }
}
