//! Inserts and updates.
//!
//! A node is allocated before anything is stored, so an insert into a full pool changes nothing. After a
//! failed fence, the current change is completed in memory so that readers see a consistent tree, and all
//! later writes fail.

use halocline_media::MediaError;

use crate::TreeError;
use crate::fault::{LockFault, injected};
use crate::inner::LeafLocation;
use crate::locks::{Backoff, Locked};

use super::leaves::{InsertOutcome, LeafEntry, LeafFormat};
use super::tree::HybridTree;

/// The location and lock of a leaf, and the result of inserting into it.
type InsertAttempt<'a, L> = (
    LeafLocation<'a>,
    Locked<'a>,
    Result<InsertOutcome<<L as LeafFormat>::Slot>, Box<MediaError>>,
);

impl<L: LeafFormat> HybridTree<L> {
    /// Inserts an entry. If the key exists, returns its value and, if `replace` is true, stores the new one.
    ///
    /// The common path is short, so that the core can start the next insert while it waits for memory.
    /// Everything else is in separate functions.
    #[inline(always)]
    pub(crate) fn put(&self, key: u64, value: u64, replace: bool) -> Result<Option<u64>, TreeError> {
        self.write_gate.check(&self.slab)?;
        match self.try_put(key, value)? {
            Some((place, _locked, Ok(InsertOutcome::Added))) => {
                self.count.add(place.leaf, 1);
                Ok(None)
            }
            Some((place, locked, Ok(InsertOutcome::Exists(slot)))) => {
                self.put_over(&place, locked, LeafEntry { key, value, slot }, replace)
            }
            tried => {
                let mut spare = None;
                let result = self.put_with(key, value, replace, tried, &mut spare);
                if let Some(node) = spare {
                    self.slab.free(node);
                }
                result
            }
        }
    }

    /// Attempts an insert. Returns `None` if validation fails.
    #[inline(always)]
    fn try_put(&self, key: u64, value: u64) -> Result<Option<InsertAttempt<'_, L>>, TreeError> {
        let place = self.inner.find(key);
        if !self.ensure_built(place.leaf)? {
            return Ok(None);
        }
        let at = self.at(place.leaf);
        let open = L::open(at);
        L::fetch_to_put(at, open, key);
        let Some(locked) = self.lock_current(&place) else {
            return Ok(None);
        };
        self.intact(place.leaf)?;
        Ok(Some((place, locked, self.leaves.put(at, open, key, value))))
    }

    /// Handles an insert whose key exists.
    #[inline(never)]
    fn put_over(
        &self,
        place: &LeafLocation<'_>,
        locked: Locked<'_>,
        entry: LeafEntry<L::Slot>,
        replace: bool,
    ) -> Result<Option<u64>, TreeError> {
        let at = self.at(place.leaf);
        let before = L::value(at, entry.slot);
        if replace {
            self.write_gate.keep(self.leaves.replace(at, entry))?;
        } else {
            locked.unchanged();
        }
        Ok(Some(before))
    }

    /// Continues a [`put`](HybridTree::put) after its first attempt. A node that was allocated for a split
    /// and not used is left in `spare`.
    #[cold]
    fn put_with<'a>(
        &'a self,
        key: u64,
        value: u64,
        replace: bool,
        mut tried: Option<InsertAttempt<'a, L>>,
        spare: &mut Option<u64>,
    ) -> Result<Option<u64>, TreeError> {
        let mut backoff = Backoff::default();
        loop {
            let Some((place, locked, put)) = tried.take() else {
                backoff.wait();
                tried = self.try_put(key, value)?;
                continue;
            };
            match put {
                Ok(InsertOutcome::Added) => {
                    self.count.add(place.leaf, 1);
                    return Ok(None);
                }
                Ok(InsertOutcome::Exists(slot)) => {
                    return self.put_over(&place, locked, LeafEntry { key, value, slot }, replace);
                }
                Ok(InsertOutcome::Full) => {}
                Err(error) => {
                    self.write_gate.keep(Err(*error))?;
                }
            }
            *spare = spare.take().or_else(|| self.slab.alloc_ready());
            let Some(node) = *spare else {
                // No lock may be held here, as the pool has to grow.
                locked.unchanged();
                *spare = Some(self.alloc_node()?);
                tried = self.try_put(key, value)?;
                continue;
            };
            // The lines arrive while the split is being prepared.
            L::fetch_all(self.at(self.number_of(node)?));
            place.node.prefetch_keys();
            let Some(parent) = self.inner.lock(&place) else {
                locked.unchanged();
                continue;
            };
            if parent.is_full() {
                parent.unchanged();
                locked.unchanged();
                self.inner.make_room(key)?;
                tried = self.try_put(key, value)?;
                continue;
            }
            *spare = None;
            let split = self.split(&place, &parent, node, (key, value));
            drop((parent, locked));
            return match split {
                Ok(()) => {
                    self.after_split();
                    Ok(None)
                }
                Err(refused) => {
                    // The node is not referenced, so it can be freed.
                    *spare = refused.spare;
                    Err(refused.error)
                }
            };
        }
    }

    /// Allocates a node when none is known to be free. No lock may be held.
    fn alloc_node(&self) -> Result<u64, TreeError> {
        if let Some(after_crash) = self.lazy.after_crash() {
            if !after_crash.has_grown
                && let Ok(node) = self.slab.alloc()
            {
                return Ok(node);
            }
            self.build_all()?;
        }
        self.write_gate.alloc(&self.slab)
    }

    /// Replaces the value of an existing key.
    pub(crate) fn replace(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        self.write_gate.check(&self.slab)?;
        let (place, locked) = self.lock_leaf(key)?;
        let at = self.at(place.leaf);
        match L::locate(at, key) {
            None => {
                locked.unchanged();
                Ok(None)
            }
            Some(slot) => {
                let before = L::value(at, slot);
                let entry = LeafEntry { key, value, slot };
                self.write_gate.keep(self.leaves.replace(at, entry))?;
                Ok(Some(before))
            }
        }
    }

    /// Locks the leaf of a key.
    pub(super) fn lock_leaf(&self, key: u64) -> Result<(LeafLocation<'_>, Locked<'_>), TreeError> {
        let mut backoff = Backoff::default();
        loop {
            let place = self.inner.find(key);
            if !self.ensure_built(place.leaf)? {
                continue;
            }
            L::fetch(self.at(place.leaf), key);
            if let Some(locked) = self.lock_current(&place) {
                self.intact(place.leaf)?;
                return Ok((place, locked));
            }
            backoff.wait();
        }
    }

    /// Locks the leaf at `place` if the key still belongs to it, which then holds until the lock is released.
    #[inline(always)]
    pub(super) fn lock_current(&self, place: &LeafLocation<'_>) -> Option<Locked<'_>> {
        let locked = self.locks.lock(place.leaf);
        if self.inner.is_current(place) || injected(LockFault::WriterUnchecked) {
            return Some(locked);
        }
        locked.unchanged();
        None
    }
}
