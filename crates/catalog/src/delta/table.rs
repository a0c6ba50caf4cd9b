//! The changes of one table in the log: added rows and deleted rows.
//!
//! Invariants: added rows are numbered in the order of their arrival and keep their numbers; batches are
//! never empty and, like the digits of a binary counter, each has more rows than the one after it, so that n
//! insertions of one row leave O(log n) batches and copy O(n log n) rows in all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use roaring::RoaringBitmap;

use super::record::{TableChange, compact};

/// Small changes of one table since its segments were written. Clones share the rows.
#[derive(Debug, Clone, Default)]
pub struct TableDelta {
    batches: Vec<(usize, Arc<RecordBatch>)>,
    rows: usize,
    /// Added rows that were deleted again.
    gone: RoaringBitmap,
    /// Deleted rows of segments, by the segment's id.
    deleted: BTreeMap<u64, RoaringBitmap>,
    bytes: usize,
}

impl TableDelta {
    /// Applies a change.
    ///
    /// # Errors
    /// A batch has other columns than those before it; a deleted row was never added.
    pub fn apply(&mut self, change: &TableChange) -> Result<(), ArrowError> {
        match change {
            TableChange::Insert(batch) => self.insert(batch)?,
            TableChange::Delete(segment, rows) => *self.deleted.entry(*segment).or_default() |= rows,
            TableChange::DeleteAdded(rows) => {
                if rows.max().is_some_and(|last| last as usize >= self.rows) {
                    let what = "the log deletes an added row that it has not added";
                    return Err(ArrowError::InvalidArgumentError(what.into()));
                }
                self.gone |= rows;
            }
        }
        Ok(())
    }

    fn insert(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (mut start, mut last) = (self.rows, Arc::new(compact(batch)));
        self.rows += batch.num_rows();
        self.bytes += last.get_array_memory_size();
        while let Some((before, longer)) = self
            .batches
            .pop_if(|(_, longer)| longer.num_rows() <= last.num_rows())
        {
            let both = concat_batches(&longer.schema(), [longer.as_ref(), last.as_ref()])?;
            (start, last) = (before, Arc::new(compact(&both)));
        }
        self.batches.push((start, last));
        Ok(())
    }

    /// Returns the added rows in order, including deleted ones, as batches with the number of their first
    /// row.
    pub fn batches(&self) -> &[(usize, Arc<RecordBatch>)] {
        &self.batches
    }

    /// Returns the number of added rows, including deleted ones.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the numbers of the added rows that are deleted.
    pub fn gone(&self) -> &RoaringBitmap {
        &self.gone
    }

    /// Returns true if the added row is deleted.
    pub fn is_gone(&self, row: usize) -> bool {
        self.gone.contains(row as u32)
    }

    /// Returns true if none of these added rows is deleted.
    pub fn are_live(&self, rows: &Range<usize>) -> bool {
        self.gone.range_cardinality(rows.start as u32..rows.end as u32) == 0
    }

    /// Returns the number of added rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        self.rows - self.gone.len() as usize
    }

    /// Returns the deleted rows of segments, by segment id.
    pub fn deleted(&self) -> &BTreeMap<u64, RoaringBitmap> {
        &self.deleted
    }

    /// Removes the deleted rows of segments.
    pub fn forget_deleted(&mut self) {
        self.deleted.clear();
    }

    /// Returns the changes that lead from an empty delta to this one.
    pub fn changes(&self) -> impl Iterator<Item = TableChange> {
        let added = self
            .batches
            .iter()
            .map(|(_, batch)| TableChange::Insert(RecordBatch::clone(batch)));
        let gone = (!self.gone.is_empty()).then(|| TableChange::DeleteAdded(self.gone.clone()));
        let deleted = self
            .deleted
            .iter()
            .map(|(segment, rows)| TableChange::Delete(*segment, rows.clone()));
        added.chain(gone).chain(deleted)
    }

    /// Returns the approximate number of bytes of DRAM that the rows occupy.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, cast::AsArray, types::Int64Type};

    fn rows(values: Range<i64>) -> TableChange {
        let column = Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
        TableChange::Insert(RecordBatch::try_from_iter([("i", column)]).unwrap())
    }

    #[test]
    fn single_rows_leave_few_batches() {
        let mut delta = TableDelta::default();
        for value in 0..1000 {
            delta.apply(&rows(value..value + 1)).unwrap();
            delta.apply(&rows(0..0)).unwrap();
        }
        assert!(delta.batches().len() <= 10, "{} batches", delta.batches().len());
        for (start, batch) in delta.batches() {
            let values = batch.column(0).as_primitive::<Int64Type>().values();
            let expected: Vec<i64> = (*start as i64..).take(values.len()).collect();
            assert_eq!(values, expected.as_slice());
        }
        let sizes: Vec<usize> = delta
            .batches()
            .iter()
            .map(|(_, batch)| batch.num_rows())
            .collect();
        assert!(
            sizes.is_sorted_by(|a, b| a > b) && sizes.iter().sum::<usize>() == 1000,
            "{sizes:?}"
        );
    }

    #[test]
    fn its_changes_lead_to_it() {
        let mut delta = TableDelta::default();
        for value in 0..5 {
            delta.apply(&rows(value..value + 1)).unwrap();
        }
        let deletions = [
            TableChange::DeleteAdded(RoaringBitmap::from([2])),
            TableChange::Delete(8, RoaringBitmap::from([1])),
            TableChange::Delete(9, RoaringBitmap::from([7])),
        ];
        deletions.iter().for_each(|change| delta.apply(change).unwrap());
        let mut again = TableDelta::default();
        delta.changes().for_each(|change| again.apply(&change).unwrap());
        assert_eq!((again.batches(), again.rows()), (delta.batches(), delta.rows()));
        assert_eq!((again.gone(), again.deleted()), (delta.gone(), delta.deleted()));
        assert_eq!(TableDelta::default().changes().count(), 0);
    }

    #[test]
    fn deleted_rows_are_counted_once() {
        let mut delta = TableDelta::default();
        delta.apply(&rows(0..10)).unwrap();
        delta
            .apply(&TableChange::DeleteAdded(RoaringBitmap::from([3, 4])))
            .unwrap();
        delta
            .apply(&TableChange::DeleteAdded(RoaringBitmap::from([4, 5])))
            .unwrap();
        delta
            .apply(&TableChange::Delete(8, RoaringBitmap::from([1])))
            .unwrap();
        delta
            .apply(&TableChange::Delete(8, RoaringBitmap::from([1, 2])))
            .unwrap();
        assert_eq!((delta.live_rows(), delta.deleted()[&8].len()), (7, 2));
        assert!(delta.is_gone(5) && !delta.is_gone(6));
        assert!(delta.are_live(&(6..10)) && !delta.are_live(&(5..6)));
    }
}
