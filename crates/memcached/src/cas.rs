//! Cas values: numbers that never repeat, also after a crash.
//!
//! Numbers are reserved in blocks. The end of a block is durable before a number of it is used, and the
//! server starts with the next block. Where what was written last can be lost with power (see
//! [`Durability`](crate::Durability)), the clock helps: a start begins at least at the present time, and
//! numbers are taken more slowly than it advances.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::fault::{MemcachedFault, injected};
use crate::storage::{ItemStorage, StorageNumber};

/// Numbers that are reserved at a time.
const BLOCK: u64 = 1 << 20;
/// Numbers for each millisecond of the clock: more than are taken.
const EACH_MILLISECOND: u64 = 1 << 20;

/// The source of cas values.
#[derive(Debug)]
pub(crate) struct CasValues {
    next: AtomicU64,
    reserved: AtomicU64,
    storage: Arc<dyn ItemStorage>,
    reserving: Mutex<()>,
}

impl CasValues {
    /// Starts with a new block of the numbers whose end is in a storage, at a time in milliseconds since
    /// 1970.
    pub(crate) fn start(storage: Arc<dyn ItemStorage>, now: u64) -> Result<CasValues> {
        let stored = storage.number(StorageNumber::CasEnd)?;
        let at_present = if injected(MemcachedFault::IgnoreClock) {
            0
        } else {
            now.saturating_mul(EACH_MILLISECOND)
        };
        let first = stored.unwrap_or(1).max(at_present);
        let values = CasValues {
            next: AtomicU64::new(first),
            reserved: AtomicU64::new(first),
            storage,
            reserving: Mutex::new(()),
        };
        match values.reserve(first) {
            // Reads and deletions need no numbers, and what stores a value tries again.
            Err(error) if error.is_full() => tracing::warn!(%error, "values cannot be stored now"),
            reserved => reserved?,
        }
        Ok(values)
    }

    /// Returns a number that was not returned before.
    pub(crate) fn next(&self) -> Result<u64> {
        let value = self.next.fetch_add(1, Relaxed);
        if value >= self.reserved.load(Acquire) {
            self.reserve(value)?;
        }
        Ok(value)
    }

    #[cold]
    fn reserve(&self, value: u64) -> Result<()> {
        let _reserving = self.reserving.lock().unwrap_or_else(PoisonError::into_inner);
        if value < self.reserved.load(Acquire) {
            return Ok(());
        }
        let end = value + BLOCK;
        if !injected(MemcachedFault::ReserveNothing) {
            self.storage.set_number(StorageNumber::CasEnd, end)?;
        }
        self.reserved.store(end, Release);
        Ok(())
    }
}
