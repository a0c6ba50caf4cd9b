//! Storing items.

use super::change::{Change, ChangeOutcome, Decision};
use super::{Items, Removal};
use crate::error::Result;
use crate::expiry::expires_at;
use crate::item::Item;
use crate::protocol::StoreMode;
use crate::storage::ItemGeneration;

/// A value to store. Times are as clients send them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) mode: StoreMode,
    pub(crate) client_flags: u32,
    pub(crate) exptime: i64,
    /// The cas value that the item must have.
    pub(crate) cas: Option<u64>,
    /// The cas value that it gets.
    pub(crate) new_cas: Option<u64>,
    /// Stores a value with an older cas value too, and marks it stale.
    pub(crate) invalidate: bool,
    /// Creates the item to which data is appended or prepended, with this time of expiry.
    pub(crate) vivify: Option<i64>,
    pub(crate) data: &'a [u8],
    /// Most bytes of data that the item may have.
    pub(crate) most: u64,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// Stored with this cas value and this size of the data.
    Stored { cas: u64, size: u64 },
    /// The item is there, or not there, against what the mode wants, or would become too large by what is
    /// added to it.
    NotStored,
    /// The item has another cas value.
    Exists,
    /// There is no item to compare the cas value with.
    NotFound,
    /// The item would be larger than an item may be.
    TooLarge,
    /// The pool would be larger than it may be, and no item makes room.
    NoRoom,
}

impl Write<'_> {
    /// Returns true if the outcome depends on the item that is there.
    pub(super) fn reads_old(&self) -> bool {
        self.mode != StoreMode::Set || self.cas.is_some()
    }
}

impl Items {
    /// Decides on a write. Items of `waiting` bytes wait for the same commit.
    pub(super) fn decide_write(
        &self,
        generation: &dyn ItemGeneration,
        write: &Write<'_>,
        waiting: u64,
    ) -> Result<Decision> {
        let refused = |outcome| Ok(Decision::keep(ChangeOutcome::Write(outcome)));
        let old = if write.reads_old() {
            self.load(generation, write.key)?
        } else {
            None
        };
        let mut item = match self.changed(write, old, self.now()) {
            Ok(item) => item,
            Err(outcome) => return refused(outcome),
        };
        let size = item.data().len() as u64;
        if size > write.most {
            return refused(match write.mode {
                // As in memcached, which cannot allocate the longer item.
                StoreMode::Append | StoreMode::Prepend => WriteOutcome::NotStored,
                StoreMode::Set | StoreMode::Add | StoreMode::Replace => WriteOutcome::TooLarge,
            });
        }
        if self.is_full(generation, waiting + size) {
            return refused(WriteOutcome::NoRoom);
        }
        item.cas = write.new_cas.map_or_else(|| self.cas.next(), Ok)?;
        let stored = WriteOutcome::Stored { cas: item.cas, size };
        Ok(Decision::put(item, ChangeOutcome::Write(stored)))
    }

    /// Notes the outcome of a write that was committed.
    pub(super) fn conclude_write(&self, write: &Write<'_>, outcome: WriteOutcome) {
        let counters = &self.counters;
        if let WriteOutcome::Stored { .. } = outcome {
            self.accesses.stored(write.key, self.now());
            counters.total_items.add(1);
        }
        if write.cas.is_none() || !matches!(write.mode, StoreMode::Set | StoreMode::Replace) {
            return;
        }
        match outcome {
            WriteOutcome::Stored { .. } => counters.cas_hits.add(1),
            WriteOutcome::Exists => counters.cas_badval.add(1),
            WriteOutcome::NotFound => counters.cas_misses.add(1),
            WriteOutcome::NotStored | WriteOutcome::TooLarge | WriteOutcome::NoRoom => {}
        }
    }

    /// Returns the item as it is to be stored, or why it is not.
    fn changed(
        &self,
        write: &Write<'_>,
        old: Option<Item>,
        now: u64,
    ) -> std::result::Result<Item, WriteOutcome> {
        let fresh = |exptime| Item::new(write.client_flags, expires_at(exptime, now), write.data);
        let Some(mut old) = old else {
            return match (write.mode, write.vivify) {
                (StoreMode::Set | StoreMode::Replace, _) if write.cas.is_some() => {
                    Err(WriteOutcome::NotFound)
                }
                (StoreMode::Set | StoreMode::Add, _) => Ok(fresh(write.exptime)),
                (StoreMode::Append | StoreMode::Prepend, Some(exptime)) => Ok(fresh(exptime)),
                _ => Err(WriteOutcome::NotStored),
            };
        };
        // 0 stands for any cas value, except where that of an item has to match.
        let is_any = |cas| cas == 0 && !matches!(write.mode, StoreMode::Set | StoreMode::Replace);
        let matches = write.cas.is_none_or(|cas| cas == old.cas || is_any(cas));
        match write.mode {
            StoreMode::Add => {
                // It is as if it had been stored now, but for a hit.
                self.accesses.renew(write.key, now);
                Err(WriteOutcome::NotStored)
            }
            StoreMode::Append | StoreMode::Prepend if matches => {
                match write.mode {
                    StoreMode::Append => old.append(write.data),
                    _ => old.prepend(write.data),
                }
                (old.is_stale, old.token_sent) = (false, false);
                Ok(old)
            }
            StoreMode::Set | StoreMode::Replace if matches => Ok(fresh(write.exptime)),
            StoreMode::Set | StoreMode::Replace
                if write.invalidate && write.cas.is_some_and(|cas| cas < old.cas) =>
            {
                let mut item = fresh(write.exptime);
                (item.expires, item.is_stale, item.token_sent) = (old.expires, true, old.token_sent);
                Ok(item)
            }
            _ => Err(WriteOutcome::Exists),
        }
    }

    /// Removes an item whose new value could not be stored, so that no client reads the old one.
    pub(crate) fn drop_outdated(&self, key: &[u8]) -> Result<()> {
        let removal = Removal::default();
        let outcomes = self.commit_alone(&Change::Remove { key, removal });
        outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
    }
}
