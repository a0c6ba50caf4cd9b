//! Where groups begin in sorted rows.

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::concat::concat;
use datafusion::arrow::compute::partition;
use datafusion::error::Result;

/// Finds the first row of each run of equal keys, in batches that follow one another.
#[derive(Debug, Default)]
pub(super) struct GroupStarts {
    /// The keys of the last row seen, in arrays of one row.
    last: Option<Vec<ArrayRef>>,
}

impl GroupStarts {
    /// Returns the rows of a batch with these keys that differ from the row before. There is at least one
    /// key.
    ///
    /// # Errors
    /// Keys cannot be compared.
    pub(super) fn in_batch(&mut self, keys: &[ArrayRef]) -> Result<BooleanArray> {
        let rows = keys.first().map_or(0, |key| key.len());
        let mut starts = BooleanBufferBuilder::new(rows);
        starts.append_n(rows, false);
        for range in partition(keys)?.ranges() {
            starts.set_bit(range.start, true);
        }
        if rows > 0 {
            if self.continues(keys)? {
                starts.set_bit(0, false);
            }
            self.last = Some(keys.iter().map(|key| key.slice(rows - 1, 1)).collect());
        }
        Ok(BooleanArray::new(starts.finish(), None))
    }

    /// Returns true if the first row of a batch belongs to the last group.
    fn continues(&self, keys: &[ArrayRef]) -> Result<bool> {
        let Some(last) = &self.last else {
            return Ok(false);
        };
        let pairs = last.iter().zip(keys);
        let pairs = pairs.map(|(last, key)| concat(&[last.as_ref(), key.slice(0, 1).as_ref()]));
        let pairs = pairs.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
        Ok(partition(&pairs)?.len() == 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array, StringArray};

    use super::*;

    /// Returns the rows that begin a group if the keys come in batches of `size` rows.
    fn starts(keys: &[ArrayRef], size: usize) -> Vec<usize> {
        let mut starts = GroupStarts::default();
        let mut found = Vec::new();
        for from in (0..keys[0].len()).step_by(size) {
            let rows = size.min(keys[0].len() - from);
            let part: Vec<ArrayRef> = keys.iter().map(|key| key.slice(from, rows)).collect();
            let part = starts.in_batch(&part).unwrap();
            found.extend(part.values().set_indices().map(|row| from + row));
            let none: Vec<ArrayRef> = keys.iter().map(|key| key.slice(0, 0)).collect();
            assert!(starts.in_batch(&none).unwrap().is_empty());
        }
        found
    }

    #[test]
    fn runs_go_on_over_batches() {
        let longs: ArrayRef = Arc::new(Int64Array::from(vec![
            Some(1),
            Some(1),
            Some(1),
            Some(2),
            None,
            None,
            None,
        ]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a"),
            Some("a"),
            Some("b"),
            Some("b"),
            Some("b"),
            None,
            None,
        ]));
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![
            0.0,
            0.0,
            0.5,
            f64::INFINITY,
            f64::NAN,
            f64::NAN,
            f64::NAN,
        ]));
        for size in 1..=7 {
            assert_eq!(starts(std::slice::from_ref(&longs), size), [0, 3, 4], "{size}");
            assert_eq!(
                starts(std::slice::from_ref(&floats), size),
                [0, 2, 3, 4],
                "{size}"
            );
            let both = [Arc::clone(&longs), Arc::clone(&texts)];
            assert_eq!(starts(&both, size), [0, 2, 3, 4, 5], "{size}");
        }
    }
}
