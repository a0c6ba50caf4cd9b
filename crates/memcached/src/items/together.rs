//! Several changes in one commit: what a client has sent together becomes visible and durable together, with
//! one fence. Where the storage is not [atomic](crate::storage::ItemStorage::is_atomic), the changes of a
//! commit are made one after another, and share what the storage lets them share.
//!
//! Such a commit holds the locks of all its keys. Locks are taken in ascending order, and whoever holds the
//! lock of a single key waits for no other one, so nobody waits in a circle.

use std::collections::HashSet;
use std::slice;
use std::sync::MutexGuard;

use super::change::{Change, ChangeOutcome, Decision, Effect};
use super::staged::StagedChanges;
use super::{Items, shard};
use crate::error::Result;
use crate::fault::{MemcachedFault, injected};

/// Most changes of a commit, and bytes of items from which on it gets no other one. Their keys are locked.
const MAX_CHANGES: usize = 128;
const MAX_BYTES: u64 = 256 << 10;

impl Items {
    /// Makes changes as if one after the other. Those of which none depends on one before it share a commit.
    pub(crate) fn apply(&self, changes: &[Change<'_>]) -> Vec<Result<ChangeOutcome>> {
        let mut outcomes = Vec::with_capacity(changes.len());
        while let Some(rest) = changes.get(outcomes.len()..).filter(|rest| !rest.is_empty()) {
            let run = if injected(MemcachedFault::CommitApart) {
                &rest[..1]
            } else {
                &rest[..independent(&rest[..rest.len().min(MAX_CHANGES)])]
            };
            match self.commit_together(run) {
                Ok(done) => outcomes.extend(done),
                Err(error) if run.len() == 1 => outcomes.push(Err(error)),
                // Where there is no room for all, there may be for some.
                Err(_) => outcomes.extend(run.iter().flat_map(|change| self.commit_alone(change))),
            }
        }
        outcomes
    }

    /// Makes one change.
    pub(super) fn commit_alone(&self, change: &Change<'_>) -> Vec<Result<ChangeOutcome>> {
        self.commit_together(slice::from_ref(change))
            .unwrap_or_else(|error| vec![Err(error)])
    }

    /// Makes changes in one commit, of which none depends on one before it. Returns the outcomes of one or
    /// more of them: the later ones were not begun.
    ///
    /// # Errors
    /// That of the commit: nothing was changed.
    fn commit_together(&self, changes: &[Change<'_>]) -> Result<Vec<Result<ChangeOutcome>>> {
        let generation = self.generation()?;
        let _locks = self.lock_keys(changes);
        let mut decisions = Vec::with_capacity(changes.len());
        let mut waiting = 0;
        for change in changes {
            if waiting >= MAX_BYTES {
                break;
            }
            let decision = self.decide(&**generation, change, waiting);
            if let Ok(Decision {
                effect: Some(Effect::Put(item)),
                ..
            }) = &decision
            {
                waiting += self.storage.footprint(change.key().len(), item.bytes());
            }
            decisions.push(decision);
        }
        let mut staged = StagedChanges::default();
        for (command, (change, decision)) in changes.iter().zip(&decisions).enumerate() {
            if let Ok(Decision {
                effect: Some(effect), ..
            }) = decision
            {
                self.stage(command, change.key(), effect, &mut staged);
            }
        }
        let mut failures = self.commit(&**generation, &staged)?;
        let outcomes = changes.iter().zip(decisions).enumerate();
        let outcomes = outcomes.map(|(command, (change, decision))| {
            if let Some(error) = failures.remove(&command) {
                return Err(error);
            }
            let Decision { effect, mut outcome } = decision?;
            self.conclude(change, effect.as_ref(), &mut outcome);
            Ok(outcome)
        });
        Ok(outcomes.collect())
    }

    /// Locks the shards of the keys of changes.
    fn lock_keys(&self, changes: &[Change<'_>]) -> Vec<MutexGuard<'_, ()>> {
        if let [change] = changes {
            return vec![self.lock(change.key())];
        }
        let mut shards: Vec<usize> = changes.iter().map(|change| shard(change.key())).collect();
        shards.sort_unstable();
        shards.dedup();
        shards.into_iter().map(|shard| self.lock_shard(shard)).collect()
    }
}

/// Returns the number of changes at the beginning of which none depends on one before it.
fn independent(changes: &[Change<'_>]) -> usize {
    if changes.len() == 1 {
        return 1;
    }
    let mut changed = HashSet::new();
    let dependent = changes
        .iter()
        .position(|change| !changed.insert(change.key()) && change.reads_old());
    dependent.unwrap_or(changes.len())
}
