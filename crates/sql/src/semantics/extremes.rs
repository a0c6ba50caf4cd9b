//! `min` and `max` by groups of floats, in the order in which floats are compared: NaN is the greatest.
//!
//! DataFusion's begin with the greatest finite value, which a group of infinities never replaces, and forget
//! what came before a NaN. Without groups, and of other types, they are DataFusion's.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

use super::floats::is_float;

/// `min` or `max`, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Extreme {
    inner: Arc<AggregateUDF>,
    is_max: bool,
    of_floats: bool,
}

impl Extreme {
    pub(super) fn over(inner: Arc<AggregateUDF>, is_max: bool) -> Self {
        Self {
            inner,
            is_max,
            of_floats: false,
        }
    }
}

/// Returns the function for floats in place of one of this module.
pub(super) fn of_floats(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    let extreme = function.inner().downcast_ref::<Extreme>()?;
    (!extreme.of_floats).then(|| {
        Arc::new(AggregateUDF::new_from_impl(Extreme {
            inner: Arc::clone(&extreme.inner),
            is_max: extreme.is_max,
            of_floats: true,
        }))
    })
}

/// Returns `min` of values of a type.
pub fn least(data_type: &DataType) -> Arc<AggregateUDF> {
    of_type(min_udaf(), false, data_type)
}

/// Returns `max` of values of a type.
pub fn greatest(data_type: &DataType) -> Arc<AggregateUDF> {
    of_type(max_udaf(), true, data_type)
}

fn of_type(inner: Arc<AggregateUDF>, is_max: bool, data_type: &DataType) -> Arc<AggregateUDF> {
    if is_float(data_type) {
        Arc::new(AggregateUDF::new_from_impl(Extreme {
            inner,
            is_max,
            of_floats: true,
        }))
    } else {
        inner
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        *args.return_field.data_type() != DataType::Float16 && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let better = if self.is_max {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        match args.return_field.data_type() {
            DataType::Float64 => Ok(Box::new(Extremes::<Float64Type>::new(better))),
            DataType::Float32 => Ok(Box::new(Extremes::<Float32Type>::new(better))),
            _ => self.inner.create_groups_accumulator(args),
        }
    }

    /// Returns the order of the greatest groups that `ORDER BY … LIMIT` retains. DataFusion knows no NaN
    /// there.
    fn is_descending(&self) -> Option<bool> {
        if self.of_floats {
            None
        } else {
            self.inner.inner().is_descending()
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// The least or greatest values of many groups.
struct Extremes<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// For each group, whether it has a value.
    valued: Vec<bool>,
    /// How a value compares with one that it replaces.
    better: Ordering,
    of: PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType> fmt::Debug for Extremes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} values of {} groups", self.better, self.values.len())
    }
}

/// Compares floats as SQL does.
fn compared<N: PartialOrd>(left: N, right: N) -> Ordering {
    // What cannot be compared is NaN.
    let is_nan = |value: &N| value.partial_cmp(value).is_none();
    let both = left.partial_cmp(&right);
    both.unwrap_or_else(|| is_nan(&left).cmp(&is_nan(&right)))
}

impl<T: ArrowPrimitiveType> Extremes<T>
where
    T::Native: PartialOrd,
{
    fn new(better: Ordering) -> Self {
        Self {
            values: Vec::new(),
            valued: Vec::new(),
            better,
            of: PhantomData,
        }
    }

    fn add(&mut self, values: &ArrayRef, groups: &[usize], filter: Option<&BooleanArray>, total: usize) {
        self.values.resize(total, T::Native::default());
        self.valued.resize(total, false);
        let values = values.as_primitive::<T>();
        let (found, valued) = (&mut self.values[..], &mut self.valued[..]);
        for (row, (group, value)) in groups.iter().zip(values.values().iter()).enumerate() {
            if counts(values, filter, row)
                && (!valued[*group] || compared(*value, found[*group]) == self.better)
            {
                found[*group] = *value;
                valued[*group] = true;
            }
        }
    }
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for Extremes<T>
where
    T::Native: PartialOrd,
{
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
        let values = emit_to.take_needed(&mut self.values);
        let valued = emit_to.take_needed(&mut self.valued);
        let nulls = valued.contains(&false).then(|| NullBuffer::from(valued));
        Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(filter) = filter else {
            return Ok(vec![Arc::clone(&values[0])]);
        };
        let array = values[0].as_primitive::<T>();
        let rows = (0..array.len()).map(|row| counts(array, Some(filter), row).then(|| array.value(row)));
        Ok(vec![Arc::new(rows.collect::<PrimitiveArray<T>>())])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.valued.capacity()
    }
}

/// Returns true if the value of a row is not NULL and passes the filter.
fn counts(values: &dyn Array, filter: Option<&BooleanArray>, row: usize) -> bool {
    let kept = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
    kept && values.is_valid(row)
}
