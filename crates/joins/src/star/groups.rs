//! The groups that a join finds, read in batches.

use std::ops::Range;
use std::sync::Arc;

use super::layout::StateLayout;

/// The groups of a join with their aggregates.
#[derive(Debug, Clone)]
pub struct Groups {
    layout: Arc<StateLayout>,
    arenas: Vec<Vec<u64>>,
    ranges: Vec<GroupRange>,
}

/// Records that lie side by side.
#[derive(Debug, Clone)]
pub(super) struct GroupRange {
    pub(super) arena: usize,
    pub(super) words: Range<usize>,
    /// The number of the first group, if the others follow it; else the records have their numbers.
    pub(super) first: Option<u64>,
}

/// A position among the groups of a join, from which on they are read.
#[derive(Debug, Clone)]
pub struct GroupCursor {
    ranges: Range<usize>,
    /// Records of the first range that have been read.
    read: usize,
}

/// Some groups with their aggregates.
#[derive(Debug, Clone)]
pub struct GroupStates {
    layout: Arc<StateLayout>,
    numbers: Vec<u64>,
    words: Vec<u64>,
}

impl Groups {
    pub(super) fn new(layout: &StateLayout, arenas: Vec<Vec<u64>>, ranges: Vec<GroupRange>) -> Groups {
        Groups {
            layout: Arc::new(layout.clone()),
            arenas,
            ranges,
        }
    }

    /// Returns the position at the start of one of `shares` shares of the groups, numbered from 0.
    pub fn cursor(&self, share: usize, shares: usize) -> GroupCursor {
        // Shares consist of whole ranges, so that no group is in two of them.
        let at = |share: usize| self.ranges.len() * share / shares.max(1);
        GroupCursor {
            ranges: at(share)..at(share + 1),
            read: 0,
        }
    }

    /// Returns at most `most` of the groups of a share that have rows, and moves the cursor after them;
    /// `None` after the last.
    pub fn next(&self, cursor: &mut GroupCursor, most: usize) -> Option<GroupStates> {
        let words = self.layout.words;
        let mut states = GroupStates {
            layout: Arc::clone(&self.layout),
            numbers: Vec::new(),
            words: Vec::new(),
        };
        while let Some(range) = self.ranges.get(cursor.ranges.start)
            && !cursor.ranges.is_empty()
            && states.len() < most
        {
            let records = &self.arenas[range.arena][range.words.clone()];
            let records = records.chunks_exact(words).enumerate().skip(cursor.read);
            let mut is_done = true;
            for (at, record) in records {
                if states.len() >= most {
                    is_done = false;
                    break;
                }
                cursor.read = at + 1;
                // An array also has records for numbers without rows.
                if record[0] > 0 {
                    let number = range.first.map(|first| first + at as u64);
                    let number = number.or(self.layout.number(record));
                    states.numbers.push(number.unwrap_or(0));
                    states.words.extend_from_slice(record);
                }
            }
            if is_done {
                cursor.ranges.start += 1;
                cursor.read = 0;
            }
        }
        (!states.is_empty()).then_some(states)
    }

    /// Returns the group of all rows, with or without any: the only one if nothing is grouped by.
    pub fn whole(&self) -> GroupStates {
        let record = self
            .arenas
            .first()
            .and_then(|words| words.get(..self.layout.words));
        GroupStates {
            layout: Arc::clone(&self.layout),
            numbers: vec![0],
            words: record.map_or_else(|| vec![0; self.layout.words], <[u64]>::to_vec),
        }
    }

    /// Returns the groups that have rows.
    pub fn all(&self) -> GroupStates {
        let mut cursor = self.cursor(0, 1);
        self.next(&mut cursor, usize::MAX).unwrap_or_else(|| GroupStates {
            layout: Arc::clone(&self.layout),
            numbers: Vec::new(),
            words: Vec::new(),
        })
    }

    /// Returns the number of bytes of DRAM, untouched pages included.
    pub fn bytes(&self) -> usize {
        self.arenas
            .iter()
            .map(|arena| arena.capacity() * size_of::<u64>())
            .sum()
    }
}

impl GroupStates {
    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns true if there is no group.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the numbers of the groups.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    fn record(&self, position: usize) -> &[u64] {
        &self.words[position * self.layout.words..][..self.layout.words]
    }

    /// Returns the number of rows of the group at a position.
    pub fn rows(&self, position: usize) -> u64 {
        self.record(position)[0]
    }

    /// Returns the sum, minimum or maximum of an aggregate of floats; `None` if all values were NULL.
    /// Undefined for a count and for integers.
    pub fn float(&self, position: usize, aggregate: usize) -> Option<f64> {
        self.layout.float(self.record(position), aggregate)
    }

    /// Returns the sum, minimum or maximum of an aggregate of integers; `None` if all values were NULL.
    /// Undefined for a count and for floats.
    pub fn value(&self, position: usize, aggregate: usize) -> Option<i128> {
        self.layout.value(self.record(position), aggregate)
    }

    /// Returns the number of values of an aggregate that were not NULL.
    pub fn count(&self, position: usize, aggregate: usize) -> u64 {
        self.layout.count(self.record(position), aggregate)
    }
}
