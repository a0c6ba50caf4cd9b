//! `mode(x)`: the most frequent value; of several the least, so that the result does not depend on the order
//! of the rows. NULL does not count.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast::cast;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Documentation, ReversedUDAF, Signature, Volatility,
};

use super::arguments::{documentation, refused};

/// The aggregate.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Mode {
    signature: Signature,
    documentation: Documentation,
}

impl Mode {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
            documentation: documentation(
                "Returns the most frequent value; of several the least.",
                "mode(expression)",
            ),
        }
    }
}

/// Returns the type of the values of a column.
fn value_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        other => other.clone(),
    }
}

impl AggregateUDFImpl for Mode {
    fn name(&self) -> &'static str {
        "mode"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [data_type] => Ok(value_type(data_type)),
            _ => refused("mode has one argument; write mode(expression)".to_owned()),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(ValueCounts {
            data_type: args.return_field.data_type().clone(),
            is_distinct: args.is_distinct,
            counts: HashMap::new(),
            bytes: 0,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let list = |name: &str, data_type: DataType| {
            let list = DataType::new_list(data_type, true);
            Arc::new(Field::new(format_state_name(args.name, name), list, true))
        };
        Ok(vec![
            list("values", args.return_field.data_type().clone()),
            list("counts", DataType::Int64),
        ])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// The values of a group, each with the number of its rows.
#[derive(Debug)]
struct ValueCounts {
    data_type: DataType,
    /// Counts a value once, as `mode(DISTINCT x)` does.
    is_distinct: bool,
    counts: HashMap<ScalarValue, i64>,
    /// Bytes of the values.
    bytes: usize,
}

/// Returns floats with one zero and one NaN; others as they are.
fn canonical(values: &ArrayRef) -> ArrayRef {
    // A sum with zero has no negative zero.
    macro_rules! floats {
        ($type:ty, $nan:expr) => {
            Arc::new(
                values
                    .as_primitive::<$type>()
                    .unary::<_, $type>(|value| if value.is_nan() { $nan } else { value + 0.0 }),
            )
        };
    }
    match values.data_type() {
        DataType::Float64 => floats!(Float64Type, f64::NAN),
        DataType::Float32 => floats!(Float32Type, f32::NAN),
        _ => Arc::clone(values),
    }
}

impl ValueCounts {
    fn add(&mut self, value: ScalarValue, count: i64) -> Result<()> {
        if let Some(known) = self.counts.get_mut(&value) {
            if !self.is_distinct {
                let sum = known.checked_add(count);
                *known = sum.ok_or_else(|| DataFusionError::Execution("mode: too many rows".to_owned()))?;
            }
        } else {
            self.bytes += value.size();
            self.counts.insert(value, count);
        }
        Ok(())
    }
}

impl Accumulator for ValueCounts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(column) = values.first() else {
            return Ok(());
        };
        let column = canonical(&cast(column, &self.data_type)?);
        for row in (0..column.len()).filter(|row| column.is_valid(*row)) {
            // A value does not keep the buffers of the column that it is in.
            let mut value = ScalarValue::try_from_array(&column, row)?;
            value.compact();
            self.add(value, 1)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else {
            return Err(DataFusionError::Internal(
                "the state of mode is two lists".to_owned(),
            ));
        };
        let (values, counts) = (values.as_list::<i32>(), counts.as_list::<i32>());
        for (values, counts) in values.iter().zip(counts.iter()) {
            let Some((values, counts)) = values.zip(counts) else {
                continue;
            };
            let counts = counts.as_primitive::<Int64Type>();
            for row in 0..values.len() {
                let mut value = ScalarValue::try_from_array(&values, row)?;
                value.compact();
                self.add(value, counts.value(row))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let counts: Vec<ScalarValue> = self
            .counts
            .values()
            .map(|count| ScalarValue::Int64(Some(*count)))
            .collect();
        // Both iterate in the same order.
        let values: Vec<ScalarValue> = self.counts.keys().cloned().collect();
        Ok(vec![
            ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.data_type)),
            ScalarValue::List(ScalarValue::new_list_nullable(&counts, &DataType::Int64)),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let best = self
            .counts
            .iter()
            .max_by(|(left, left_count), (right, right_count)| {
                let by_value = right.partial_cmp(left).unwrap_or(Ordering::Equal);
                left_count.cmp(right_count).then(by_value)
            });
        match best {
            Some((value, _)) => Ok(value.clone()),
            None => ScalarValue::try_from(&self.data_type),
        }
    }

    fn size(&self) -> usize {
        let slot = size_of::<(ScalarValue, i64)>() + 1;
        size_of_val(self) + self.counts.capacity() * slot + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn counts(data_type: DataType) -> ValueCounts {
        ValueCounts {
            data_type,
            is_distinct: false,
            counts: HashMap::new(),
            bytes: 0,
        }
    }

    #[test]
    fn the_least_of_the_most_frequent_values_is_chosen() {
        let mut first = counts(DataType::Int64);
        let column: ArrayRef = Arc::new(Int64Array::from(vec![
            Some(3),
            None,
            Some(2),
            Some(3),
            None,
            None,
        ]));
        first.update_batch(&[column]).unwrap();
        assert_eq!(first.evaluate().unwrap(), ScalarValue::Int64(Some(3)));
        let mut second = counts(DataType::Int64);
        let column: ArrayRef = Arc::new(Int64Array::from(vec![2, 7]));
        second.update_batch(&[column]).unwrap();
        let state = second.state().unwrap();
        let state: Vec<ArrayRef> = state.iter().map(|list| list.to_array().unwrap()).collect();
        first.merge_batch(&state).unwrap();
        assert_eq!(first.evaluate().unwrap(), ScalarValue::Int64(Some(2)));
        assert!(counts(DataType::Int64).evaluate().unwrap().is_null());
    }

    #[test]
    fn zeros_are_equal_and_texts_are_counted() {
        let mut floats = counts(DataType::Float64);
        let column: ArrayRef = Arc::new(Float64Array::from(vec![
            0.0,
            1.0,
            -0.0,
            1.0,
            0.0,
            f64::NAN,
            -f64::NAN,
        ]));
        floats.update_batch(&[column]).unwrap();
        assert_eq!(floats.evaluate().unwrap(), ScalarValue::Float64(Some(0.0)));
        assert_eq!(floats.counts.len(), 3);
        let mut texts = counts(DataType::Utf8);
        let before = texts.size();
        let column: ArrayRef = Arc::new(StringArray::from(vec!["b", "a", "b"]));
        texts.update_batch(&[column]).unwrap();
        assert_eq!(texts.evaluate().unwrap(), ScalarValue::from("b"));
        assert!(texts.size() > before);
    }
}
