//! What a bulk load is given: entries in ascending order of their keys, a node's worth at a time.

use crate::TreeError;

/// Entries that are to come in order.
pub(crate) struct SortedInput<'a> {
    entries: &'a mut dyn Iterator<Item = (u64, u64)>,
    last: Option<u64>,
    taken: u64,
}

impl<'a> SortedInput<'a> {
    pub(crate) fn new(entries: &'a mut dyn Iterator<Item = (u64, u64)>) -> SortedInput<'a> {
        SortedInput {
            entries,
            last: None,
            taken: 0,
        }
    }

    /// How many were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// The next ones, at most so many; none at the end.
    ///
    /// # Errors
    /// [`TreeError::NotSorted`].
    pub(crate) fn next(&mut self, most: usize) -> Result<Vec<(u64, u64)>, TreeError> {
        let mut some = Vec::with_capacity(most);
        for (key, value) in self.entries.take(most) {
            if let Some(before) = self.last.filter(|before| *before >= key) {
                return Err(TreeError::NotSorted {
                    position: self.taken,
                    key,
                    before,
                });
            }
            self.last = Some(key);
            self.taken += 1;
            some.push((key, value));
        }
        Ok(some)
    }
}

/// Entries of a node that is filled up to a part of 1.
pub(crate) fn filled(capacity: usize, fill: f64) -> usize {
    ((capacity as f64 * fill).round() as usize).clamp(1, capacity)
}
