//! `sum(DISTINCT …)` of integers and of decimals: it fails if and only if the exact sum is outside of its
//! type.

use std::collections::HashMap;
use std::mem::size_of_val;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::i256;
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::decimal_sum::narrowed;
use super::sum::value_of;

/// The sum of the different values of one group, or of a window.
#[derive(Debug)]
pub(super) struct DistinctSum {
    /// Number of occurrences of each value.
    counts: HashMap<i128, u64>,
    /// In more bits than integers need, for decimals.
    sum: i256,
    data_type: DataType,
}

impl DistinctSum {
    pub(super) fn new(data_type: DataType) -> Self {
        Self {
            counts: HashMap::new(),
            sum: i256::ZERO,
            data_type,
        }
    }

    fn for_each(values: &dyn Array, mut each: impl FnMut(i128)) {
        match values.data_type() {
            DataType::UInt64 => values
                .as_primitive::<UInt64Type>()
                .iter()
                .flatten()
                .for_each(|v| each(v.into())),
            DataType::Decimal128(..) => values
                .as_primitive::<Decimal128Type>()
                .iter()
                .flatten()
                .for_each(each),
            _ => values
                .as_primitive::<Int64Type>()
                .iter()
                .flatten()
                .for_each(|v| each(v.into())),
        }
    }

    fn add(&mut self, value: i128) {
        let count = self.counts.entry(value).or_default();
        if *count == 0 {
            self.sum = self.sum.wrapping_add(i256::from_i128(value));
        }
        *count += 1;
    }

    fn remove(&mut self, value: i128) {
        if let Some(count) = self.counts.get_mut(&value) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&value);
                self.sum = self.sum.wrapping_sub(i256::from_i128(value));
            }
        }
    }
}

impl Accumulator for DistinctSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        Self::for_each(&values[0], |value| self.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        Self::for_each(&values[0], |value| self.remove(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            Self::for_each(&values, |value| self.add(value));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self
            .counts
            .keys()
            .map(|value| value_of(Some(*value), &self.data_type));
        let values = values.collect::<Result<Vec<_>>>()?;
        let list = ScalarValue::new_list_nullable(&values, &self.data_type);
        Ok(vec![ScalarValue::List(list)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.counts.is_empty() {
            return value_of(None, &self.data_type);
        }
        let sum = match (self.data_type.is_decimal(), self.sum.to_i128()) {
            // There are fewer different integers than 2^64.
            (false, Some(sum)) => sum,
            _ => narrowed(self.sum, &self.data_type)?,
        };
        value_of(Some(sum), &self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<(i128, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, UInt64Array};
    use std::sync::Arc;

    #[test]
    fn different_decimals_are_added_exactly() {
        let most = 10_i128.pow(38) - 1;
        let kind = DataType::Decimal128(38, 2);
        for (values, sum) in [
            (vec![most, most, 0], Some(most)),
            (vec![most, most - 1], None),
            (vec![most, 1, most - 1, -most], Some(most)),
            (vec![most, most - 1, most - 2, -most, 1 - most], Some(most - 2)),
        ] {
            let array = Decimal128Array::from(values).with_data_type(kind.clone());
            let mut distinct = DistinctSum::new(kind.clone());
            distinct.update_batch(&[Arc::new(array)]).unwrap();
            let mut merged = DistinctSum::new(kind.clone());
            let state = distinct.state().unwrap()[0].to_array().unwrap();
            merged.merge_batch(&[state]).unwrap();
            for found in [distinct.evaluate(), merged.evaluate()] {
                let expected = sum.map(|sum| ScalarValue::Decimal128(Some(sum), 38, 2));
                assert_eq!(found.ok(), expected);
            }
        }
    }

    #[test]
    fn a_window_that_has_left_its_type_is_an_error() {
        let of = |values: Vec<u64>| vec![Arc::new(UInt64Array::from(values)) as ArrayRef];
        let mut distinct = DistinctSum::new(DataType::UInt64);
        distinct.update_batch(&of(vec![u64::MAX, u64::MAX])).unwrap();
        assert_eq!(distinct.evaluate().unwrap(), ScalarValue::UInt64(Some(u64::MAX)));
        distinct.update_batch(&of(vec![1])).unwrap();
        assert!(distinct.evaluate().is_err());
    }
}
