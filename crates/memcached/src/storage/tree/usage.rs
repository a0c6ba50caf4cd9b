//! Finding out after an opening which nodes of the slabs are in use.
//!
//! A walk over the tree in the order of hashes reads the head of each record, confirms its nodes and counts
//! it. It takes small steps in the background, while items are stored to nodes that were certainly free;
//! nodes that are still in doubt at the end are free. A change that finds no free node completes it.
//!
//! Invariant: a record in the list of a hash that the walk has passed was confirmed, or was stored since the
//! opening. Both the walk and a change of the records of a hash hold the lock of its stripe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::generation::{SCAN_ENTRIES, TreeGeneration};
use super::shared::LinkSteps;
use crate::error::Result;
use crate::fault::{MemcachedFault, injected};

/// The walk over the generation that was current at the opening.
#[derive(Default)]
pub(super) struct RecordWalk(Mutex<Option<WalkProgress>>);

/// The progress of a walk that is not complete.
struct WalkProgress {
    generation: Weak<TreeGeneration>,
    /// The first hash that was not passed.
    next: u64,
}

impl RecordWalk {
    fn progress(&self) -> MutexGuard<'_, Option<WalkProgress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the walk over a generation.
    pub(super) fn begin(&self, generation: &Arc<TreeGeneration>) {
        *self.progress() = Some(WalkProgress {
            generation: Arc::downgrade(generation),
            next: 0,
        });
    }

    /// Completes the walk. Does nothing if it is complete.
    pub(super) fn complete(&self) -> Result<()> {
        while self.step()? {}
        Ok(())
    }

    /// Does a step. Returns true if there is more.
    pub(super) fn step(&self) -> Result<bool> {
        let mut progress = self.progress();
        let Some(WalkProgress { generation, next }) = &mut *progress else {
            return Ok(false);
        };
        let Some(generation) = generation.upgrade() else {
            *progress = None;
            return Ok(false);
        };
        let mut entries = Vec::new();
        if let Err(error) = generation.tree.scan(*next, SCAN_ENTRIES, &mut entries) {
            // Some link may lead to any of the nodes in doubt: they stay in use.
            tracing::warn!(%error, "the space of replaced items stays in use");
            *progress = None;
            return Ok(false);
        }
        for (hash, _) in &entries {
            if !injected(MemcachedFault::FreeUnconfirmed) {
                generation.confirm(*hash)?;
            }
        }
        match entries.last().and_then(|(hash, _)| hash.checked_add(1)) {
            Some(after) => *next = after,
            None => {
                generation.shared.slabs.free_doubtful();
                *progress = None;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl TreeGeneration {
    /// Confirms the nodes of the records of a hash. The link to a record that is damaged stays, so that
    /// whoever asks for its item gets an error and does not take it for one that was never stored. Its first
    /// node stays in use, too; the others, which it does not tell, and the records after it will be used for
    /// others.
    fn confirm(&self, hash: u64) -> Result<()> {
        let shared = &*self.shared;
        let _lock = shared.write(hash);
        let (mut steps, mut next) = (LinkSteps::default(), self.tree.get(hash)?);
        while let Some(offset) = next {
            let record = shared.head(&mut steps, hash, offset).and_then(|record| {
                let was_in_doubt = shared.slabs.confirm(&record)?;
                Ok((record, was_in_doubt))
            });
            match record {
                Ok((record, was_in_doubt)) => {
                    if was_in_doubt {
                        self.count(record.bytes(), record.size(), record.expires);
                    }
                    next = record.next;
                }
                Err(reason) => {
                    tracing::warn!(error = %shared.damaged(offset, reason), "the item is lost");
                    shared.slabs.confirm_first(offset);
                    next = None;
                }
            }
        }
        Ok(())
    }
}
