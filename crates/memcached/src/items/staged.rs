//! Changes of items that wait for their commit.
//!
//! With an item go those that leave for it, and the changes that a client has sent together with it. If the
//! storage is atomic, a commit is one call of it that makes all changes or none; otherwise they are made in
//! their order, and one that fails fails its command alone.
//!
//! Invariant: each key is marked as being changed in the [hot items](super::hot) from before the commit until
//! after it, when its copy is replaced or removed. The caller holds the locks of all keys but those that
//! leave.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Items;
use super::change::Effect;
use crate::error::{MemcachedError, Result};
use crate::eviction::LeavingItem;
use crate::expiry::has_passed;
use crate::fault::{MemcachedFault, injected};
use crate::storage::{ItemChange, ItemGeneration};

/// Changes in the order in which they are made.
#[derive(Debug, Default)]
pub(super) struct StagedChanges<'a>(Vec<StagedChange<'a>>);

#[derive(Debug)]
pub(super) struct StagedChange<'a> {
    /// The number of its command in the commit.
    command: usize,
    key: Cow<'a, [u8]>,
    effect: Effect,
}

/// The commands of a commit that have failed, with their errors.
pub(super) type CommitFailures = BTreeMap<usize, MemcachedError>;

impl StagedChange<'_> {
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn is_eviction(&self) -> bool {
        matches!(self.effect, Effect::Evict { .. })
    }

    fn in_storage(&self) -> ItemChange<'_> {
        let key = self.key();
        match &self.effect {
            Effect::Put(item) => ItemChange::Put {
                key,
                value: item.encoded(),
                expires: item.expires,
            },
            Effect::Delete | Effect::Evict { .. } => ItemChange::Delete { key },
        }
    }
}

impl StagedChanges<'_> {
    /// Returns changes by which items leave.
    pub(super) fn of_evictions(items: Vec<LeavingItem>) -> StagedChanges<'static> {
        StagedChanges(evictions(0, items).collect())
    }
}

fn evictions<'a>(command: usize, items: Vec<LeavingItem>) -> impl Iterator<Item = StagedChange<'a>> {
    items.into_iter().map(move |item| StagedChange {
        command,
        key: Cow::Owned(item.key.into_vec()),
        effect: Effect::Evict {
            had_expired: item.has_expired,
        },
    })
}

impl Items {
    /// Adds the changes for an effect of a command. An item that has expired is removed instead of being
    /// stored. The caller holds the lock of the key until the commit.
    pub(super) fn stage<'a>(
        &self,
        command: usize,
        key: &'a [u8],
        effect: &Effect,
        staged: &mut StagedChanges<'a>,
    ) {
        let mut push = |effect| {
            let key = Cow::Borrowed(key);
            staged.0.push(StagedChange { command, key, effect });
        };
        match effect {
            Effect::Put(item) if !has_passed(item.expires, self.now()) => {
                push(Effect::Put(Arc::clone(item)));
                if let Some(evictor) = &self.evictor {
                    let bytes = self.storage.footprint(key.len(), item.bytes());
                    let leaving = evictor.stored(key, bytes, item.expires, self.now());
                    staged.0.extend(evictions(command, leaving));
                }
            }
            Effect::Put(_) | Effect::Delete | Effect::Evict { .. } => {
                if let Some(evictor) = &self.evictor {
                    evictor.removed(key);
                }
                push(Effect::Delete);
            }
        }
    }

    /// Makes the changes. Copies of hot items follow. Returns the commands that have failed.
    ///
    /// # Errors
    /// That of an atomic storage: nothing was changed. Copies of the keys are gone then.
    pub(super) fn commit(
        &self,
        generation: &dyn ItemGeneration,
        staged: &StagedChanges<'_>,
    ) -> Result<CommitFailures> {
        let StagedChanges(changes) = staged;
        if changes.is_empty() {
            return Ok(CommitFailures::new());
        }
        let marks: Vec<_> = changes
            .iter()
            .map(|change| self.begin_change(change.key()))
            .collect();
        let (mut failures, mut missing) = (CommitFailures::new(), Vec::new());
        if !self.storage.is_atomic() {
            (failures, missing) = commit_in_order(generation, changes);
        } else if let Err(error) = commit_at_once(generation, changes) {
            self.reconcile(generation, &changes.iter().collect::<Vec<_>>());
            return Err(error);
        }
        let mut evicted = 0;
        let mut not_made = missing.iter().copied().peekable();
        for (at, (change, mark)) in changes.iter().zip(marks).enumerate() {
            if not_made.next_if_eq(&at).is_some() {
                continue;
            }
            match &change.effect {
                Effect::Put(item) => Items::end_change(mark, item),
                Effect::Evict { had_expired } => {
                    self.accesses.forget(change.key());
                    evicted += u64::from(!had_expired);
                }
                Effect::Delete => {}
            }
        }
        self.counters.evictions.add(evicted);
        if !missing.is_empty() {
            let missing: Vec<_> = missing.iter().map(|at| &changes[*at]).collect();
            self.reconcile(generation, &missing);
        }
        Ok(failures)
    }
}

/// Makes all changes or none.
fn commit_at_once(generation: &dyn ItemGeneration, changes: &[StagedChange<'_>]) -> Result<()> {
    let write = |changes: &mut dyn Iterator<Item = &StagedChange<'_>>| {
        generation.write(&changes.map(StagedChange::in_storage).collect::<Vec<_>>())
    };
    if injected(MemcachedFault::EvictApart) {
        write(&mut changes.iter().filter(|change| change.is_eviction()))?;
        return write(&mut changes.iter().filter(|change| !change.is_eviction()));
    }
    write(&mut changes.iter())
}

/// Makes changes in their order. Returns the commands that have failed, and in ascending order the positions
/// of the changes that were not made: those of such commands from the first failure on, and evictions that
/// have failed.
fn commit_in_order(
    generation: &dyn ItemGeneration,
    changes: &[StagedChange<'_>],
) -> (CommitFailures, Vec<usize>) {
    let in_storage: Vec<_> = changes.iter().map(StagedChange::in_storage).collect();
    let (mut failures, mut missing) = (CommitFailures::new(), Vec::new());
    let mut at = 0;
    while at < changes.len() {
        let (made, result) = generation.write_in_order(&in_storage[at..]);
        at += made;
        let (Err(error), Some(failed)) = (result, changes.get(at)) else {
            break;
        };
        if failed.is_eviction() {
            tracing::debug!(%error, "an item leaves later");
            missing.push(at);
            at += 1;
            continue;
        }
        let behind = changes[at..]
            .iter()
            .position(|change| change.command != failed.command);
        let next = behind.map_or(changes.len(), |behind| at + behind);
        missing.extend(at..next);
        failures.insert(failed.command, error);
        at = next;
    }
    (failures, missing)
}
