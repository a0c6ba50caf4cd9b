//! Inserts and updates.

use halocline_media::Medium;

use crate::TreeError;
use crate::inner::Place;
use crate::locks::{Backoff, Locked};
use crate::mistake::{Mistake, made};

use super::leaves::{Entry, Leaves, Put};
use super::tree::Hybrid;

impl<M: Medium, L: Leaves> Hybrid<M, L> {
    /// Adds an entry; if there is one with this key, returns its value and, if `replace`, gives it the new one.
    #[inline]
    pub(crate) fn put(&self, key: u64, value: u64, replace: bool) -> Result<Option<u64>, TreeError> {
        let mut spare = None;
        let result = self.put_with(key, value, replace, &mut spare);
        if let Some(node) = spare {
            self.slab.free(node);
        }
        result
    }

    /// As [`put`](Hybrid::put); a node that was taken for a split and is not needed is left in `spare`.
    #[inline]
    fn put_with(
        &self,
        key: u64,
        value: u64,
        replace: bool,
        spare: &mut Option<u64>,
    ) -> Result<Option<u64>, TreeError> {
        self.latch.check(self.name())?;
        let mut backoff = Backoff::default();
        let mut place = self.inner.find(key);
        loop {
            let at = self.at(place.leaf);
            L::fetch_to_put(at, key);
            let Some(locked) = self.lock_current(&place) else {
                backoff.wait();
                place = self.inner.find(key);
                continue;
            };
            self.intact(place.leaf)?;
            match self.leaves.put(at, key, value) {
                Ok(Put::Added) => {
                    self.count.add(place.leaf, 1);
                    return Ok(None);
                }
                Ok(Put::There(slot)) => {
                    let before = L::value(at, slot);
                    if replace {
                        let entry = Entry { key, value, slot };
                        self.latch.keep(self.leaves.replace(at, entry))?;
                    } else {
                        locked.unchanged();
                    }
                    return Ok(Some(before));
                }
                Ok(Put::Full) => {}
                Err(error) => {
                    self.latch.keep(Err(error))?;
                }
            }
            *spare = spare.take().or_else(|| self.slab.alloc_ready());
            let Some(node) = *spare else {
                // Without any lock, as the pool has to grow.
                locked.unchanged();
                *spare = Some(self.slab.alloc()?);
                continue;
            };
            // They come while it is decided what moves.
            L::fetch_all(self.at(self.number_of(node)?));
            self.inner.prefetch_all(place.node);
            let Some(parent) = self.inner.lock(&place) else {
                locked.unchanged();
                backoff.wait();
                place = self.inner.find(key);
                continue;
            };
            if parent.is_full() {
                parent.unchanged();
                locked.unchanged();
                place = self.inner.find_with_room(key)?;
                continue;
            }
            *spare = None;
            let split = self.split(&place, &parent, node, (key, value));
            drop((parent, locked));
            return match split {
                Ok(()) => Ok(None),
                Err(refused) => {
                    // Nothing leads to the node.
                    *spare = refused.spare;
                    Err(refused.error)
                }
            };
        }
    }

    /// Replaces the value of a key that is there.
    pub(crate) fn replace(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        self.latch.check(self.name())?;
        let (place, locked) = self.lock_leaf(key)?;
        let at = self.at(place.leaf);
        match L::locate(at, key) {
            None => {
                locked.unchanged();
                Ok(None)
            }
            Some(slot) => {
                let before = L::value(at, slot);
                let entry = Entry { key, value, slot };
                self.latch.keep(self.leaves.replace(at, entry))?;
                Ok(Some(before))
            }
        }
    }

    /// Locks the leaf that a key belongs to.
    pub(super) fn lock_leaf(&self, key: u64) -> Result<(Place, Locked<'_>), TreeError> {
        let mut backoff = Backoff::default();
        loop {
            let place = self.inner.find(key);
            L::fetch(self.at(place.leaf), key);
            if let Some(locked) = self.lock_current(&place) {
                self.intact(place.leaf)?;
                return Ok((place, locked));
            }
            backoff.wait();
        }
    }

    /// Locks the leaf of a place, if the key still belongs there: as long as the lock is held, it does.
    #[inline(always)]
    pub(super) fn lock_current(&self, place: &Place) -> Option<Locked<'_>> {
        let locked = self.locks.lock(place.leaf);
        if self.inner.is_current(place) || made(Mistake::WriterUnchecked) {
            return Some(locked);
        }
        locked.unchanged();
        None
    }
}
