//! Input of a bulk load: entries in ascending order of their keys, taken in node-sized batches.

use crate::TreeError;

/// An iterator of entries whose order is verified.
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

    /// Returns the number of entries taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes the next entries, at most `most`; returns none at the end.
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

/// Returns the number of entries that fill a node to the fraction `fill` of its capacity.
pub(crate) fn filled(capacity: usize, fill: f64) -> usize {
    ((capacity as f64 * fill).round() as usize).clamp(1, capacity)
}
