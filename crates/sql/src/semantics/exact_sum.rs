//! Accumulators of exact sums, for integers and for decimals.
//!
//! States are so wide that no number of rows that fit a pool can exceed them. Only a final sum is compared
//! with the range of its type, so that the order and the partitions of the rows do not matter.

use std::fmt;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, BooleanArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// Types that are added up alike. Arrays of values and of states are told apart by their types.
pub(super) trait SumKind: fmt::Debug + Send + Sync + Sized + 'static {
    /// Arrow type of a state.
    type State: ArrowPrimitiveType;
    const STATE: DataType;

    /// Returns the sum of the values or states that are not NULL.
    fn sum(values: &dyn Array) -> StateOf<Self>;

    /// Adds values or states to the sums of their groups.
    fn add(values: &dyn Array, groups: &[usize], filter: Option<&BooleanArray>, sums: &mut GroupSums<Self>);

    /// Returns a sum as a value of its type.
    ///
    /// # Errors
    /// It is outside of the type.
    fn value(sum: Option<StateOf<Self>>, data_type: &DataType) -> Result<ScalarValue>;

    /// Returns sums as values of their type. The sum of a NULL is 0.
    ///
    /// # Errors
    /// One is outside of the type.
    fn values(sums: Vec<StateOf<Self>>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef>;
}

/// A sum before it is compared with the range of its type.
type StateOf<K> = <<K as SumKind>::State as ArrowPrimitiveType>::Native;

/// The sum of one group, or of a window.
#[derive(Debug)]
pub(super) struct ExactSum<K: SumKind> {
    sum: StateOf<K>,
    /// Values that were not NULL, and states of such.
    count: u64,
    data_type: DataType,
}

impl<K: SumKind> ExactSum<K> {
    pub(super) fn new(data_type: DataType) -> Self {
        Self {
            sum: StateOf::<K>::ZERO,
            count: 0,
            data_type,
        }
    }

    /// Returns the sum; `None` if there was no value.
    fn sum(&self) -> Option<StateOf<K>> {
        (self.count > 0).then_some(self.sum)
    }
}

impl<K: SumKind> Accumulator for ExactSum<K> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum = self.sum.add_wrapping(K::sum(&values[0]));
        self.count += (values[0].len() - values[0].null_count()) as u64;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum = self.sum.sub_wrapping(K::sum(&values[0]));
        self.count -= (values[0].len() - values[0].null_count()) as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::new_primitive::<K::State>(
            self.sum(),
            &K::STATE,
        )?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        K::value(self.sum(), &self.data_type)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sums of many groups.
#[derive(Debug)]
pub(super) struct GroupSums<K: SumKind> {
    sums: Vec<StateOf<K>>,
    /// For each group, whether it has a value.
    valued: Vec<bool>,
    data_type: DataType,
}

impl<K: SumKind> GroupSums<K> {
    pub(super) fn new(data_type: DataType) -> Self {
        Self {
            sums: Vec::new(),
            valued: Vec::new(),
            data_type,
        }
    }

    fn resize(&mut self, total: usize) {
        self.sums.resize(total, StateOf::<K>::ZERO);
        self.valued.resize(total, false);
    }

    /// Adds the values that are not NULL and pass the filter.
    pub(super) fn add<T: ArrowPrimitiveType>(
        &mut self,
        values: &PrimitiveArray<T>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) where
        T::Native: Into<StateOf<K>>,
    {
        let (sums, valued) = (&mut self.sums[..], &mut self.valued[..]);
        let mut add = |group: usize, value: T::Native| {
            sums[group] = sums[group].add_wrapping(value.into());
            valued[group] = true;
        };
        let rows = groups.iter().zip(values.values().iter());
        if values.null_count() == 0 && filter.is_none() {
            rows.for_each(|(group, value)| add(*group, *value));
            return;
        }
        let passes = |row| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for (row, (group, value)) in rows.enumerate() {
            if passes(row) && values.is_valid(row) {
                add(*group, *value);
            }
        }
    }

    /// Removes the emitted groups and returns their sums and validity.
    fn take(&mut self, emit_to: EmitTo) -> (Vec<StateOf<K>>, Option<NullBuffer>) {
        let sums = emit_to.take_needed(&mut self.sums);
        let valued = emit_to.take_needed(&mut self.valued);
        let all = valued.iter().all(|valued| *valued);
        (sums, (!all).then(|| NullBuffer::from(valued)))
    }
}

impl<K: SumKind> GroupsAccumulator for GroupSums<K> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.resize(total);
        K::add(&values[0], groups, filter, self);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, nulls) = self.take(emit_to);
        K::values(sums, nulls, &self.data_type)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, nulls) = self.take(emit_to);
        let sums = PrimitiveArray::<K::State>::new(sums.into(), nulls).with_data_type(K::STATE);
        Ok(vec![Arc::new(sums)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let groups: Vec<usize> = (0..values[0].len()).collect();
        let mut each = Self::new(self.data_type.clone());
        each.update_batch(values, &groups, filter, groups.len())?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<StateOf<K>>() + self.valued.capacity()
    }
}
