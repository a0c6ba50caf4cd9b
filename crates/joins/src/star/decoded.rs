//! Decoded rows: inserted rows that are in no segment yet. They are joined like those of a
//! segment, column by column, but without zones and packed codes.

use super::group_table::{GroupNumbers, GroupTable};
use super::measure::MeasureSource;
use super::measure_values::MeasureValues;
use super::plan::JoinPlan;
use super::run::StarStats;
use crate::JoinResult;

/// Decoded rows of the fact table that match the conditions on it.
#[derive(Debug, Default, Clone)]
pub struct DecodedRows {
    /// Number of rows.
    pub rows: usize,
    /// The key columns of each probe; strings as [their keys](super::Dimension::key_of_string), or NULL.
    pub keys: Vec<Vec<MeasureValues>>,
    /// The values of each column that measures refer to; without meaning for those of dimensions.
    pub measured: Vec<MeasureValues>,
    /// The numbers of the values of each group column.
    pub groups: Vec<Vec<u64>>,
    /// For each condition on the rows of aggregates, true for the rows that match.
    pub filters: Vec<Vec<bool>>,
}

impl DecodedRows {
    /// Returns the number of bytes of DRAM.
    pub fn bytes(&self) -> usize {
        self.keys
            .iter()
            .flatten()
            .chain(&self.measured)
            .map(MeasureValues::bytes)
            .chain(self.groups.iter().map(|numbers| size_of_val(&**numbers)))
            .chain(self.filters.iter().map(Vec::len))
            .sum()
    }
}

impl JoinPlan<'_> {
    /// Joins decoded rows. O(rows).
    ///
    /// # Errors
    /// [`JoinError::Overflow`](crate::JoinError::Overflow), [`JoinError::Memory`](crate::JoinError::Memory).
    ///
    /// # Panics
    /// If a column is missing or has another number of values.
    pub(super) fn decoded(
        &self,
        rows: &DecodedRows,
        groups: &mut GroupTable<'_>,
        stats: &mut StarStats,
    ) -> JoinResult<()> {
        stats.rows += rows.rows as u64;
        stats.selected += rows.rows as u64;
        let mut left: Vec<usize> = (0..rows.rows).collect();
        let mut numbers = vec![0_u64; rows.rows];
        let mut keys_of: Vec<Vec<u32>> = vec![Vec::new(); self.join.probes.len()];
        for (&number, passed) in self.order.iter().zip(&mut stats.passed) {
            let (dimension, stride) = (&self.join.probes[number].dimension, self.join.strides[number]);
            let (keys, found) = (&rows.keys[number], &mut keys_of[number]);
            // Numbers are kept by row and not by position, because later probes remove rows.
            found.resize(rows.rows, 0);
            left.retain(|&row| {
                let mut digits = keys.iter().zip(&dimension.digits);
                let key = digits.try_fold(0, |key: i64, (values, digit)| {
                    Some(key.wrapping_add(digit.contribution(values.get(row)?)?))
                });
                let number = dimension.number_of_row(key);
                found[row] = number.unwrap_or(0);
                number.is_some()
            });
            let of_left = Vec::from_iter(left.iter().map(|row| found[*row]));
            let mut groups = vec![0; left.len()];
            dimension.add_groups(&of_left, stride, &mut groups);
            let pairs = left.iter().zip(&groups);
            pairs.for_each(|(row, group)| numbers[*row] += u64::from(*group));
            *passed += left.len() as u64;
        }
        for (stride, own) in self.strides.iter().zip(&rows.groups) {
            let pairs = numbers.iter_mut().zip(own);
            pairs.for_each(|(number, own)| *number = number.wrapping_add(own.wrapping_mul(*stride)));
        }
        let mut of_rows = GroupNumbers::new(self.space);
        match &mut of_rows {
            GroupNumbers::Narrow(of_rows) => of_rows.extend(left.iter().map(|row| numbers[*row] as u32)),
            GroupNumbers::Wide(of_rows) => of_rows.extend(left.iter().map(|row| numbers[*row])),
        }
        let columns = self.join.measured.iter().zip(&rows.measured);
        let columns = columns.map(|(source, column)| match source {
            MeasureSource::Fact(_) => column.take(&left),
            MeasureSource::Dimension { probe, column } => {
                let numbers = Vec::from_iter(left.iter().map(|row| keys_of[*probe][*row]));
                let mut values = MeasureValues::default();
                let payload = self.join.probes[*probe].dimension.payload();
                payload.gather(*column, &numbers, &mut values);
                values
            }
        });
        let columns: Vec<MeasureValues> = columns.collect();
        let mut values = Vec::new();
        self.program.evaluate(&columns, left.len(), &mut values)?;
        let arguments = self
            .join
            .aggregates
            .iter()
            .enumerate()
            .map(|(number, aggregate)| {
                let mut argument = self.program.values(number, &columns, &values).clone();
                if let Some(filter) = aggregate.filter {
                    let matches: Vec<bool> = left.iter().map(|row| rows.filters[filter][*row]).collect();
                    argument.set_matching(&argument.clone(), &matches);
                }
                argument
            });
        let arguments: Vec<MeasureValues> = arguments.collect();
        groups.add(&of_rows, left.len(), |aggregate| &arguments[aggregate])
    }
}
