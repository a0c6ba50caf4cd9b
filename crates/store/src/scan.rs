//! Scans of ranges of keys, in steps.
//!
//! A step holds the trees of the store, and merges the entries of one leaf with those of the memtables in its
//! range until the step is full: what it costs does not depend on the size of a memtable. One step reads a
//! consistent state. A scan of several steps stays on one commit because each step follows version links to
//! that commit.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow, Range};

use crate::error::Result;
use crate::key_cut::KeyCut;
use crate::key_range::KeyRange;
use crate::memtable::MemEntry;
use crate::record::RecordRef;
use crate::record_arena::{RecordArena, RecordSpan};
use crate::scan_cursors::{LeafCursor, LoadedRecord, TableCursors};
use crate::state::{StoreState, StoreTrees, StoresState};
use crate::tree::{Damage, LeafRange};

/// A direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// Most entries that a step reads.
pub(crate) const STEP_ENTRIES: usize = 256;

/// Bytes for each entry of a step, on average, at which a step ends early.
const BYTES_PER_ENTRY: usize = 4 << 10;

/// The size of a step: the number of entries after which it ends. Those of a leaf with the same eight bytes
/// after the leaf's prefix are not divided. A step also ends after 4 KiB of records per entry, so that the
/// values of the largest step occupy 1 MiB and the last one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepSize(pub(crate) usize);

impl StepSize {
    /// The largest step.
    pub(crate) const MAX: Self = Self(STEP_ENTRIES);

    fn bytes(self) -> usize {
        self.0 * BYTES_PER_ENTRY
    }
}

/// Buffers that a scan reuses from step to step.
#[derive(Debug, Default)]
pub(crate) struct StepSpace {
    /// Keys and values that were found.
    pub(crate) arena: RecordArena,
    loaded: VecDeque<LoadedRecord>,
    /// Number of entries that all steps have read.
    #[cfg(test)]
    pub(crate) entries: usize,
}

/// The newest record of a key, whose key is in a memtable or in the arena of the step.
pub(crate) enum NewestRecord<'a> {
    OfTable(&'a [u8], RecordRef),
    /// From a leaf, with the record contents that were loaded to compare the key.
    OfLeaf(RecordRef, RecordSpan),
}

/// The end of a step.
pub(crate) enum StepEnd {
    /// A key; there may be more after it.
    After(Vec<u8>),
    /// The end of a leaf, which is the first key of the leaf that is above.
    Leaf(Vec<u8>),
    /// The end of the range.
    Range,
}

impl StepEnd {
    /// Returns the position up to which the step has read `range`.
    pub(crate) fn place(&self, range: &KeyRange, direction: Direction) -> KeyCut {
        match self {
            Self::After(key) => KeyCut::past(key, direction),
            Self::Leaf(key) => KeyCut::before(key),
            Self::Range => KeyCut::far_end(range, direction),
        }
    }

    /// Returns the unread rest of the range; `None` if it is empty.
    pub(crate) fn rest(self, range: KeyRange, direction: Direction) -> Option<KeyRange> {
        let bound = match (self, direction) {
            (Self::Range, _) => return None,
            (Self::After(key), _) | (Self::Leaf(key), Direction::Backward) => Bound::Excluded(key),
            (Self::Leaf(key), Direction::Forward) => Bound::Included(key),
        };
        Some(match direction {
            Direction::Forward => KeyRange { from: bound, ..range },
            Direction::Backward => KeyRange { to: bound, ..range },
        })
    }
}

/// The last key that a step has read.
enum LastKey<'a> {
    OfTable(&'a [u8]),
    OfLeaf(Range<usize>),
}

impl StoreTrees {
    /// Calls `each` with the newest records of the first part of a range, in ascending order, or of the last
    /// part in descending order if `direction` is backward. The step ends if it returns `Break`. The arena is
    /// for `each` to use, too.
    pub(crate) fn step<'a>(
        &'a self,
        state: &StoresState,
        range: &KeyRange,
        direction: Direction,
        size: StepSize,
        space: &mut StepSpace,
        mut each: impl FnMut(&mut RecordArena, NewestRecord<'a>) -> Result<ControlFlow<()>, Damage>,
    ) -> Result<StepEnd, Damage> {
        let medium = state.medium();
        let StepSpace {
            arena,
            loaded,
            #[cfg(test)]
            entries,
        } = space;
        arena.clear();
        if range.is_empty() {
            return Ok(StepEnd::Range);
        }
        let leaf = self.first_leaf(state, range, direction)?;
        let end = leaf.as_ref().and_then(|leaf| match direction {
            Direction::Forward => leaf.to.as_deref(),
            Direction::Backward => leaf.from.as_deref(),
        });
        let parts = end.and_then(|key| Some((key, range.split_at(key)?)));
        let here = match (parts, direction) {
            (Some((_, (left, _))), Direction::Forward) => left,
            (Some((_, (_, right))), Direction::Backward) => right,
            (None, _) => range.bounds(),
        };
        let mut tables = TableCursors::new(&self.active, self.frozen.as_deref(), here, direction);
        let leaf = leaf.as_ref().map(|leaf| leaf.place(self.tree.store));
        let mut leaf = LeafCursor::new(medium, leaf, here, direction, loaded)?;
        let mut last = None;
        for count in 0.. {
            let is_within_slice = matches!(last, Some(LastKey::OfLeaf(_))) && leaf.is_within_slice();
            if (count >= size.0 && !is_within_slice) || arena.used() >= size.bytes() {
                break;
            }
            let table_key = tables.peek();
            let leaf_key = leaf.peek(medium, arena)?.map(|loaded| loaded.span.key.clone());
            // A key of a memtable replaces that of the leaf.
            let of_table = table_key.filter(|table_key| {
                let leaf_key = leaf_key.as_ref().map(|key| arena.get(key));
                leaf_key.is_none_or(|leaf_key| direction.compare(table_key, leaf_key).is_le())
            });
            let mut flow = ControlFlow::Continue(());
            if let Some(key) = of_table {
                if leaf_key.is_some_and(|leaf_key| arena.get(&leaf_key) == key) {
                    leaf.take();
                }
                last = Some(LastKey::OfTable(key));
                if let Some(MemEntry::Record(offset)) = tables.take(key) {
                    let record = RecordRef::load(medium, offset).ok_or(Damage::record(offset))?;
                    flow = each(arena, NewestRecord::OfTable(key, record))?;
                }
            } else if let Some(LoadedRecord { record, span }) = leaf.take() {
                last = Some(LastKey::OfLeaf(span.key.clone()));
                flow = each(arena, NewestRecord::OfLeaf(record, span))?;
            } else {
                return Ok(parts.map_or(StepEnd::Range, |(key, _)| StepEnd::Leaf(key.to_vec())));
            }
            #[cfg(test)]
            {
                *entries += 1;
            }
            if flow.is_break() {
                break;
            }
        }
        Ok(match last {
            Some(LastKey::OfTable(key)) => StepEnd::After(key.to_vec()),
            Some(LastKey::OfLeaf(key)) => StepEnd::After(arena.get(&key).to_vec()),
            None => StepEnd::Range,
        })
    }

    /// Returns the leaf where a scan of a range begins.
    fn first_leaf(
        &self,
        state: &StoresState,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Option<LeafRange>, Damage> {
        let pages = state.pages();
        match (direction, &range.to) {
            (Direction::Forward, _) => self.tree.leaf_of(&pages, range.first()),
            (Direction::Backward, Bound::Included(to)) => self.tree.leaf_of(&pages, Some(to)),
            (Direction::Backward, Bound::Excluded(to)) => self.tree.leaf_below(&pages, Some(to)),
            (Direction::Backward, Bound::Unbounded) => self.tree.leaf_below(&pages, None),
        }
    }
}

impl StoresState {
    /// Calls `each` with the newest record of each key in a range, in ascending order.
    pub(crate) fn for_each_newest(
        &self,
        store: &StoreState,
        range: &KeyRange,
        mut each: impl FnMut(&[u8], RecordRef),
    ) -> Result<()> {
        let mut space = StepSpace::default();
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            let trees = store.read();
            let forward = Direction::Forward;
            let end = trees.step(
                self,
                &range,
                forward,
                StepSize::MAX,
                &mut space,
                |arena, newest| {
                    match newest {
                        NewestRecord::OfTable(key, record) => each(key, record),
                        NewestRecord::OfLeaf(record, span) => each(arena.get(&span.key), record),
                    }
                    Ok(ControlFlow::Continue(()))
                },
            );
            drop(trees);
            rest = end.map_err(|damage| self.damaged(damage))?.rest(range, forward);
        }
        Ok(())
    }

    /// Returns the live keys in a range; `None` if it has more than [`deleted_at_once`] keys, with the
    /// deleted ones that are still in the trees.
    ///
    /// [`deleted_at_once`]: crate::StoresOptions::deleted_at_once
    pub(crate) fn keys_if_few(&self, store: &StoreState, range: &KeyRange) -> Result<Option<Vec<Vec<u8>>>> {
        let (mut keys, mut space) = (Vec::new(), StepSpace::default());
        let max = self.options.deleted_at_once;
        let (mut rest, mut seen) = (Some(range.clone()), 0);
        while let Some(range) = rest {
            let forward = Direction::Forward;
            let size = StepSize(max + 1);
            let end = store
                .read()
                .step(self, &range, forward, size, &mut space, |arena, newest| {
                    seen += 1;
                    let (key, record) = match &newest {
                        NewestRecord::OfTable(key, record) => (*key, record),
                        NewestRecord::OfLeaf(record, span) => (arena.get(&span.key), record),
                    };
                    if !record.is_deleted() {
                        keys.push(key.to_vec());
                    }
                    Ok(ControlFlow::Continue(()))
                });
            rest = end.map_err(|damage| self.damaged(damage))?.rest(range, forward);
            if seen > max {
                return Ok(None);
            }
        }
        Ok(Some(keys))
    }
}
