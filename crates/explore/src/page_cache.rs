//! Tracked memory as a file on the page cache: [`TrackedPageCache`].

use std::sync::Arc;

use halocline_media::{MediaError, MediumAccess, MediumBackend, MediumKind};

use crate::Tracked;

/// Tracked memory whose flushes do nothing, and whose fences are durable only in strict mode, where each is a
/// sync. Otherwise a crash may lose whatever was not synced.
#[derive(Debug)]
pub struct TrackedPageCache {
    memory: Arc<Tracked>,
    strict: bool,
}

impl TrackedPageCache {
    /// Returns a medium over tracked memory.
    pub fn new(memory: &Arc<Tracked>, strict: bool) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::clone(memory),
            strict,
        })
    }
}

impl MediumAccess for TrackedPageCache {
    fn len(&self) -> u64 {
        self.memory.len()
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        self.memory.load(offset, into);
    }

    fn load_u64(&self, offset: u64) -> u64 {
        self.memory.load_u64(offset)
    }

    #[allow(unsafe_code, reason = "hands the caller's promise on")]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: the caller upholds the memory's contract.
        unsafe { self.memory.slice(offset, len) }
    }

    fn prefetch(&self, offset: u64) {
        self.memory.prefetch(offset);
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.memory.store(offset, bytes);
    }

    fn store_u64(&self, offset: u64, value: u64) {
        self.memory.store_u64(offset, value);
    }

    /// Does nothing: lines that are flushed from the caches of the processor are still in the page cache.
    fn flush(&self, _offset: u64, _len: u64) {}

    fn fence(&self) -> Result<(), MediaError> {
        match self.strict {
            true => self.sync(),
            false => Ok(()),
        }
    }
}

impl MediumBackend for TrackedPageCache {
    fn kind(&self) -> MediumKind {
        MediumKind::PageCache { strict: self.strict }
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        self.memory.grow(new_len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.memory.discard(offset, len)
    }

    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        self.memory.truncate(len)
    }

    /// Flushes and fences everything, so that the explorer can leave these calls out.
    fn sync(&self) -> Result<(), MediaError> {
        self.memory.persist(0, self.memory.len())
    }

    fn fence_is_durable(&self) -> bool {
        self.strict
    }
}
