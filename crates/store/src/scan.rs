//! Scans of ranges of keys, in steps.
//!
//! A step holds the trees of the store, and reads the entries of one leaf and those of the memtables in its
//! range, a limited number of each: what it costs does not depend on the size of a memtable. What it returns
//! is the state of one moment; a scan of several steps sees the state of one commit because each step walks
//! to the versions of that commit.

use std::ops::Bound;

use halocline_media::Medium;

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

/// Most entries that a step takes from the leaf, and from each memtable.
pub(crate) const STEP_ENTRIES: usize = 256;

impl StoreTrees {
    /// Returns the newest records of the first part of a range, or of the last part if `direction` is
    /// backward. Takes about `limit` entries, which is positive, from the leaf and from each memtable.
    pub(crate) fn step(
        &self,
        state: &StoresState,
        range: &KeyRange,
        direction: Direction,
        limit: usize,
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
        let (mut here, mut rest) = part(leaf.as_ref(), range, direction);
        let mut end_at = |here: KeyRange, key: Option<Vec<u8>>| match key {
            Some(key) => {
                let (until, after) = cut(here, range, key, direction);
                rest = Some(after);
                until
            }
            None => here,
        };
        let tables = || self.frozen.as_deref().into_iter().chain([&self.active]);
        for table in tables() {
            let end = table.end_of_step(&here, direction, limit);
            here = end_at(here, end);
        }
        let mut entries = Vec::new();
        if let Some(LeafRange { leaf, .. }) = leaf {
            let end = read_leaf(medium, leaf, &here, direction, limit, &mut entries)?;
            here = end_at(here, end);
        }
        for table in tables() {
            entries = overlaid(medium, entries, table.range(&here))?;
        }
        Ok(ScanStep { entries, rest })
    }
}

/// Merges the entries of a memtable into older ones, both in ascending order.
fn overlaid<'a>(
    medium: &Medium,
    older: Vec<ScannedEntry>,
    newer: impl Iterator<Item = (&'a [u8], MemEntry)>,
) -> Result<Vec<ScannedEntry>, Damage> {
    let mut newer = newer.peekable();
    if newer.peek().is_none() {
        return Ok(older);
    }
    let mut merged = Vec::with_capacity(older.len());
    let mut older = older.into_iter().peekable();
    for (key, entry) in newer {
        while let Some(before) = older.next_if(|old| old.key.as_slice() < key) {
            merged.push(before);
        }
        let _replaced = older.next_if(|old| old.key == key);
        if let MemEntry::Record(offset) = entry {
            merged.push(ScannedEntry {
                key: key.to_vec(),
                record: RecordRef::load(medium, offset).ok_or(Damage::record(offset))?,
                contents: None,
            });
        }
    }
    merged.extend(older);
    Ok(merged)
}

impl MemTable {
    /// Returns the key at which a step ends if the table has more than `limit` entries in its range.
    fn end_of_step(&self, range: &KeyRange, direction: Direction, limit: usize) -> Option<Vec<u8>> {
        let mut entries = self.range(range);
        let (last, more) = match direction {
            Direction::Forward => (entries.nth(limit - 1), entries.next()),
            Direction::Backward => (entries.nth_back(limit - 1), entries.next_back()),
        };
        more?;
        last.map(|(key, _)| key.to_vec())
    }
}

/// Returns the records of a leaf in a range in ascending order, from that end at which the scan is. Returns
/// the last key of the scan, too, if there are others behind it, which are left out once there are `limit`.
fn read_leaf(
    medium: &Medium,
    leaf: u64,
    range: &KeyRange,
    direction: Direction,
    limit: usize,
    found: &mut Vec<ScannedEntry>,
) -> Result<Option<Vec<u8>>, Damage> {
    let leaf = load_leaf(medium, leaf)?;
    let slices = leaf.slices(range);
    let entries = leaf.entries().map(|(_, slice, record)| (slice, record));
    let mut entries: Vec<(u64, u64)> = entries.filter(|(slice, _)| slices.contains(slice)).collect();
    entries.sort_unstable();
    if direction == Direction::Backward {
        entries.reverse();
    }
    let soon = entries.iter().take(limit);
    soon.for_each(|(_, record)| medium.prefetch_lines(*record, 3));
    found.reserve(entries.len().min(limit));
    let mut end = None;
    for same in entries.chunk_by(|one, other| one.0 == other.0) {
        if found.len() >= limit {
            end = found.last().map(|entry| entry.key.clone());
            break;
        }
        let first = found.len();
        for (_, offset) in same {
            let record = RecordRef::load(medium, *offset).ok_or(Damage::record(*offset))?;
            // A damaged key would be missing from its range.
            let contents = record.contents(medium).ok_or(Damage::record(*offset))?;
            if range.contains(contents.key()) {
                found.push(ScannedEntry {
                    key: contents.key().to_vec(),
                    record,
                    contents: Some(contents),
                });
            }
        }
        // The records decide the order of keys with the same slice.
        found[first..].sort_unstable_by(|one, other| match direction {
            Direction::Forward => one.key.cmp(&other.key),
            Direction::Backward => other.key.cmp(&one.key),
        });
    }
    if direction == Direction::Backward {
        found.reverse();
    }
    Ok(end)
}

/// Splits a range behind a key at which a step ends: into the part of the step, and the rest of the range.
fn cut(here: KeyRange, range: &KeyRange, key: Vec<u8>, direction: Direction) -> (KeyRange, KeyRange) {
    let (last, after) = (Bound::Included(key.clone()), Bound::Excluded(key));
    match direction {
        Direction::Forward => (
            KeyRange { to: last, ..here },
            KeyRange {
                from: after,
                to: range.to.clone(),
            },
        ),
        Direction::Backward => (
            KeyRange { from: last, ..here },
            KeyRange {
                from: range.from.clone(),
                to: after,
            },
        ),
    }
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
            let step = store.read().step(self, &range, Direction::Forward, STEP_ENTRIES);
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

    /// Returns the pairs of a part of a range as of a commit: those of about `limit` entries. Those of a
    /// backward scan descend.
    pub(crate) fn scan_step(
        &self,
        store: &StoreState,
        range: &KeyRange,
        commit: u64,
        direction: Direction,
        limit: usize,
    ) -> Result<ScannedPairs> {
        self.reading(commit, || {
            store.is_one_of(self)?;
            let pairs = self.pairs(&store.read(), range, commit, direction, limit);
            pairs.map_err(|damage| self.damaged(damage))
        })
    }

    fn pairs(
        &self,
        trees: &StoreTrees,
        range: &KeyRange,
        commit: u64,
        direction: Direction,
        limit: usize,
    ) -> Result<ScannedPairs, Damage> {
        let step = trees.step(self, range, direction, limit)?;
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
    }
}
