//! The pairs of one step of a scan: [`ScannedPairs`].

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use crate::error::Result;
use crate::key_range::KeyRange;
use crate::record::RecordRef;
use crate::record_arena::{RecordArena, RecordSpan};
use crate::scan::{Direction, NewestRecord, StepEnd, StepSize, StepSpace};
use crate::state::{StoreState, StoreTrees, StoresState};
use crate::tree::Damage;

/// The pairs of a step, in the order of the scan, that have not been taken. Filled again and again, it
/// allocates only while steps grow.
#[derive(Debug, Default)]
pub(crate) struct ScannedPairs {
    pub(crate) space: StepSpace,
    pub(crate) pairs: VecDeque<RecordSpan>,
}

impl ScannedPairs {
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Takes the pair that the scan found first.
    #[inline]
    pub(crate) fn take_first(&mut self) -> Option<RecordSpan> {
        self.pairs.pop_front()
    }

    /// Takes the pair that the scan found last.
    #[inline]
    pub(crate) fn take_last(&mut self) -> Option<RecordSpan> {
        self.pairs.pop_back()
    }

    /// Returns the bytes of a pair that was taken since the last step.
    #[inline]
    pub(crate) fn get(&self, range: &Range<usize>) -> &[u8] {
        self.space.arena.get(range)
    }
}

impl StoresState {
    /// Replaces `found` by the pairs of a part of a range as of a commit: the first part, or the last part in
    /// descending order.
    pub(crate) fn scan_step(
        &self,
        store: &StoreState,
        range: &KeyRange,
        commit: u64,
        direction: Direction,
        size: StepSize,
        found: &mut ScannedPairs,
    ) -> Result<StepEnd> {
        self.reading(commit, || {
            store.is_one_of(self)?;
            if !store.is_seen_at(commit) {
                found.pairs.clear();
                return Ok(StepEnd::Range);
            }
            let end = self.find_pairs(&store.read(), range, commit, direction, size, found);
            end.map_err(|damage| {
                found.pairs.clear();
                self.damaged(damage)
            })
        })
    }

    fn find_pairs(
        &self,
        trees: &StoreTrees,
        range: &KeyRange,
        commit: u64,
        direction: Direction,
        size: StepSize,
        found: &mut ScannedPairs,
    ) -> Result<StepEnd, Damage> {
        found.pairs.clear();
        if !trees.deleted.is_empty() {
            return self.find_unhidden(trees, range, commit, direction, size, found);
        }
        let ScannedPairs { space, pairs } = found;
        trees.step(self, range, direction, size, space, |arena, newest| {
            if let Some(pair) = self.pair_at(trees, newest, commit, arena)? {
                pairs.push_back(pair);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Loads the version of a key of a store that a snapshot of a commit sees, with its whole value. `None`
    /// if it is a deletion, has expired, or its range is deleted.
    #[inline]
    pub(crate) fn pair_at(
        &self,
        trees: &StoreTrees,
        newest: NewestRecord<'_>,
        commit: u64,
        arena: &mut RecordArena,
    ) -> Result<Option<RecordSpan>, Damage> {
        let (version, mut span) = match newest {
            NewestRecord::OfLeaf(record, span) if record.commit() <= commit => (record, span),
            NewestRecord::OfLeaf(record, newer) => {
                let Some(version) = self.version_at(record, commit)? else {
                    return Ok(None);
                };
                let span = self.load_version(&version, arena)?;
                if version.head.store.get() != trees.tree.store
                    || arena.get(&span.key) != arena.get(&newer.key)
                {
                    return Err(Damage::version(version.offset));
                }
                (version, span)
            }
            NewestRecord::OfTable(key, record) => {
                let Some(version) = self.version_at(record, commit)? else {
                    return Ok(None);
                };
                // The table has the key, so that the value of a hidden version need not be read.
                if trees.hiding(key, &version, commit).is_some() {
                    return Ok(None);
                }
                let span = self.load_version(&version, arena)?;
                if version.head.store.get() != trees.tree.store || arena.get(&span.key) != key {
                    return Err(Damage::version(version.offset));
                }
                (version, span)
            }
        };
        let is_hidden = trees.hiding(arena.get(&span.key), &version, commit).is_some();
        if is_hidden || self.has_no_value(&version, span.expires) {
            return Ok(None);
        }
        if version.is_chunked() {
            let (key, list) = (arena.get(&span.key).to_vec(), arena.get(&span.value).to_vec());
            span.value = self.load_chunks(&version, &key, &list, arena)?;
        }
        Ok(Some(span))
    }

    fn load_version(&self, version: &RecordRef, arena: &mut RecordArena) -> Result<RecordSpan, Damage> {
        let span = arena.load(self.medium(), version);
        span.ok_or(Damage::record(version.offset))
    }
}
