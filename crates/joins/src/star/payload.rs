//! The payload of a dimension: the columns of its rows that measures read.
//!
//! A key of a dimension has a number: its slot if keys are dense, else the position of its row. The payload
//! is an array by number, so that a row of the fact table needs one access for each column.

use super::measure_values::MeasureValues;

/// Columns with a value for each number of a key; values of numbers without a key are undefined.
#[derive(Debug, Clone, Default)]
pub(super) struct Payload(Vec<MeasureValues>);

impl Payload {
    pub(super) fn new(columns: Vec<MeasureValues>) -> Payload {
        Payload(columns)
    }

    /// Returns the values that are at `numbers` instead, one for each row, among `count` numbers. With a NULL
    /// for each number without a key if `has_absent`, and one more at the end.
    pub(super) fn moved(
        self,
        numbers: impl Iterator<Item = u32> + Clone,
        count: u32,
        has_absent: bool,
    ) -> Payload {
        let count = count as usize + usize::from(has_absent);
        let moved = |column: MeasureValues| {
            let mut values = vec![0; count];
            let pairs = numbers.clone().zip(&column.values);
            pairs.for_each(|(number, value)| values[number as usize] = *value);
            let mut valid = Vec::new();
            if has_absent || !column.valid.is_empty() {
                // In an outer join the last number, that of absent keys, has no row and stays NULL.
                valid.resize(count, !has_absent);
                for (row, number) in numbers.clone().enumerate().take(column.values.len()) {
                    valid[number as usize] = column.valid.get(row).is_none_or(|valid| *valid);
                }
            }
            MeasureValues { values, valid }
        };
        Payload(self.0.into_iter().map(moved).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of numbers; 0 without columns.
    pub(super) fn numbers(&self) -> u32 {
        self.0.first().map_or(0, |column| column.len() as u32)
    }

    /// Returns a column, by number.
    pub(super) fn column(&self, column: usize) -> &MeasureValues {
        &self.0[column]
    }

    /// Replaces `values` by those of a column at some numbers.
    ///
    /// # Panics
    /// If a number is not that of a key.
    pub(super) fn gather(&self, column: usize, numbers: &[u32], values: &mut MeasureValues) {
        let column = &self.0[column];
        values.values.clear();
        let found = numbers.iter().map(|number| column.values[*number as usize]);
        values.values.extend(found);
        values.valid.clear();
        if !column.valid.is_empty() {
            let found = numbers.iter().map(|number| column.valid[*number as usize]);
            values.valid.extend(found);
        }
    }

    /// Returns the number of bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(MeasureValues::bytes).sum()
    }
}
