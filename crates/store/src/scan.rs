//! Scans of ranges of keys, in steps.
//!
//! A step holds the trees of the store, and reads the entries of one leaf and those of the memtables in its
//! range. What it returns is the state of one moment; a scan of several steps sees the state of one commit
//! because each step walks to the versions of that commit.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::error::Result;
use crate::key_range::KeyRange;
use crate::memtable::{MemEntry, MemTable};
use crate::record::RecordRef;
use crate::state::{StoreState, StoreTrees, StoresState};
use crate::tree::{Damage, LeafRange, load_leaf};

/// A direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// The newest records of a part of a range, in ascending order.
pub(crate) struct ScanStep {
    pub(crate) entries: Vec<(Vec<u8>, RecordRef)>,
    /// The rest of the range, if there may be more.
    pub(crate) rest: Option<KeyRange>,
}

/// The pairs of a part of a range, in the order of the scan.
pub(crate) struct ScannedPairs {
    pub(crate) pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The rest of the range, if there may be more.
    pub(crate) rest: Option<KeyRange>,
}

/// Most entries of one step.
const STEP_ENTRIES: usize = 256;

impl StoreTrees {
    /// Returns the newest records of the first part of a range, or of the last part if `direction` is
    /// backward.
    pub(crate) fn step(
        &self,
        state: &StoresState,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<ScanStep, Damage> {
        let medium = state.medium();
        if range.is_empty() {
            return Ok(ScanStep {
                entries: Vec::new(),
                rest: None,
            });
        }
        let leaf = match (direction, &range.to) {
            (Direction::Forward, _) => self.tree.leaf_of(medium, range.first())?,
            (Direction::Backward, Bound::Included(to)) => self.tree.leaf_of(medium, Some(to))?,
            (Direction::Backward, Bound::Excluded(to)) => self.tree.leaf_below(medium, Some(to))?,
            (Direction::Backward, Bound::Unbounded) => self.tree.leaf_below(medium, None)?,
        };
        let (here, rest) = part(leaf.as_ref(), range, direction);
        let mut found = BTreeMap::new();
        if let Some(LeafRange { leaf, .. }) = leaf {
            let leaf = load_leaf(medium, leaf)?;
            leaf.entries()
                .for_each(|(_, _, record)| medium.prefetch_lines(record, 2));
            for (_, _, offset) in leaf.entries() {
                let record = RecordRef::load(medium, offset).ok_or(Damage::record(offset))?;
                let key = record.key(medium);
                if here.contains(&key) {
                    found.insert(key, MemEntry::Record(offset));
                }
            }
        }
        let mut overlay = |table: &MemTable| {
            for (key, entry) in table.range(&here) {
                found.insert(key.to_vec(), entry);
            }
        };
        self.frozen.iter().for_each(|frozen| overlay(frozen));
        overlay(&self.active);
        let mut entries = Vec::with_capacity(found.len());
        for (key, entry) in found {
            if let MemEntry::Record(offset) = entry {
                let record = RecordRef::load(medium, offset).ok_or(Damage::record(offset))?;
                entries.push((key, record));
            }
        }
        Ok(limited(ScanStep { entries, rest }, here, direction))
    }
}

/// Cuts a step that has many entries of the memtables.
fn limited(mut step: ScanStep, here: KeyRange, direction: Direction) -> ScanStep {
    let Some(surplus) = step
        .entries
        .len()
        .checked_sub(STEP_ENTRIES)
        .filter(|surplus| *surplus > 0)
    else {
        return step;
    };
    let whole = step.rest.take().unwrap_or_else(|| here.clone());
    step.rest = Some(match direction {
        Direction::Forward => {
            step.entries.truncate(STEP_ENTRIES);
            KeyRange {
                from: Bound::Excluded(step.entries[STEP_ENTRIES - 1].0.clone()),
                to: whole.to,
            }
        }
        Direction::Backward => {
            step.entries.drain(..surplus);
            KeyRange {
                from: whole.from,
                to: Bound::Excluded(step.entries[0].0.clone()),
            }
        }
    });
    step
}

/// Splits a range at the bound of a leaf: into the part that the leaf has, and the rest.
fn part(leaf: Option<&LeafRange>, range: &KeyRange, direction: Direction) -> (KeyRange, Option<KeyRange>) {
    let bound = leaf.and_then(|leaf| match direction {
        Direction::Forward => leaf.to.as_ref(),
        Direction::Backward => leaf.from.as_ref(),
    });
    match bound.and_then(|bound| range.split_at(bound)) {
        Some((left, right)) if direction == Direction::Forward => (left, Some(right)),
        Some((left, right)) => (right, Some(left)),
        None => (range.clone(), None),
    }
}

impl StoresState {
    /// Calls `each` with the newest record of each key in a range, in ascending order.
    pub(crate) fn for_each_newest(
        &self,
        store: &StoreState,
        range: &KeyRange,
        mut each: impl FnMut(Vec<u8>, RecordRef),
    ) -> Result<()> {
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            let step = store.read().step(self, &range, Direction::Forward);
            let step = step.map_err(|damage| self.damaged(damage))?;
            step.entries
                .into_iter()
                .for_each(|(key, record)| each(key, record));
            rest = step.rest;
        }
        Ok(())
    }

    /// Returns the keys in a range that are not deleted.
    pub(crate) fn keys_in(&self, store: &StoreState, range: &KeyRange) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        self.for_each_newest(store, range, |key, record| {
            if !record.is_deleted() {
                keys.push(key);
            }
        })?;
        Ok(keys)
    }

    /// Returns the newest commit that wrote a key in a range, 0 if there is none.
    pub(crate) fn newest_commit_in(&self, store: &StoreState, range: &KeyRange) -> Result<u64> {
        let mut newest = 0;
        self.for_each_newest(store, range, |_, record| newest = newest.max(record.commit()))?;
        Ok(newest)
    }

    /// Returns the pairs of a part of a range as of a commit. Those of a backward scan descend.
    pub(crate) fn scan_step(
        &self,
        store: &StoreState,
        range: &KeyRange,
        commit: u64,
        direction: Direction,
    ) -> Result<ScannedPairs> {
        store.exists()?;
        let trees = store.read();
        let read = || -> Result<_, Damage> {
            let step = trees.step(self, range, direction)?;
            let mut pairs = Vec::with_capacity(step.entries.len());
            for (key, newest) in step.entries {
                let Some(version) = self.version_at(newest, commit)? else {
                    continue;
                };
                if let Some(contents) = self.contents(&version)? {
                    pairs.push((key, self.value(&version, contents)?));
                }
            }
            if direction == Direction::Backward {
                pairs.reverse();
            }
            Ok(ScannedPairs {
                pairs,
                rest: step.rest,
            })
        };
        read().map_err(|damage| self.damaged(damage))
    }
}
