//! `sum` of integers that fails if and only if the exact sum is outside of its type, however rows are
//! partitioned: see [`super::exact_sum`]. Sums of decimals that may have more than 38 digits are those
//! of [`super::decimal_sum`], and those of different values of [`super::distinct_sum`]. Sums of other types
//! are DataFusion's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature,
};
use halocline_values::sql_name;

use super::decimal_sum::{DecimalSum, DecimalSums, Decimals};
use super::distinct_sum::DistinctSum;
use super::exact_sum::{ExactSum, GroupSums, SumKind};
use crate::EngineError;

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
///
/// # Errors
/// It is outside of the type.
pub(super) fn value_of(sum: Option<i128>, data_type: &DataType) -> Result<ScalarValue> {
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
        if is_ours(data_type) {
            self.accumulator(args)
        } else {
            self.inner.create_sliding_accumulator(args)
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if args.is_distinct || !is_ours(args.return_type()) {
            return self.inner.state_fields(args);
        }
        let name = format_state_name(args.name, "sum");
        let state = if args.return_type().is_decimal() {
            Decimals::STATE
        } else {
            Integers::STATE
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

/// Sums of integers. Their states have 128 bits.
#[derive(Debug)]
pub(super) struct Integers;

type IntegerSum = ExactSum<Integers>;
type IntegerSums = GroupSums<Integers>;

impl SumKind for Integers {
    type State = Decimal128Type;
    // Whole numbers, for which Arrow has no other type of this size.
    const STATE: DataType = DataType::Decimal128(38, 0);

    fn sum(values: &dyn Array) -> i128 {
        match values.data_type() {
            DataType::Int64 => {
                let values = values.as_primitive::<Int64Type>();
                match values.null_count() {
                    0 => sum_of_signed(values.values()),
                    _ => values.iter().flatten().map(i128::from).sum(),
                }
            }
            DataType::UInt64 => {
                let values = values.as_primitive::<UInt64Type>();
                values.iter().flatten().map(i128::from).sum()
            }
            // States.
            _ => values.as_primitive::<Decimal128Type>().iter().flatten().sum(),
        }
    }

    fn add(values: &dyn Array, groups: &[usize], filter: Option<&BooleanArray>, sums: &mut IntegerSums) {
        match values.data_type() {
            DataType::Int64 => sums.add(values.as_primitive::<Int64Type>(), groups, filter),
            DataType::UInt64 => sums.add(values.as_primitive::<UInt64Type>(), groups, filter),
            // States.
            _ => sums.add(values.as_primitive::<Decimal128Type>(), groups, filter),
        }
    }

    fn value(sum: Option<i128>, data_type: &DataType) -> Result<ScalarValue> {
        value_of(sum, data_type)
    }

    fn values(sums: Vec<i128>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
        match data_type {
            DataType::UInt64 => narrowed::<UInt64Type>(&sums, nulls, data_type),
            _ => narrowed::<Int64Type>(&sums, nulls, data_type),
        }
    }
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

/// Narrows sums to the output type. The sum of a NULL entry must be 0, so that it fits.
///
/// # Errors
/// A sum is outside of the type.
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, UInt64Array};
    use datafusion::logical_expr::EmitTo;
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
    fn a_window_that_has_fitted_again_is_a_value() {
        let of = |values: Vec<u64>| vec![Arc::new(UInt64Array::from(values)) as ArrayRef];
        let mut window = IntegerSum::new(DataType::UInt64);
        window.update_batch(&of(vec![u64::MAX, 5])).unwrap();
        assert!(window.evaluate().is_err());
        window.retract_batch(&of(vec![u64::MAX])).unwrap();
        assert_eq!(window.evaluate().unwrap(), ScalarValue::UInt64(Some(5)));
    }
}
