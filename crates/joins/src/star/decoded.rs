//! Decoded rows: inserted rows that are in no segment yet. They are joined like those of a
//! segment, column by column, but without zones and packed codes.

use super::aggregate::GroupStates;
use super::measure::MeasureValues;
use super::run::{StarJoin, StarStats};
use crate::JoinResult;

/// Decoded rows of the fact table that match the conditions on it.
#[derive(Debug, Default, Clone)]
pub struct DecodedRows {
    /// Number of rows.
    pub rows: usize,
    /// The key columns of each probe.
    pub keys: Vec<Vec<MeasureValues>>,
    /// The values of each column that measures refer to.
    pub measured: Vec<MeasureValues>,
}

impl DecodedRows {
    /// Returns the number of bytes of DRAM.
    pub fn bytes(&self) -> usize {
        self.keys
            .iter()
            .flatten()
            .chain(&self.measured)
            .map(MeasureValues::bytes)
            .sum()
    }
}

impl StarJoin {
    /// Joins decoded rows. O(rows).
    ///
    /// # Errors
    /// [`JoinError::Overflow`](crate::JoinError::Overflow).
    ///
    /// # Panics
    /// If a column is missing or has another number of values.
    pub(super) fn decoded(
        &self,
        rows: &DecodedRows,
        order: &[usize],
        groups: &mut GroupStates,
        stats: &mut StarStats,
    ) -> JoinResult<()> {
        stats.rows += rows.rows as u64;
        stats.selected += rows.rows as u64;
        let mut left: Vec<usize> = (0..rows.rows).collect();
        let mut numbers = vec![0; rows.rows];
        for (&number, passed) in order.iter().zip(&mut stats.passed) {
            let (dimension, stride) = (&self.probes[number].dimension, self.strides[number]);
            let keys = &rows.keys[number];
            left.retain(|&row| {
                let mut digits = keys.iter().zip(&dimension.digits);
                let key = digits.try_fold(0, |key: i64, (values, digit)| {
                    Some(key.wrapping_add(digit.of(values.get(row)?)?))
                });
                let group = key.and_then(|key| dimension.group(key));
                numbers[row] += group.unwrap_or(0) * stride;
                group.is_some()
            });
            *passed += left.len() as u64;
        }
        let numbers: Vec<u32> = left.iter().map(|row| numbers[*row]).collect();
        groups.add_rows(&numbers);
        let columns: Vec<MeasureValues> = rows.measured.iter().map(|column| column.of(&left)).collect();
        let (mut values, mut room) = (MeasureValues::default(), Vec::new());
        for (number, aggregate) in self.aggregates.iter().enumerate() {
            (aggregate.measure).evaluate(&columns, left.len(), &mut values, &mut room)?;
            groups.add(number, &numbers, &values);
        }
        Ok(())
    }
}
