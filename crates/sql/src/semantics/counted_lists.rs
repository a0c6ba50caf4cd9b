//! `array_agg` whose memory is what it takes.
//!
//! DataFusion keeps slices of the batches that it collects, and of texts counts their views alone. So long
//! texts took more memory than a query may have, and the few that a filter leaves kept the buffers of all
//! others.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteViewArray};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature,
};

/// Buffers with more than this times the bytes of the texts in them are copied.
const MAX_BUFFER_FACTOR: usize = 2;

/// The aggregate, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CountedLists {
    inner: Arc<AggregateUDF>,
}

impl CountedLists {
    pub(super) fn over(inner: Arc<AggregateUDF>) -> Self {
        Self { inner }
    }
}

impl AggregateUDFImpl for CountedLists {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        // The others copy values, and count them.
        let keeps_slices = !args.is_distinct && args.order_bys.is_empty();
        let inner = self.inner.accumulator(args)?;
        Ok(if keeps_slices {
            Box::new(CountedValues { inner, texts: 0 })
        } else {
            inner
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(Box::new(CountedGroups { inner, texts: 0 }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = AggregateUDF::clone(&self.inner).with_beneficial_ordering(beneficial_ordering)?;
        Ok(inner.map(|inner| {
            let ordered: Arc<dyn AggregateUDFImpl> = Arc::new(Self::over(Arc::new(inner)));
            ordered
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(Self::over(inner))))
            }
            other => other,
        }
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Returns the bytes of texts that are not in their views.
fn bytes_behind_views(values: &dyn Array) -> usize {
    match values.data_type() {
        DataType::Utf8View => values.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => values.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    }
}

/// Returns texts without what else is in their buffers, and their bytes that are not in views.
fn compact(values: &ArrayRef) -> (ArrayRef, usize) {
    fn compact_views<T: ByteViewType + ?Sized>(
        values: &ArrayRef,
        views: &GenericByteViewArray<T>,
        used: usize,
    ) -> ArrayRef {
        let buffers: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
        if buffers > MAX_BUFFER_FACTOR * used {
            Arc::new(views.gc())
        } else {
            Arc::clone(values)
        }
    }
    let used = bytes_behind_views(values);
    let compacted = match values.data_type() {
        DataType::Utf8View => compact_views(values, values.as_byte_view::<StringViewType>(), used),
        DataType::BinaryView => compact_views(values, values.as_byte_view::<BinaryViewType>(), used),
        _ => Arc::clone(values),
    };
    (compacted, used)
}

/// Collects the values of one group.
#[derive(Debug)]
struct CountedValues {
    inner: Box<dyn Accumulator>,
    /// Bytes of texts that are not in their views.
    texts: usize,
}

impl Accumulator for CountedValues {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (values, bytes): (Vec<_>, Vec<_>) = values.iter().map(compact).unzip();
        self.texts += bytes.iter().sum::<usize>();
        self.inner.update_batch(&values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states.iter().filter_map(|state| state.as_list_opt::<i32>());
        self.texts += lists
            .flat_map(|lists| lists.iter().flatten())
            .map(|list| bytes_behind_views(&list))
            .sum::<usize>();
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size() + self.texts
    }
}

/// Collects the values of many groups.
struct CountedGroups {
    inner: Box<dyn GroupsAccumulator>,
    /// As in [`CountedValues`].
    texts: usize,
}

impl CountedGroups {
    /// Counts off what groups had whose values were returned. It is not known which these are, so their part
    /// of all counts.
    fn emitted<T>(
        &mut self,
        emit_to: EmitTo,
        emit: impl FnOnce(&mut dyn GroupsAccumulator, EmitTo) -> T,
    ) -> T {
        let before = self.inner.size();
        let emitted = emit(self.inner.as_mut(), emit_to);
        self.texts = match emit_to {
            EmitTo::All => 0,
            EmitTo::First(_) => {
                let left = self.inner.size().min(before) as f64 / before.max(1) as f64;
                (self.texts as f64 * left) as usize
            }
        };
        emitted
    }
}

impl GroupsAccumulator for CountedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let (values, bytes): (Vec<_>, Vec<_>) = values.iter().map(compact).unzip();
        self.texts += bytes.iter().sum::<usize>();
        self.inner.update_batch(&values, groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let lists = states.iter().filter_map(|state| state.as_list_opt::<i32>());
        self.texts += lists
            .map(|lists| bytes_behind_views(lists.values()))
            .sum::<usize>();
        self.inner.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.emitted(emit_to, |inner, emit_to| inner.evaluate(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.emitted(emit_to, |inner, emit_to| inner.state(emit_to))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size() + self.texts
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    #[test]
    fn few_texts_of_many_leave_their_buffers() {
        let texts: StringViewArray = (0..1000)
            .map(|_| Some("a text that is not in its view"))
            .collect();
        let whole: ArrayRef = Arc::new(texts);
        let (same, bytes) = compact(&whole);
        assert!(Arc::ptr_eq(&same, &whole) && bytes == 30_000);
        let (few, bytes) = compact(&whole.slice(10, 5));
        let buffers = few.as_string_view().data_buffers();
        assert_eq!(
            (bytes, buffers.iter().map(|buffer| buffer.len()).sum::<usize>()),
            (150, 150)
        );
        assert_eq!(few.as_ref(), whole.slice(0, 5).as_ref());
    }
}
