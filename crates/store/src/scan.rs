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
use crate::pair::{StorePair, from_millis};
use crate::record::{RecordContents, RecordRef};
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
    entries: Vec<ScannedEntry>,
    /// The rest of the range, if there may be more.
    pub(crate) rest: Option<KeyRange>,
}

/// The newest record of a key.
struct ScannedEntry {
    key: Vec<u8>,
    record: RecordRef,
    /// Its contents, if they were read for the key.
    contents: Option<RecordContents>,
}

/// The pairs of a part of a range, in the order of the scan.
pub(crate) struct ScannedPairs {
    pub(crate) pairs: Vec<StorePair>,
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
                // A damaged key would be missing from its range.
                let contents = record.contents(medium).ok_or(Damage::record(offset))?;
                if here.contains(contents.key()) {
                    let key = contents.key().to_vec();
                    found.insert(key, Some((record, Some(contents))));
                }
            }
        }
        let mut overlay = |table: &MemTable| -> Result<(), Damage> {
            for (key, entry) in table.range(&here) {
                let record = match entry {
                    MemEntry::Record(offset) => {
                        let record = RecordRef::load(medium, offset).ok_or(Damage::record(offset))?;
                        Some((record, None))
                    }
                    MemEntry::Purged => None,
                };
                found.insert(key.to_vec(), record);
            }
            Ok(())
        };
        self.frozen.iter().try_for_each(|frozen| overlay(frozen))?;
        overlay(&self.active)?;
        let entries = found.into_iter().filter_map(|(key, found)| {
            let (record, contents) = found?;
            Some(ScannedEntry {
                key,
                record,
                contents,
            })
        });
        let entries = entries.collect();
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
                from: Bound::Excluded(step.entries[STEP_ENTRIES - 1].key.clone()),
                to: whole.to,
            }
        }
        Direction::Backward => {
            step.entries.drain(..surplus);
            KeyRange {
                from: whole.from,
                to: Bound::Excluded(step.entries[0].key.clone()),
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
                .for_each(|entry| each(entry.key, entry.record));
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
        store.is_one_of(self)?;
        let trees = store.read();
        let read = || -> Result<_, Damage> {
            let step = trees.step(self, range, direction)?;
            let mut pairs = Vec::with_capacity(step.entries.len());
            for entry in step.entries {
                let Some(version) = self.version_at(entry.record, commit)? else {
                    continue;
                };
                let read = entry.contents.filter(|_| version.offset == entry.record.offset);
                let contents = match read {
                    Some(contents) => self.unless_over(&version, contents),
                    None => self.contents(&version)?,
                };
                if let Some(contents) = contents {
                    pairs.push(StorePair {
                        key: entry.key,
                        expires: contents.expires().map(from_millis),
                        value: self.value(&version, contents)?,
                    });
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
