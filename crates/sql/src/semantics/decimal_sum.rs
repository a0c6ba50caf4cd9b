//! `sum` of decimals that may have more than 38 digits: it fails if and only if the exact sum has more,
//! however rows are partitioned. States have 256 bits, which no number of rows that fit a pool can exceed.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Decimal256Array};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use halocline_values::sql_name;

use super::sum::counts;
use crate::EngineError;

/// Type of a state.
pub(super) const STATE: DataType = DataType::Decimal256(76, 0);

/// Returns a sum as the unscaled value of its type.
///
/// # Errors
/// It has more than 38 digits.
pub(super) fn narrowed(sum: i256, data_type: &DataType) -> Result<i128> {
    const DECIMAL38_LIMIT: u128 = 10_u128.pow(38);
    let fitting = sum.to_i128().filter(|sum| sum.unsigned_abs() < DECIMAL38_LIMIT);
    fitting.ok_or_else(|| {
        DataFusionError::External(Box::new(EngineError::Overflow {
            operation: "a sum of decimals".into(),
            data_type: sql_name(data_type),
        }))
    })
}

/// Returns the exact sum of the values that are not NULL: in 128 bits as far as these go.
fn sum_of(values: &Decimal128Array) -> i256 {
    let (mut all, mut part) = (i256::ZERO, 0_i128);
    for value in values.iter().flatten() {
        part = part.checked_add(value).unwrap_or_else(|| {
            all = all.wrapping_add(i256::from_i128(part));
            value
        });
    }
    all.wrapping_add(i256::from_i128(part))
}

/// The sum of one group, or of a window.
#[derive(Debug)]
pub(super) struct DecimalSum {
    sum: i256,
    /// Values that were not NULL, and states of such.
    count: u64,
    data_type: DataType,
}

impl DecimalSum {
    pub(super) fn new(data_type: DataType) -> Self {
        Self {
            sum: i256::ZERO,
            count: 0,
            data_type,
        }
    }

    fn note(&mut self, sum: i256, values: &dyn Array) {
        self.sum = self.sum.wrapping_add(sum);
        self.count += (values.len() - values.null_count()) as u64;
    }
}

impl Accumulator for DecimalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.note(sum_of(values[0].as_primitive::<Decimal128Type>()), &values[0]);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = sum_of(values[0].as_primitive::<Decimal128Type>());
        self.sum = self.sum.wrapping_sub(gone);
        self.count -= (values[0].len() - values[0].null_count()) as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = states[0].as_primitive::<Decimal256Type>();
        let sum = sums.iter().flatten().fold(i256::ZERO, i256::wrapping_add);
        self.note(sum, sums);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = (self.count > 0).then_some(self.sum);
        Ok(vec![ScalarValue::Decimal256(sum, 76, 0)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (self.count > 0).then(|| narrowed(self.sum, &self.data_type));
        ScalarValue::new_primitive::<Decimal128Type>(sum.transpose()?, &self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sums of many groups.
#[derive(Debug)]
pub(super) struct DecimalSums {
    sums: Vec<i256>,
    /// For each group, whether it has a value.
    valued: Vec<bool>,
    data_type: DataType,
}

impl DecimalSums {
    pub(super) fn new(data_type: DataType) -> Self {
        Self {
            sums: Vec::new(),
            valued: Vec::new(),
            data_type,
        }
    }

    fn add(&mut self, group: usize, value: i256) {
        self.sums[group] = self.sums[group].wrapping_add(value);
        self.valued[group] = true;
    }

    fn resize(&mut self, total: usize) {
        self.sums.resize(total, i256::ZERO);
        self.valued.resize(total, false);
    }

    /// Sums and which are not NULL of the groups that go.
    fn take(&mut self, emit_to: EmitTo) -> (Vec<i256>, Option<NullBuffer>) {
        let sums = emit_to.take_needed(&mut self.sums);
        let valued = emit_to.take_needed(&mut self.valued);
        let all = valued.iter().all(|valued| *valued);
        (sums, (!all).then(|| NullBuffer::from(valued)))
    }
}

impl GroupsAccumulator for DecimalSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.resize(total);
        let decimals = values[0].as_primitive::<Decimal128Type>();
        for (row, (group, value)) in groups.iter().zip(decimals.values()).enumerate() {
            if counts(decimals, filter, row) {
                self.add(*group, i256::from_i128(*value));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.resize(total);
        let sums = states[0].as_primitive::<Decimal256Type>();
        for (group, sum) in groups.iter().zip(sums.iter()) {
            if let Some(sum) = sum {
                self.add(*group, sum);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, nulls) = self.take(emit_to);
        let narrow = sums.into_iter().map(|sum| narrowed(sum, &self.data_type));
        let values = narrow.collect::<Result<Vec<_>>>()?;
        let sums = Decimal128Array::new(values.into(), nulls);
        Ok(Arc::new(sums.with_data_type(self.data_type.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, nulls) = self.take(emit_to);
        let sums = Decimal256Array::new(sums.into(), nulls).with_data_type(STATE);
        Ok(vec![Arc::new(sums)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let groups: Vec<usize> = (0..values[0].len()).collect();
        let mut each = DecimalSums::new(self.data_type.clone());
        each.update_batch(values, &groups, filter, groups.len())?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i256>() + self.valued.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_more_than_38_digits_are_an_error() {
        let most = 10_i128.pow(38) - 1;
        let kind = DataType::Decimal128(38, 2);
        let of = |values: Vec<i128>| {
            vec![Arc::new(Decimal128Array::from(values).with_data_type(kind.clone())) as ArrayRef]
        };
        for (values, fits) in [
            (vec![most], true),
            (vec![most, 1], false),
            (vec![most, 1, -1], true),
            (vec![most; 3], false),
            // An intermediate sum exceeds 128 bits.
            (vec![most, most, -most, -most, 5], true),
            (vec![-most, -most, most], true),
        ] {
            let (mut single, mut many) = (DecimalSum::new(kind.clone()), DecimalSums::new(kind.clone()));
            for part in values.chunks(2) {
                let mut partial = DecimalSum::new(kind.clone());
                partial.update_batch(&of(part.to_vec())).unwrap();
                let state = partial.state().unwrap()[0].to_array().unwrap();
                single.merge_batch(&[state]).unwrap();
                let states = many.convert_to_state(&of(part.to_vec()), None).unwrap();
                many.merge_batch(&states, &vec![0; part.len()], 1).unwrap();
            }
            let exact = values
                .iter()
                .fold(i256::ZERO, |sum, v| sum.wrapping_add(i256::from_i128(*v)));
            let (single, many) = (single.evaluate(), many.evaluate(EmitTo::All));
            assert_eq!((single.is_ok(), many.is_ok()), (fits, fits), "{values:?}");
            if let (Ok(single), Ok(many)) = (single, many) {
                assert_eq!(single, ScalarValue::Decimal128(exact.to_i128(), 38, 2));
                assert_eq!(
                    Some(many.as_primitive::<Decimal128Type>().value(0)),
                    exact.to_i128()
                );
            }
        }
    }
}
