//! `flush_all`: the items of all keys at once, now or at a time.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use super::Items;
use crate::error::Result;
use crate::expiry::expires_at;
use crate::storage::StorageNumber;

/// There is no flush.
pub(super) const NEVER: u64 = u64::MAX;

impl Items {
    /// Removes all items at a time, as clients send it: at once if it is 0 or has passed.
    pub(crate) fn flush(&self, delay: i64) -> Result<()> {
        let now = self.now();
        match expires_at(delay, now).filter(|at| *at > now) {
            None => self.flush_now(),
            Some(at) => {
                // Not while another flush replaces this one, in DRAM and in the storage.
                let _current = self.present();
                self.storage.set_number(StorageNumber::FlushAt, at)?;
                self.flush_at.store(at, Release);
                Ok(())
            }
        }
    }

    pub(super) fn flush_if_due(&self) -> Result<()> {
        let at = self.flush_at.load(Acquire);
        if at != NEVER
            && at <= self.now()
            && self.flush_at.compare_exchange(at, NEVER, AcqRel, Acquire).is_ok()
        {
            self.flush_now()?;
        }
        Ok(())
    }

    fn flush_now(&self) -> Result<()> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = self.storage.flush()?;
        self.accesses.flushed();
        // The one that was asked for later is done as well.
        self.flush_at.store(NEVER, Release);
        if let Some(evictor) = &self.evictor {
            evictor.clear();
        }
        if let Some(hot) = &self.hot {
            hot.clear();
        }
        Ok(())
    }

    /// Does a step of what the storage has left to do, and removes items that could not leave before. Returns
    /// true if there is more.
    pub(crate) fn reclaim(&self) -> Result<bool> {
        let has_more = self.storage.reclaim()?;
        Ok(self.evict_late()? || has_more)
    }
}
