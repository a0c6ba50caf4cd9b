//! Results of exact matches.

use crate::Tid;

/// TIDs of the rows that equal a point, ascending; empty if there is none.
///
/// They are read from the index as the iterator advances. Equal tuples are neighbours in the index, so one
/// place and a count describe them.
#[derive(Debug, Clone)]
pub struct Tids<'a> {
    bytes: &'a [u8],
    /// The next TID and its position in `bytes`.
    first: Tid,
    at: usize,
    /// Bytes from one TID to the next.
    step: usize,
    left: usize,
    /// Mask of a TID; 0 if the TIDs are consecutive.
    mask: u32,
}

impl<'a> Tids<'a> {
    /// Returns `count` consecutive TIDs from `first` on.
    #[inline(always)]
    pub(crate) fn consecutive(first: Tid, count: usize) -> Self {
        Self::from_first(first, &[], 0, count, 0)
    }

    /// Returns the `count` TIDs in `bytes`, `step` bytes apart.
    pub(crate) fn new(bytes: &'a [u8], step: usize, count: usize, mask: u32) -> Self {
        let first = read(bytes, 0);
        let count = first.map_or(0, |_| count);
        Self::from_first(first.unwrap_or(0) & mask, bytes, step, count, mask)
    }

    /// Creates the iterator like [`new`](Self::new), for a caller that has already read the first TID.
    #[inline(always)]
    pub(crate) fn from_first(first: Tid, bytes: &'a [u8], step: usize, left: usize, mask: u32) -> Self {
        Self {
            bytes,
            first,
            at: 0,
            step,
            left,
            mask,
        }
    }

    /// Returns the number of bytes that `count` TIDs span, `step` bytes apart.
    #[inline(always)]
    pub(crate) fn bytes(step: usize, count: usize) -> usize {
        count.saturating_sub(1).saturating_mul(step).saturating_add(4)
    }

    pub(crate) fn none() -> Self {
        Self::from_first(0, &[], 0, 0, 0)
    }

    /// Returns the next TID without advancing.
    #[inline]
    pub fn first(&self) -> Option<Tid> {
        (self.left > 0).then_some(self.first)
    }

    /// Returns true if no TID is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

fn read(bytes: &[u8], at: usize) -> Option<Tid> {
    let tid = bytes.get(at..at.checked_add(4)?)?;
    Some(Tid::from_le_bytes(tid.try_into().ok()?))
}

impl Iterator for Tids<'_> {
    type Item = Tid;

    #[inline(always)]
    fn next(&mut self) -> Option<Tid> {
        if self.left == 0 {
            return None;
        }
        let tid = self.first;
        self.left -= 1;
        if self.left > 0 && self.mask == 0 {
            self.first = tid.wrapping_add(1);
        } else if self.left > 0 {
            self.at += self.step;
            match read(self.bytes, self.at) {
                Some(next) => self.first = next & self.mask,
                None => self.left = 0,
            }
        }
        Some(tid)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Tids<'_> {}

/// The rows found by a batch of exact matches, point by point.
///
/// Reuse one value for many batches: it keeps its memory.
#[derive(Debug, Clone, Default)]
pub struct Matches {
    pub(crate) tids: Vec<Tid>,
    pub(crate) ends: Vec<usize>,
}

impl Matches {
    /// Creates an empty value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of points in the batch.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the batch had no point.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the TIDs of the rows that equal point `index`, ascending.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn get(&self, index: usize) -> &[Tid] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.tids[start..self.ends[index]]
    }

    /// Returns the TIDs of all points, point after point.
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

    /// Appends one TID for each of several points.
    #[inline(always)]
    pub(crate) fn push_each(&mut self, tids: &[Tid]) {
        let end = self.tids.len() + 1;
        self.tids.extend_from_slice(tids);
        self.ends.extend(end..end + tids.len());
    }

    pub(crate) fn push(&mut self, tids: Tids<'_>) {
        self.tids.extend(tids);
        self.ends.push(self.tids.len());
    }
}
