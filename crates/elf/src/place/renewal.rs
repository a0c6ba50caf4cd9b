//! Copying lists anew, by what was counted so far.
//!
//! Choosing them takes longest, and the old copies are in use meanwhile. They go before new ones are made, once their last
//! reader is done, so that there never are more bytes than the budget has; until the new ones are there all is read from
//! the slow tier. Where the same lists are chosen again, the copies stay.

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

/// Copying takes at most one part in so many of the time.
const LEAST_PAUSE: u32 = 50;
/// ListsAbsent two looks whether the last reader is done.
const READERS: Duration = Duration::from_micros(50);

/// Whether a renewal waits for readers of the old copies, or leaves these where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    WaitFor,
    LeaveTo,
}

struct Renewal<'a> {
    caches: &'a Caches,
    readers: Readers,
    room: u64,
    /// Which lists were chosen.
    lists: Cell<u64>,
    /// The old copies stay.
    kept: Cell<bool>,
}

impl CopyControl for Renewal<'_> {
    fn check(&self) -> Result<()> {
        match self.caches.stopped.load(Relaxed) {
            true => Err(ElfError::Cancelled),
            false => Ok(()),
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
    /// Lets the old copies go; says whether their readers have.
    fn let_go(&self) -> Result<bool> {
        if self.caches.cached().copies.is_none() {
            return Ok(true);
        }
        self.caches.strategies.set_replacing(true);
        let old = self.caches.replace(None);
        let Some(copies) = &old.copies else {
            return Ok(true);
        };
        // Nobody can get at them any more; who already has keeps `old`.
        while Arc::strong_count(&old) > 1 {
            if self.readers == Readers::LeaveTo {
                self.caches.replace(Some(Arc::clone(copies)));
                return Ok(false);
            }
            self.check()?;
            std::thread::park_timeout(READERS);
        }
        Ok(true)
    }
}

/// There are no lists for a moment; when it is dropped there are as many as there will be.
struct ListsAbsent<'a>(&'a StrategySelector);

impl Drop for ListsAbsent<'_> {
    fn drop(&mut self) {
        self.0.set_replacing(false);
    }
}

impl Caches {
    /// ListCopies lists anew by `make`, which is given the counts and the bytes there are. What goes wrong is remembered.
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
            // Without copies every answer is the same.
            tracing::warn!(reason);
            let _renewing = self.renewing();
            self.replace(None);
        }
        self.set_failed(failed);
        // They may have been asked for meanwhile.
        self.make_tuples();
    }

    /// As [`renew_or_say`](Self::renew_or_say), for who wants to know.
    ///
    /// # Errors
    /// Those of `make`.
    pub(super) fn renew(
        &self,
        readers: Readers,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>>,
    ) -> Result<()> {
        let mut not_before = self.renewing();
        let _absent = ListsAbsent(&self.strategies);
        let start = Instant::now();
        let room = match self.wants_tuples() {
            true => self.beside_tuples,
            false => self.budget,
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
        *not_before = Instant::now() + start.elapsed() * LEAST_PAUSE;
        Ok(())
    }

    /// ListCopies lists for the first time, so many that there is room for tuples too.
    ///
    /// # Errors
    /// Those of `make`.
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
