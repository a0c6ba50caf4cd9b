//! The groups of rows, numbered by the values of the partition columns.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;

use super::ids::{GroupIds, GroupMemory};
use super::row_groups::RowGroups;
use super::thresholds::NO_GROUP;

/// Numbers the groups of rows. Groups that there is no memory for are [`NO_GROUP`].
#[derive(Debug)]
pub(super) enum Groups {
    /// By the bits of one column of at most 64 of them. Floats that are equal but differ in bits are
    /// different groups.
    Bits {
        ids: GroupIds,
        null: Option<u32>,
        width: usize,
    },
    /// By the values of any columns.
    Rows(RowGroups),
}

impl Groups {
    /// Begins with no group. Each will take `group_bytes` bytes elsewhere.
    ///
    /// # Errors
    /// Values of one of the types cannot be compared.
    pub(super) fn new(types: &[DataType], group_bytes: usize) -> Result<Self> {
        if let [one] = types
            && let Some(width @ 1..=8) = one.primitive_width()
        {
            let ids = GroupIds::new(group_bytes);
            return Ok(Self::Bits {
                ids,
                null: None,
                width,
            });
        }
        Ok(Self::Rows(RowGroups::new(types, group_bytes)?))
    }

    /// Returns true if values of these types can be compared.
    pub(super) fn supports(types: &[DataType]) -> bool {
        let fields: Vec<SortField> = types.iter().cloned().map(SortField::new).collect();
        RowConverter::supports_fields(&fields)
    }

    fn ids(&self) -> &GroupIds {
        match self {
            Self::Bits { ids, .. } => ids,
            Self::Rows(groups) => groups.ids(),
        }
    }

    /// Returns the number of groups.
    pub(super) fn len(&self) -> usize {
        self.ids().len()
    }

    /// Returns the number of groups that memory is reserved for.
    pub(super) fn capacity(&self) -> usize {
        self.ids().capacity()
    }

    /// Replaces `groups` by the groups of rows with these partition columns.
    ///
    /// # Errors
    /// The columns are not of the types that were announced.
    pub(super) fn assign(
        &mut self,
        columns: &[ArrayRef],
        memory: &mut GroupMemory,
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        groups.clear();
        match (self, columns) {
            (Self::Bits { ids, null, width }, [column]) => {
                let mut of = BitGroups { ids, null, memory };
                match width {
                    1 => of.assign::<u8>(column, groups),
                    2 => of.assign::<u16>(column, groups),
                    4 => of.assign::<u32>(column, groups),
                    _ => of.assign::<u64>(column, groups),
                }
                Ok(())
            }
            (Self::Bits { .. }, _) => {
                let rows = columns.first().map_or(0, |column| column.len());
                groups.resize(rows, NO_GROUP);
                Ok(())
            }
            (Self::Rows(rows), columns) => rows.assign(columns, memory, groups),
        }
    }
}

/// The groups by one column of narrow values.
struct BitGroups<'a> {
    ids: &'a mut GroupIds,
    null: &'a mut Option<u32>,
    memory: &'a mut GroupMemory,
}

impl BitGroups<'_> {
    fn assign<T: ArrowNativeType + Into<u64>>(&mut self, column: &ArrayRef, groups: &mut Vec<u32>) {
        let data = column.to_data();
        let values = &data.buffer::<T>(0)[..column.len()];
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => groups.extend(values.iter().map(|value| self.of_word((*value).into()))),
            Some(nulls) => groups.extend(values.iter().zip(nulls).map(|(value, is_valid)| {
                if is_valid {
                    self.of_word((*value).into())
                } else {
                    self.of_null()
                }
            })),
        }
    }

    #[inline]
    fn of_word(&mut self, word: u64) -> u32 {
        match self.ids.find(word, |_| true) {
            Some(group) => group,
            None => self.ids.add(word, self.memory).unwrap_or(NO_GROUP),
        }
    }

    fn of_null(&mut self) -> u32 {
        if self.null.is_none() {
            *self.null = self.ids.add_without_word(self.memory);
        }
        self.null.unwrap_or(NO_GROUP)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::tests::memory;
    use super::*;
    use std::collections::HashMap;
    use std::sync::Arc;

    use arrow_array::{
        Float64Array, Int8Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray,
    };
    use datafusion::common::ScalarValue;

    /// Checks that rows have the same group if and only if they have the same values, in batches of slices.
    fn check_groups(columns: &[ArrayRef]) {
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        assert!(Groups::supports(&types));
        let mut groups = Groups::new(&types, 16).unwrap();
        let mut memory = memory(64 << 20);
        let rows = columns[0].len();
        let mut known: HashMap<Vec<ScalarValue>, u32> = HashMap::new();
        let mut found = Vec::new();
        for from in (0..rows).step_by(700) {
            let len = 700.min(rows - from);
            let part: Vec<ArrayRef> = columns.iter().map(|column| column.slice(from, len)).collect();
            groups.assign(&part, &mut memory, &mut found).unwrap();
            assert_eq!(found.len(), len);
            for (at, group) in found.iter().enumerate() {
                let value = |column: &ArrayRef| ScalarValue::try_from_array(column, at).unwrap();
                let key: Vec<ScalarValue> = part.iter().map(value).collect();
                let next = known.len() as u32;
                assert_eq!(*known.entry(key).or_insert(next), *group);
            }
        }
        assert_eq!(groups.len(), known.len());
        assert!(groups.capacity() >= groups.len());
    }

    #[test]
    fn groups_are_those_of_the_values() {
        let rows = 5000i64;
        let some = |n: i64| (n % 11 != 3).then_some((n * 7919) % 900 - 450);
        let longs: ArrayRef = Arc::new(Int64Array::from_iter((0..rows).map(some)));
        let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(
            (0..rows).map(|n| (n * 31 % 70) as i32),
        ));
        let bytes: ArrayRef = Arc::new(Int8Array::from_iter(
            (0..rows).map(|n| (n % 5 > 0).then_some(n as i8)),
        ));
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter((0..rows).map(some)));
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter((0..rows).map(|n| {
                some(n).map(|n| "x".repeat((n.unsigned_abs() % 20) as usize) + &n.to_string())
            })));
        let floats: ArrayRef = Arc::new(Float64Array::from_iter(
            (0..rows).map(|n| some(n).map(|n| n as f64 / 4.0)),
        ));
        for columns in [
            vec![&longs],
            vec![&ints],
            vec![&bytes],
            vec![&times],
            vec![&texts],
            vec![&floats],
            vec![&ints, &bytes],
            vec![&texts, &longs],
        ] {
            check_groups(&columns.into_iter().cloned().collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_of_groups_without_memory_have_none() {
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..9000).map(|n| format!("text {n}")),
        ));
        let longs: ArrayRef = Arc::new(Int64Array::from_iter_values(0..9000));
        for column in [texts, longs] {
            let mut memory = memory(100_000);
            let mut groups = Groups::new(&[column.data_type().clone()], 16).unwrap();
            let mut found = Vec::new();
            for _ in 0..2 {
                groups
                    .assign(&[Arc::clone(&column)], &mut memory, &mut found)
                    .unwrap();
                let known = found.iter().filter(|group| **group != NO_GROUP).count();
                assert!(known == groups.len() && (1..9000).contains(&known), "{known}");
            }
        }
    }
}
