//! Tracked memory with faults: durable by syncs only, full, failing, interrupted, or with holes that kill.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use halocline_explore::Tracked;
use halocline_media::{MediaError, MediumAccess, MediumBackend, MediumKind, PAGE, forward_medium};

/// An action that runs between two loads.
pub(crate) type Interruption = Box<dyn FnOnce() + Send>;

pub(crate) struct Wrapped {
    medium: Arc<Tracked>,
    lazy: bool,
    /// The length beyond which it does not grow.
    limit: AtomicU64,
    /// Number of fences before one fails, and all after it.
    fences: AtomicU64,
    /// Number of loads before the interruption.
    loads: AtomicU64,
    /// Pages without blocks.
    holes: Mutex<BTreeSet<u64>>,
    then: Mutex<Option<Interruption>>,
    fenced: AtomicU64,
    within: Mutex<Option<Interruption>>,
}

impl Wrapped {
    /// Creates a medium whose fences are durable.
    pub(crate) fn new(medium: &Arc<Tracked>) -> Arc<Wrapped> {
        Wrapped::with(medium, false)
    }

    /// Creates a medium that only a sync makes durable, like the page cache by default.
    pub(crate) fn lazy(medium: &Arc<Tracked>) -> Arc<Wrapped> {
        Wrapped::with(medium, true)
    }

    fn with(medium: &Arc<Tracked>, lazy: bool) -> Arc<Wrapped> {
        Arc::new(Wrapped {
            medium: Arc::clone(medium),
            lazy,
            limit: AtomicU64::new(u64::MAX),
            fences: AtomicU64::new(u64::MAX),
            loads: AtomicU64::new(0),
            holes: Mutex::default(),
            then: Mutex::default(),
            fenced: AtomicU64::new(0),
            within: Mutex::default(),
        })
    }

    /// Panics where a store to a page without blocks would kill the process on a full disk.
    fn assert_blocks(&self, offset: u64, len: u64) {
        let holes = self.holes.lock().unwrap();
        let met = holes.range(pages(offset, len)).next();
        assert!(met.is_none(), "{len} bytes at {offset} met a hole");
    }

    /// Returns true if there are blocks for all of a range.
    pub(crate) fn has_blocks(&self, offset: u64, len: u64) -> bool {
        self.holes
            .lock()
            .unwrap()
            .range(pages(offset, len))
            .next()
            .is_none()
    }

    /// Limits growth to `len` bytes from now on.
    pub(crate) fn limit(&self, len: u64) {
        self.limit.store(len, Ordering::SeqCst);
    }

    /// Makes every fence after the next `fences` fail.
    pub(crate) fn fail_after(&self, fences: u64) {
        self.fences.store(fences, Ordering::SeqCst);
    }

    /// Runs `then` after the next `loads` loads.
    pub(crate) fn interrupt_after(&self, loads: u64, then: Interruption) {
        *self.then.lock().unwrap() = Some(then);
        self.loads.store(loads, Ordering::SeqCst);
    }

    /// Returns a copy of the visible contents.
    pub(crate) fn image(&self) -> Vec<u8> {
        self.medium.image()
    }

    /// Returns the number of fences so far.
    pub(crate) fn fences(&self) -> u64 {
        self.fenced.load(Ordering::SeqCst)
    }

    /// Runs `then` within the next fence.
    pub(crate) fn within_fence(&self, then: Interruption) {
        *self.within.lock().unwrap() = Some(then);
    }

    /// Returns true if the interruption has not happened yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.then.lock().unwrap().is_some()
    }
}

/// Returns the pages that overlap a range.
fn pages(offset: u64, len: u64) -> Range<u64> {
    offset / PAGE..(offset + len).div_ceil(PAGE)
}

impl MediumAccess for Wrapped {
    forward_medium!(medium: len, load_u64, slice, prefetch);

    fn load(&self, offset: u64, into: &mut [u8]) {
        self.medium.load(offset, into);
        let left = self.loads.load(Ordering::SeqCst);
        self.loads.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 1 {
            let then = self.then.lock().unwrap().take();
            if let Some(then) = then {
                then();
            }
        }
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.assert_blocks(offset, bytes.len() as u64);
        self.medium.store(offset, bytes);
    }

    fn store_u64(&self, offset: u64, value: u64) {
        self.assert_blocks(offset, 8);
        self.medium.store_u64(offset, value);
    }

    fn flush(&self, offset: u64, len: u64) {
        if !self.lazy {
            self.medium.flush(offset, len);
        }
    }

    fn fence(&self) -> Result<(), MediaError> {
        self.fenced.fetch_add(1, Ordering::SeqCst);
        let within = self.within.lock().unwrap().take();
        if let Some(then) = within {
            then();
        }
        let left = self.fences.load(Ordering::SeqCst);
        if left == 0 {
            return Err(MediaError::Poisoned {
                name: "broken disk".to_owned(),
                first: "it broke".to_owned(),
            });
        }
        if left < u64::MAX {
            self.fences.store(left - 1, Ordering::SeqCst);
        }
        if self.lazy { Ok(()) } else { self.medium.fence() }
    }
}

impl MediumBackend for Wrapped {
    forward_medium!(medium: refresh);

    fn kind(&self) -> MediumKind {
        if self.lazy {
            MediumKind::PageCache { strict: false }
        } else {
            self.medium.kind()
        }
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        if new_len > self.limit.load(Ordering::SeqCst) {
            return Err(MediaError::DiskFull {
                path: PathBuf::from("small disk"),
                wanted: new_len - self.len(),
            });
        }
        self.medium.grow(new_len)
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let mut holes = self.holes.lock().unwrap();
        let wanted: Vec<u64> = holes.range(pages(offset, len)).copied().collect();
        if !wanted.is_empty() && offset + len > self.limit.load(Ordering::SeqCst) {
            return Err(MediaError::DiskFull {
                path: PathBuf::from("small disk"),
                wanted: wanted.len() as u64 * PAGE,
            });
        }
        holes.retain(|page| !wanted.contains(page));
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.medium.discard(offset, len)?;
        self.holes.lock().unwrap().extend(pages(offset, len));
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        let len = self.medium.truncate(len)?;
        self.holes.lock().unwrap().split_off(&len.div_ceil(PAGE));
        Ok(len)
    }

    fn allocated(&self) -> Result<u64, MediaError> {
        Ok(self.len() - self.holes.lock().unwrap().len() as u64 * PAGE)
    }

    /// Flushes and fences everything on a lazy medium, so that the explorer can leave these calls out.
    fn sync(&self) -> Result<(), MediaError> {
        if self.lazy {
            self.medium.persist(0, self.medium.len())
        } else {
            self.medium.sync()
        }
    }

    fn fence_is_durable(&self) -> bool {
        !self.lazy
    }
}
