//! The rows an exact match finds.

use crate::Tid;

/// TIDs of the rows that equal a point, ascending; empty if there is none.
///
/// They are read from the index as the iterator advances. Equal tuples are neighbours in the index, so one place and a
/// count describe them.
#[derive(Debug, Clone)]
pub struct Tids<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes from one TID to the next.
    step: usize,
    left: usize,
    mask: u32,
}

impl<'a> Tids<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize, step: usize, count: usize, mask: u32) -> Self {
        Self {
            bytes,
            at,
            step,
            left: count,
            mask,
        }
    }

    pub(crate) fn none() -> Self {
        Self {
            bytes: &[],
            at: 0,
            step: 0,
            left: 0,
            mask: 0,
        }
    }

    /// The lowest TID left, without advancing.
    #[inline]
    pub fn first(&self) -> Option<Tid> {
        self.clone().next()
    }

    /// Whether no row is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl Iterator for Tids<'_> {
    type Item = Tid;

    #[inline]
    fn next(&mut self) -> Option<Tid> {
        if self.left == 0 {
            return None;
        }
        let tid = self.bytes.get(self.at..self.at + 4)?;
        self.left -= 1;
        self.at += self.step;
        Some(u32::from_le_bytes(tid.try_into().ok()?) & self.mask)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Tids<'_> {}

/// What a batch of exact matches finds, point by point.
///
/// Reuse one value for many batches: it keeps its memory.
#[derive(Debug, Clone, Default)]
pub struct Matches {
    pub(crate) tids: Vec<Tid>,
    pub(crate) ends: Vec<usize>,
}

impl Matches {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Points in the batch.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the batch had no point.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// TIDs of the rows that equal point `index`, ascending.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn get(&self, index: usize) -> &[Tid] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.tids[start..self.ends[index]]
    }

    /// The TIDs of all points, one after the other.
    pub fn tids(&self) -> &[Tid] {
        &self.tids
    }

    pub(crate) fn clear(&mut self) {
        self.tids.clear();
        self.ends.clear();
    }

    pub(crate) fn reserve(&mut self, points: usize) {
        self.tids.reserve(points);
        self.ends.reserve(points);
    }

    #[inline]
    pub(crate) fn push_one(&mut self, tid: Tid) {
        self.tids.push(tid);
        self.ends.push(self.tids.len());
    }

    pub(crate) fn push(&mut self, tids: Tids<'_>) {
        self.tids.extend(tids);
        self.ends.push(self.tids.len());
    }
}
