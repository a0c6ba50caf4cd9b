//! `sum` of integers that fails if and only if the exact sum is outside of its type, however rows are
//! partitioned: states have 128 bits, which no number of rows that fit a pool can exceed. Sums of decimals
//! that may have more than 38 digits are those of [`super::decimal_sum`], but for those of different values.
//! Sums of other types are DataFusion's.

use std::collections::HashMap;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, PrimitiveArray};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature,
};
use halocline_values::sql_name;

use super::decimal_sum::{self, DecimalSum, DecimalSums};
use crate::EngineError;

/// Type of a state: whole numbers of 128 bits, for which Arrow has no other.
const STATE: DataType = DataType::Decimal128(38, 0);

/// The aggregate, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CheckedSum {
    inner: Arc<AggregateUDF>,
}

impl CheckedSum {
    pub(super) fn over(inner: Arc<AggregateUDF>) -> Self {
        Self { inner }
    }
}

/// Returns true if sums of a type are computed here. Fewer digits than 38 have room for 10^10 of the largest
/// values.
fn is_ours(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int64 | DataType::UInt64 | DataType::Decimal128(38, _)
    )
}

/// Returns the error for a sum outside of its type.
fn outside(sum: i128, data_type: &DataType) -> DataFusionError {
    DataFusionError::External(Box::new(EngineError::Overflow {
        operation: format!("the sum {sum}"),
        data_type: sql_name(data_type),
    }))
}

/// Returns a sum as a value of its type.
fn value_of(sum: Option<i128>, data_type: &DataType) -> Result<ScalarValue> {
    let Some(sum) = sum else {
        return ScalarValue::try_from(data_type);
    };
    match data_type {
        DataType::UInt64 => u64::try_from(sum).ok().map(|sum| ScalarValue::UInt64(Some(sum))),
        DataType::Decimal128(precision, scale) => {
            Some(ScalarValue::Decimal128(Some(sum), *precision, *scale))
        }
        _ => i64::try_from(sum).ok().map(|sum| ScalarValue::Int64(Some(sum))),
    }
    .ok_or_else(|| outside(sum, data_type))
}

/// Returns the exact sum of the values that are not NULL; `None` if there is none.
fn exact_sum(values: &dyn Array) -> Option<i128> {
    if values.null_count() == values.len() {
        return None;
    }
    Some(match values.data_type() {
        DataType::Int64 => {
            let values = values.as_primitive::<Int64Type>();
            match values.null_count() {
                0 => sum_of_signed(values.values()),
                _ => values.iter().flatten().map(i128::from).sum(),
            }
        }
        DataType::UInt64 => values
            .as_primitive::<UInt64Type>()
            .iter()
            .flatten()
            .map(i128::from)
            .sum(),
        // States.
        _ => values.as_primitive::<Decimal128Type>().iter().flatten().sum(),
    })
}

/// Returns the sum of numbers by their halves, which a vector unit adds.
fn sum_of_signed(values: &[i64]) -> i128 {
    const SIGN: u64 = 1 << 63;
    // The sum of this many lower halves has no more than 63 bits.
    const CHUNK: usize = 1 << 30;
    let chunk = |values: &[i64]| {
        let (mut low, mut high) = (0_u64, 0_u64);
        for value in values {
            // Counted from the least number, all are positive.
            let value = *value as u64 ^ SIGN;
            low += value & u64::from(u32::MAX);
            high += value >> 32;
        }
        (i128::from(high) << 32) + i128::from(low) - values.len() as i128 * i128::from(SIGN)
    };
    values.chunks(CHUNK).map(chunk).sum()
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type().clone();
        Ok(match (is_ours(&data_type), args.is_distinct) {
            (false, _) => return self.inner.accumulator(args),
            (true, false) if data_type.is_decimal() => Box::new(DecimalSum::new(data_type)),
            (true, false) => Box::new(IntegerSum::new(data_type)),
            (true, true) => Box::new(DistinctSum::new(data_type)),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type();
        match is_ours(data_type) {
            true => self.accumulator(args),
            false => self.inner.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if args.is_distinct || !is_ours(args.return_type()) {
            return self.inner.state_fields(args);
        }
        let name = format_state_name(args.name, "sum");
        let state = match args.return_type().is_decimal() {
            true => decimal_sum::STATE,
            false => STATE,
        };
        Ok(vec![Arc::new(Field::new(name, state, true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = args.return_field.data_type().clone();
        match is_ours(&data_type) {
            true if data_type.is_decimal() => Ok(Box::new(DecimalSums::new(data_type))),
            true => Ok(Box::new(IntegerSums::new(data_type))),
            false => self.inner.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        op: Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        (self.inner.inner()).simplify_expr_op_literal(function, argument, op, literal, argument_is_left)
    }
}

/// The sum of one group, or of a window.
#[derive(Debug)]
struct IntegerSum {
    sum: i128,
    /// Values that were not NULL. Zero after a merge of states without a value.
    count: u64,
    data_type: DataType,
}

impl IntegerSum {
    fn new(data_type: DataType) -> Self {
        Self {
            sum: 0,
            count: 0,
            data_type,
        }
    }

    fn value(&self) -> Option<i128> {
        (self.count > 0).then_some(self.sum)
    }

    fn add(&mut self, values: &ArrayRef) {
        if let Some(sum) = exact_sum(values) {
            self.sum += sum;
            self.count += (values.len() - values.null_count()) as u64;
        }
    }
}

impl Accumulator for IntegerSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0]);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(sum) = exact_sum(&values[0]) {
            self.sum -= sum;
            self.count -= (values[0].len() - values[0].null_count()) as u64;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(&states[0]);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Decimal128(self.value(), 38, 0)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        value_of(self.value(), &self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of the different values of one group, or of a window.
#[derive(Debug)]
struct DistinctSum {
    /// Number of occurrences of each value.
    counts: HashMap<i128, u64>,
    /// In more bits than integers need, for decimals.
    sum: i256,
    data_type: DataType,
}

impl DistinctSum {
    fn new(data_type: DataType) -> Self {
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
            _ => decimal_sum::narrowed(self.sum, &self.data_type)?,
        };
        value_of(Some(sum), &self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<(i128, u64)>()
    }
}

/// The sums of many groups.
#[derive(Debug)]
struct IntegerSums {
    sums: Vec<i128>,
    /// For each group, whether it has a value.
    valued: Vec<bool>,
    data_type: DataType,
}

impl IntegerSums {
    fn new(data_type: DataType) -> Self {
        Self {
            sums: Vec::new(),
            valued: Vec::new(),
            data_type,
        }
    }

    fn add(&mut self, values: &ArrayRef, groups: &[usize], filter: Option<&BooleanArray>, total: usize) {
        self.sums.resize(total, 0);
        self.valued.resize(total, false);
        match values.data_type() {
            DataType::Int64 => self.add_values(values.as_primitive::<Int64Type>(), groups, filter),
            DataType::UInt64 => self.add_values(values.as_primitive::<UInt64Type>(), groups, filter),
            // States.
            _ => self.add_values(values.as_primitive::<Decimal128Type>(), groups, filter),
        }
    }

    fn add_values<T: ArrowPrimitiveType>(
        &mut self,
        values: &PrimitiveArray<T>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) where
        T::Native: Into<i128>,
    {
        let (sums, valued) = (&mut self.sums[..], &mut self.valued[..]);
        let rows = groups.iter().zip(values.values().iter());
        if values.null_count() == 0 && filter.is_none() {
            for (group, value) in rows {
                sums[*group] += (*value).into();
                valued[*group] = true;
            }
            return;
        }
        for (row, (group, value)) in rows.enumerate() {
            if counts(values, filter, row) {
                sums[*group] += (*value).into();
                valued[*group] = true;
            }
        }
    }

    /// Sums and which are not NULL of the groups that go.
    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, Option<NullBuffer>) {
        let sums = emit_to.take_needed(&mut self.sums);
        let valued = emit_to.take_needed(&mut self.valued);
        let all = valued.iter().all(|valued| *valued);
        (sums, (!all).then(|| NullBuffer::from(valued)))
    }
}

/// Returns true if the value of a row is not NULL and passes the filter.
pub(super) fn counts(values: &dyn Array, filter: Option<&BooleanArray>, row: usize) -> bool {
    let kept = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
    kept && values.is_valid(row)
}

fn states(sums: Vec<i128>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(Decimal128Array::new(sums.into(), nulls).with_data_type(STATE))
}

/// Sums as values of their type; a NULL has the sum 0.
fn narrowed<T: ArrowPrimitiveType>(
    sums: &[i128],
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef>
where
    T::Native: TryFrom<i128>,
{
    let narrow = |sum: &i128| T::Native::try_from(*sum).map_err(|_| outside(*sum, data_type));
    let values = sums.iter().map(narrow).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls)))
}

impl GroupsAccumulator for IntegerSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.add(&values[0], groups, filter, total);
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.add(&values[0], groups, None, total);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, nulls) = self.take(emit_to);
        match self.data_type {
            DataType::UInt64 => narrowed::<UInt64Type>(&sums, nulls, &self.data_type),
            _ => narrowed::<Int64Type>(&sums, nulls, &self.data_type),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, nulls) = self.take(emit_to);
        Ok(vec![states(sums, nulls)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let groups: Vec<usize> = (0..values[0].len()).collect();
        let mut each = IntegerSums::new(self.data_type.clone());
        each.add(&values[0], &groups, filter, groups.len());
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.valued.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, UInt64Array};
    use proptest::prelude::*;

    /// Generates values near the ends of the type, so that about every other sum overflows.
    fn values() -> impl Strategy<Value = Vec<Option<i64>>> {
        let value = prop_oneof![
            Just(None),
            Just(Some(i64::MAX)),
            Just(Some(i64::MIN)),
            any::<i64>().prop_map(Some),
            (-3..3_i64).prop_map(Some),
        ];
        proptest::collection::vec(value, 0..12)
    }

    proptest! {
        #[test]
        fn a_sum_fails_if_and_only_if_it_does_not_fit(values in values(), cut in 0_usize..12) {
            let exact = values.iter().flatten().map(|v| i128::from(*v)).reduce(|a, b| a + b);
            let fits = exact.is_none_or(|sum| i64::try_from(sum).is_ok());
            let cut = cut.min(values.len());
            let parts: Vec<ArrayRef> = [&values[..cut], &values[cut..]]
                .map(|part| Arc::new(Int64Array::from(part.to_vec())) as ArrayRef).into();
            // One group, from the states of two partitions.
            let mut whole = IntegerSum::new(DataType::Int64);
            let mut groups = IntegerSums::new(DataType::Int64);
            for part in &parts {
                let mut partial = IntegerSum::new(DataType::Int64);
                partial.update_batch(&[Arc::clone(part)]).unwrap();
                let state = partial.state().unwrap()[0].to_array().unwrap();
                whole.merge_batch(&[state]).unwrap();
                let mut partial = IntegerSums::new(DataType::Int64);
                partial.update_batch(&[Arc::clone(part)], &vec![0; part.len()], None, 1).unwrap();
                groups.merge_batch(&partial.state(EmitTo::All).unwrap(), &[0], 1).unwrap();
            }
            let single = whole.evaluate();
            let many = groups.evaluate(EmitTo::All);
            prop_assert_eq!((single.is_ok(), many.is_ok()), (fits, fits));
            if let (Ok(single), Ok(many)) = (single, many) {
                let expected = exact.map(|sum| sum as i64);
                prop_assert_eq!(single, ScalarValue::Int64(expected));
                prop_assert_eq!(many.as_primitive::<Int64Type>().iter().next().flatten(), expected);
            }
        }
    }

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
    fn a_window_that_has_fitted_again_is_a_value() {
        let of = |values: Vec<u64>| vec![Arc::new(UInt64Array::from(values)) as ArrayRef];
        let mut window = IntegerSum::new(DataType::UInt64);
        window.update_batch(&of(vec![u64::MAX, 5])).unwrap();
        assert!(window.evaluate().is_err());
        window.retract_batch(&of(vec![u64::MAX])).unwrap();
        assert_eq!(window.evaluate().unwrap(), ScalarValue::UInt64(Some(5)));
        let mut distinct = DistinctSum::new(DataType::UInt64);
        distinct.update_batch(&of(vec![u64::MAX, u64::MAX])).unwrap();
        assert_eq!(distinct.evaluate().unwrap(), ScalarValue::UInt64(Some(u64::MAX)));
        distinct.update_batch(&of(vec![1])).unwrap();
        assert!(distinct.evaluate().is_err());
    }
}
