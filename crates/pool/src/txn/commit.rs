//! The commit of a transaction, which publishes a generation.
//!
//! Invariants: everything that a superblock names is durable before the superblock is stored. Of the two
//! superblocks that publishes write, the older one is overwritten. So at any moment a crash leaves either the
//! previous or the new generation, complete.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::{Txn, TxnState};
use crate::PoolError;
use crate::directory::{Directory, ObjectMap, ObjectRecord, encode, encoded_len};
use crate::fault::{PoolFault, injected};
use crate::features::Features;
use crate::layout::{FORMAT_VERSION, Superblock, checksum};
use crate::limbo::{AgedRange, LimboList};
use crate::object::ExtentRef;
use crate::reserve::RESERVE_RANGES;
use crate::space::Space;
use crate::superblock::SuperblockCopies;

/// The objects that a publish changes.
struct TxnChanges {
    named: Vec<Arc<ObjectRecord>>,
    dropped: Vec<Arc<ObjectRecord>>,
}

impl TxnChanges {
    fn named(&self) -> impl Iterator<Item = &ExtentRef> {
        self.named.iter().flat_map(|record| record.extents.iter())
    }

    fn dropped(&self) -> impl Iterator<Item = &ExtentRef> {
        self.dropped.iter().flat_map(|record| record.extents.iter())
    }
}

impl Txn {
    /// Publishes all changes atomically; returns the new generation. Without changes, nothing is published
    /// and the base generation is returned.
    ///
    /// When this returns, the generation survives the death of the process. It survives power loss if fences
    /// on this medium do ([`Medium::fence_is_durable`](halocline_media::Medium::fence_is_durable)), otherwise
    /// from the next [`Pool::sync`](crate::Pool::sync) on.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::LogNotFolded`], [`PoolError::DamagedLog`], [`PoolError::Media`].
    /// The transaction is rolled back. After a failed write it may be unknown whether the generation is
    /// published until the pool is opened again; what was published before is safe in any case.
    pub fn commit(self) -> Result<u64, PoolError> {
        if self.state().changed.is_empty() && !self.state().republishes {
            return Ok(self.base_generation());
        }
        self.start_logs()?;
        let state = self.state();
        let inner = &*self.inner;
        let medium = &inner.medium;
        let generation = self.base_generation() + 1;
        let features = (state.features | Features::LIMBO_LIST).for_objects(&state.objects);
        let changes = self.changes(&state);
        let len = encoded_len(&state.objects);
        drop(state);
        let oldest = inner.tidy()?.oldest().unwrap_or(self.base_generation());
        // Allocating the directory may free some of the limbo but adds nothing to it, so this is an upper
        // bound.
        let most = self.aged_ranges(&changes, generation, oldest).len() + RESERVE_RANGES;
        let early = self.reserved_ranges();
        let offset = self.reserve((len + LimboList::encoded_len(most)) as u64)?;
        let reserve = if injected(PoolFault::ReserveListedEarly) {
            early
        } else {
            self.reserved_ranges()
        };
        let limbo = LimboList::new(
            inner.reusable_up_to().min(self.base_generation()),
            self.aged_ranges(&changes, generation, oldest),
            reserve,
        );
        let bytes = encode(generation, &self.state().objects, Some(&limbo));
        self.trim(offset, bytes.len() as u64);
        let directory = ExtentRef::plain(offset, bytes.len() as u64, checksum(&bytes));
        medium.store(offset, &bytes);
        medium.flush(offset, directory.len);
        if thread::current().id() != self.thread {
            // The fence below belongs to this thread and does not cover flushes of the thread that wrote
            // these.
            self.state()
                .finished
                .values()
                .for_each(|extent| medium.flush(extent.offset, extent.space().end - extent.offset));
        }
        // Everything that the new superblock names must be durable before the superblock is stored.
        medium.fence()?;
        if let Err(error) = self.publish(features, generation, &directory) {
            // It is unknown whether the superblock is durable, so nothing may be written to the space that it
            // names.
            inner.failed.store(true, Ordering::Release);
            if let Some(space) = &mut inner.writer().space {
                space.spoil();
            }
            return Err(error);
        }
        self.settle(generation, directory, &changes, features, limbo);
        // Acknowledge only what can be found again under the path of the file.
        inner.access.check_place()?;
        Ok(generation)
    }

    /// Returns the records of changed objects, new and old.
    fn changes(&self, state: &TxnState) -> TxnChanges {
        let records = |objects: &ObjectMap| -> Vec<Arc<ObjectRecord>> {
            let changed = state.changed.iter();
            changed.filter_map(|name| objects.get(name).cloned()).collect()
        };
        TxnChanges {
            named: records(&state.objects),
            dropped: records(&self.base.directory().objects),
        }
    }

    /// Returns the ranges of a limbo list for the next generation.
    fn aged_ranges(&self, changes: &TxnChanges, generation: u64, oldest: u64) -> Vec<AgedRange> {
        let writer = self.inner.writer();
        let Some(space) = &writer.space else {
            return Vec::new();
        };
        let dropped = changes.dropped().chain([&self.base.directory().extent]);
        space.aged_ranges(generation, changes.named(), dropped, oldest)
    }

    /// Returns the ranges of the reserve.
    fn reserved_ranges(&self) -> Vec<Range<u64>> {
        let writer = self.inner.writer();
        writer.space.as_ref().map_or_else(Vec::new, Space::reserve)
    }

    /// Stores the new superblock over the older copy and makes it durable, which publishes the generation.
    fn publish(&self, features: Features, generation: u64, directory: &ExtentRef) -> Result<(), PoolError> {
        let inner = &*self.inner;
        let medium = &inner.medium;
        let slots = SuperblockCopies::read(medium);
        let mut superblock = Superblock::new(
            FORMAT_VERSION,
            self.superblock.uuid,
            inner.boot_id,
            generation,
            medium.len(),
            directory,
        );
        features.store(&mut superblock);
        let durable = medium.fence_is_durable();
        // Where fences are not durable, the superblock may only vouch for what the last sync has written.
        superblock.synced_generation = if durable {
            generation
        } else {
            slots.sync_copy_generation()
        }
        .into();
        superblock.write(medium, slots.publish_target());
        medium.fence()?;
        if !durable {
            inner.unsynced.store(generation, Ordering::Release);
        }
        Ok(())
    }

    /// Updates the state in memory after a publish.
    fn settle(
        &self,
        generation: u64,
        directory: ExtentRef,
        changes: &TxnChanges,
        features: Features,
        limbo: LimboList,
    ) {
        let mut state = self.state();
        let named = changes.named().chain([&directory]);
        let dropped = changes.dropped().chain([&self.base.directory().extent]);
        if let Some(space) = &mut self.inner.writer().space {
            space.publish(generation, named, dropped);
            state.reserved.retain(|offset, _| !space.is_named(*offset));
        }
        let objects = std::mem::take(&mut state.objects);
        let directory = Directory {
            generation,
            objects,
            extent: directory,
            limbo: Some(limbo),
            features,
        };
        if let Some(space) = &mut self.inner.writer().space {
            space.want_reserve(self.inner.reserve_for(&directory));
        }
        self.inner.set_current(directory);
    }
}
