//! Renewal of the copies by the accesses counted so far.
//!
//! Selecting the lists takes longest; the old copies remain in use meanwhile. They are freed after their last
//! reader and before the new ones are made, so that the budget is never exceeded; until the new copies exist,
//! queries read the slow tier. If the same lists are selected again, the old copies are kept.

use crate::place::caches::{Caches, ListCopies};
use crate::place::list_copier::{CopyControl, ImageParts};
use crate::place::strategy::StrategySelector;
use crate::{ElfError, Result};
use halocline_cache::AgedCounts;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Minimum pause after a renewal, as a multiple of its duration.
const MIN_PAUSE_FACTOR: u32 = 50;
/// Interval between two checks whether the last reader is done.
const READER_CHECK_INTERVAL: Duration = Duration::from_micros(50);

/// Behaviour of a renewal while the old copies have readers: wait for them, or keep the old copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    WaitFor,
    LeaveTo,
}

struct Renewal<'a> {
    caches: &'a Caches,
    readers: Readers,
    room: u64,
    /// Fingerprint of the selected lists.
    lists: Cell<u64>,
    /// Set if the old copies are kept.
    kept: Cell<bool>,
}

impl CopyControl for Renewal<'_> {
    fn check(&self) -> Result<()> {
        if self.caches.stopped.load(Relaxed) {
            Err(ElfError::Cancelled)
        } else {
            Ok(())
        }
    }

    fn approve(&self, lists: u64) -> Result<bool> {
        let cached = self.caches.cached();
        let fits = cached.image_bytes() <= self.room;
        let same = cached.copies.as_ref().is_some_and(|copies| copies.lists == lists);
        drop(cached);
        let make = !(fits && same) && self.let_go()?;
        self.lists.set(lists);
        self.kept.set(!make);
        Ok(make)
    }
}

impl Renewal<'_> {
    /// Frees the old copies. Returns false if they still have readers and are kept.
    fn let_go(&self) -> Result<bool> {
        if self.caches.cached().copies.is_none() {
            return Ok(true);
        }
        self.caches.strategies.set_replacing(true);
        let old = self.caches.replace(None);
        let Some(copies) = &old.copies else {
            return Ok(true);
        };
        // No new reader can reach them now; each existing reader holds a reference to `old`.
        while Arc::strong_count(&old) > 1 {
            if self.readers == Readers::LeaveTo {
                self.caches.replace(Some(Arc::clone(copies)));
                return Ok(false);
            }
            self.check()?;
            std::thread::park_timeout(READER_CHECK_INTERVAL);
        }
        Ok(true)
    }
}

/// Marks the lists as temporarily absent, until it is dropped.
struct ListsAbsent<'a>(&'a StrategySelector);

impl Drop for ListsAbsent<'_> {
    fn drop(&mut self) {
        self.0.set_replacing(false);
    }
}

impl Caches {
    /// Renews the copies by `make`, which receives the counters and the bytes available. Errors are logged
    /// and recorded.
    pub(super) fn renew_or_say(
        &self,
        readers: Readers,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>>,
    ) {
        let failed = match catch_unwind(AssertUnwindSafe(|| self.renew(readers, make))) {
            Ok(Ok(())) | Ok(Err(ElfError::Cancelled)) => None,
            Ok(Err(error)) => Some(format!("lists could not be copied to DRAM: {error}")),
            Err(_) => Some("copying lists to DRAM came to an unexpected end".to_owned()),
        };
        if let Some(reason) = &failed {
            // Not fatal: queries give the same answers without copies.
            tracing::warn!(reason);
            let _renewing = self.renewing();
            self.replace(None);
        }
        self.set_failed(failed);
        // The first exact match may have come during the renewal.
        self.make_tuples();
    }

    /// Renews the copies by `make` and returns its errors.
    ///
    /// # Errors
    /// The errors of `make`.
    pub(super) fn renew(
        &self,
        readers: Readers,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>>,
    ) -> Result<()> {
        let mut not_before = self.renewing();
        let _absent = ListsAbsent(&self.strategies);
        let start = Instant::now();
        let room = if self.wants_tuples() {
            self.beside_tuples
        } else {
            self.budget
        };
        let renewal = Renewal {
            caches: self,
            readers,
            room,
            lists: Cell::new(0),
            kept: Cell::new(false),
        };
        let made = make(&self.counts.frozen(), room, &renewal)?;
        if made.is_none() && !renewal.kept.get() {
            renewal.let_go()?;
        }
        if let Some((image, header)) = made {
            let lists = renewal.lists.get();
            self.replace(Some(Arc::new(ListCopies { image, header, lists })));
            self.strategies.lists_changed();
        }
        self.make_tuples_locked();
        *not_before = Instant::now() + start.elapsed() * MIN_PAUSE_FACTOR;
        Ok(())
    }

    /// Makes the first image, within the share of the budget that leaves room for tuples.
    ///
    /// # Errors
    /// The errors of `make`.
    pub(super) fn begin(
        &self,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>>,
    ) -> Result<()> {
        let _renewing = self.renewing();
        let renewal = Renewal {
            caches: self,
            readers: Readers::LeaveTo,
            room: self.beside_tuples,
            lists: Cell::new(0),
            kept: Cell::new(false),
        };
        if let Some((image, header)) = make(&self.counts.frozen(), self.beside_tuples, &renewal)? {
            let lists = renewal.lists.get();
            self.replace(Some(Arc::new(ListCopies { image, header, lists })));
        }
        Ok(())
    }
}
