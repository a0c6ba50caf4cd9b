//! Commands that may change an item: each decides, by the item that is there, what happens to it.
//!
//! A decision changes nothing. Its effect is [committed](super::together), alone or with those of other
//! commands, and the command is concluded afterwards.

use std::sync::Arc;

use super::{Arithmetic, Calculated, Found, Items, Lookup, Removal, RemoveOutcome, Write, WriteOutcome};
use crate::error::Result;
use crate::expiry::has_passed;
use crate::item::Item;
use crate::storage::ItemGeneration;

/// A command on the item of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    Write(Write<'a>),
    Remove { key: &'a [u8], removal: Removal },
    Calculate { key: &'a [u8], arithmetic: Arithmetic },
    Find { key: &'a [u8], lookup: Lookup },
}

/// The outcome of a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChangeOutcome {
    Write(WriteOutcome),
    Remove(RemoveOutcome),
    Calculate(Calculated),
    Find(Option<Found>),
}

impl ChangeOutcome {
    /// Returns the item that a lookup has found.
    pub(crate) fn into_found(self) -> Option<Found> {
        match self {
            ChangeOutcome::Find(found) => found,
            _ => None,
        }
    }
}

/// The effect of a commit on the item of a key.
#[derive(Debug)]
pub(super) enum Effect {
    /// It is replaced by this one, which is encoded.
    Put(Arc<Item>),
    Delete,
    /// It leaves for another item. No command decides that.
    Evict {
        had_expired: bool,
    },
}

/// The effect of a change, and its outcome once that is committed.
#[derive(Debug)]
pub(super) struct Decision {
    /// `None` if the item stays as it is.
    pub(super) effect: Option<Effect>,
    pub(super) outcome: ChangeOutcome,
}

impl Decision {
    /// Returns the decision to change nothing.
    pub(super) fn keep(outcome: ChangeOutcome) -> Decision {
        Decision {
            effect: None,
            outcome,
        }
    }

    /// Returns the decision to store an item.
    pub(super) fn put(mut item: Item, outcome: ChangeOutcome) -> Decision {
        item.encode();
        Decision {
            effect: Some(Effect::Put(Arc::new(item))),
            outcome,
        }
    }
}

impl Change<'_> {
    pub(super) fn key(&self) -> &[u8] {
        match self {
            Change::Write(write) => write.key,
            Change::Remove { key, .. } | Change::Calculate { key, .. } | Change::Find { key, .. } => key,
        }
    }

    /// Returns true if the outcome depends on the item that is there.
    pub(super) fn reads_old(&self) -> bool {
        match self {
            Change::Write(write) => write.reads_old(),
            _ => true,
        }
    }
}

impl Items {
    /// Decides on a change. Items of `waiting` bytes wait for the same commit. The caller holds the lock of
    /// the key until then.
    pub(super) fn decide(
        &self,
        generation: &dyn ItemGeneration,
        change: &Change<'_>,
        waiting: u64,
    ) -> Result<Decision> {
        match change {
            Change::Write(write) => self.decide_write(generation, write, waiting),
            Change::Remove { key, removal } => self.decide_removal(generation, key, removal),
            Change::Calculate { key, arithmetic } => self.decide_arithmetic(generation, key, arithmetic),
            Change::Find { key, lookup } => self.decide_lookup(generation, key, lookup),
        }
    }

    /// Notes that a change was committed, after those before it.
    pub(super) fn conclude(&self, change: &Change<'_>, effect: Option<&Effect>, outcome: &mut ChangeOutcome) {
        let is_gone = match effect {
            None => false,
            Some(Effect::Put(item)) => has_passed(item.expires, self.now()),
            Some(Effect::Delete | Effect::Evict { .. }) => true,
        };
        if is_gone {
            self.accesses.forget(change.key());
        }
        match (change, outcome) {
            (Change::Write(write), ChangeOutcome::Write(outcome)) => self.conclude_write(write, *outcome),
            (Change::Calculate { key, arithmetic }, ChangeOutcome::Calculate(calculated)) => {
                self.conclude_arithmetic(key, arithmetic, *calculated);
            }
            (Change::Remove { key, removal }, ChangeOutcome::Remove(RemoveOutcome::Removed))
                if removal.remove_value =>
            {
                self.accesses.stored(key, self.now());
            }
            (Change::Find { key, lookup }, ChangeOutcome::Find(Some(found))) => {
                self.note_use(key, lookup, found);
            }
            _ => {}
        }
    }
}
