//! Iteration over ranges of keys: [`Range`].

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use crate::{OrderedIndex, TreeError};

/// Number of entries in the first fetch. Each further fetch is twice as large, up to `MAX_FETCH`.
const FIRST_FETCH: usize = 16;
const MAX_FETCH: usize = 512;

/// A double-ended iterator over the entries of an index in a range of keys, in order. It stays valid
/// during concurrent writes: it holds a key, not a node, and continues from that key when the entries
/// it has fetched, a few hundred at most, are used up.
///
/// After an error it yields nothing more.
#[derive(Debug)]
pub struct Range<'a, I: ?Sized> {
    index: &'a I,
    /// The remaining range of keys, `low..=high`.
    left: Option<(u64, u64)>,
    front: FetchedEntries,
    back: FetchedEntries,
}

#[derive(Debug, Default)]
struct FetchedEntries {
    entries: VecDeque<(u64, u64)>,
    fetches: u32,
}

impl FetchedEntries {
    fn count(&mut self) -> usize {
        let count = (FIRST_FETCH << self.fetches.min(16)).min(MAX_FETCH);
        self.fetches += 1;
        count
    }
}

impl<'a, I: OrderedIndex + ?Sized> Range<'a, I> {
    /// Creates an iterator over the entries of `index` whose keys are in `keys`.
    pub fn new(index: &'a I, keys: impl RangeBounds<u64>) -> Range<'a, I> {
        let low = match keys.start_bound() {
            Bound::Included(key) => Some(*key),
            Bound::Excluded(key) => key.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let high = match keys.end_bound() {
            Bound::Included(key) => Some(*key),
            Bound::Excluded(key) => key.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        Range {
            index,
            left: low.zip(high).filter(|(low, high)| low <= high),
            front: FetchedEntries::default(),
            back: FetchedEntries::default(),
        }
    }

    fn fail(&mut self, error: TreeError) -> Option<Result<(u64, u64), TreeError>> {
        self.left = None;
        Some(Err(error))
    }
}

impl<I: OrderedIndex + ?Sized> Iterator for Range<'_, I> {
    type Item = Result<(u64, u64), TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (low, high) = self.left?;
        if self.front.entries.is_empty() {
            let mut fetched = Vec::new();
            if let Err(error) = self.index.scan(low, self.front.count(), &mut fetched) {
                return self.fail(error);
            }
            self.front.entries = fetched.into();
        }
        let entry = self.front.entries.pop_front().filter(|(key, _)| *key <= high);
        self.left = entry.and_then(|(key, _)| (key < high).then(|| (key + 1, high)));
        entry.map(Ok)
    }
}

impl<I: OrderedIndex + ?Sized> DoubleEndedIterator for Range<'_, I> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (low, high) = self.left?;
        if self.back.entries.is_empty() {
            let mut fetched = Vec::new();
            if let Err(error) = self.index.scan_back(high, self.back.count(), &mut fetched) {
                return self.fail(error);
            }
            self.back.entries = fetched.into();
        }
        let entry = self.back.entries.pop_front().filter(|(key, _)| *key >= low);
        self.left = entry.and_then(|(key, _)| (key > low).then(|| (low, key - 1)));
        entry.map(Ok)
    }
}
