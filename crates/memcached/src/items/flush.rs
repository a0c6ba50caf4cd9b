//! `flush_all`: the items of all keys at once.
//!
//! A flush makes another, empty store the current one, by one durable write, and then empties the old one in
//! steps of which each is a small batch, so that no command waits for it. A server that ends in between goes
//! on when it starts.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use halocline_store::{Store, Stores, WriteBatch};

use super::Items;
use crate::error::Result;
use crate::expiry::expires_at;
use crate::fault::{MemcachedFault, injected};

/// The name of the store of what the server knows of itself.
pub(super) const META: &str = "memcached/meta";
const PREFIX: &str = "memcached/items/";
/// Keys of that store: the number of the current store, and the time of a flush.
const CURRENT: &[u8] = b"current";
const FLUSH_AT: &[u8] = b"flush at";
/// Keys that are removed at a time.
const STEP: usize = 256;
/// There is no flush.
const NEVER: u64 = u64::MAX;

fn read(meta: &Store, key: &[u8]) -> Result<Option<u64>> {
    let stored = meta.get(key)?;
    Ok(stored.and_then(|stored| Some(u64::from_le_bytes(stored.try_into().ok()?))))
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// Returns the current store.
pub(super) fn current(stores: &Stores, meta: &Store) -> Result<Store> {
    let number = read(meta, CURRENT)?.unwrap_or(0);
    Ok(stores.store(&name(number))?)
}

/// Returns the time of a flush that was asked for.
pub(super) fn scheduled(meta: &Store) -> Result<u64> {
    Ok(read(meta, FLUSH_AT)?.unwrap_or(NEVER))
}

impl Items {
    /// Removes all items at a time, as clients send it: at once if it is 0 or has passed.
    pub(crate) fn flush(&self, delay: i64) -> Result<()> {
        let now = self.now();
        match expires_at(delay, now).filter(|at| *at > now) {
            None => self.flush_now(),
            Some(at) => {
                // Not while another flush replaces this one, in DRAM and in the store.
                let _current = self.current.read().unwrap_or_else(PoisonError::into_inner);
                self.meta.put(FLUSH_AT, at.to_le_bytes())?;
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
        let number = read(&self.meta, CURRENT)?.unwrap_or(0) + 1;
        let next = self.stores.store(&name(number))?;
        let mut batch = WriteBatch::new();
        if !injected(MemcachedFault::ForgetFlush) {
            batch.put(&self.meta, CURRENT, number.to_le_bytes())?;
        }
        batch.delete(&self.meta, FLUSH_AT)?;
        self.stores.write(batch)?;
        // The one that was asked for later is done as well.
        self.flush_at.store(NEVER, Release);
        *current = next;
        if let Some(evictor) = &self.evictor {
            evictor.clear();
        }
        Ok(())
    }

    /// Does a step of emptying the stores of former flushes. Returns true if there is more to do.
    pub(crate) fn empty_flushed(&self) -> Result<bool> {
        let current = self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .name()
            .to_owned();
        let is_old = |name: &String| name.starts_with(PREFIX) && *name != current;
        let Some(old) = self.stores.names().into_iter().find(is_old) else {
            return Ok(false);
        };
        let store = self.stores.store(&old)?;
        let mut batch = WriteBatch::new();
        for pair in store.scan::<&[u8]>(..).with_limit(STEP).take(STEP) {
            batch.delete(&store, pair?.0)?;
        }
        match batch.is_empty() {
            true => self.stores.drop_store(&old)?,
            false => self.stores.write(batch)?,
        }
        Ok(true)
    }
}
