//! Tracked memory as a file on the page cache: [`TrackedPageCache`].

use std::sync::Arc;

use halocline_media::{MediaError, MediumAccess, MediumBackend, MediumKind, forward_medium};

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
    forward_medium!(memory: len, load, load_u64, slice, prefetch, store, store_u64);

    /// Does nothing: lines that are flushed from the caches of the processor are still in the page cache.
    fn flush(&self, _offset: u64, _len: u64) {}

    fn fence(&self) -> Result<(), MediaError> {
        if self.strict { self.sync() } else { Ok(()) }
    }
}

impl MediumBackend for TrackedPageCache {
    forward_medium!(memory: grow, discard, truncate);

    fn kind(&self) -> MediumKind {
        MediumKind::PageCache { strict: self.strict }
    }

    /// Flushes and fences everything, so that the explorer can leave these calls out.
    fn sync(&self) -> Result<(), MediaError> {
        self.memory.persist(0, self.memory.len())
    }

    fn fence_is_durable(&self) -> bool {
        self.strict
    }
}
