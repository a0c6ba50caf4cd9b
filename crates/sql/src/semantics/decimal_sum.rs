//! `sum` of decimals that may have more than 38 digits: it fails if and only if the exact sum has more,
//! however rows are partitioned.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use halocline_values::sql_name;

use super::exact_sum::{ExactSum, GroupSums, SumKind};
use crate::EngineError;

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

/// Sums of decimals. Their states have 256 bits.
#[derive(Debug)]
pub(super) struct Decimals;

pub(super) type DecimalSum = ExactSum<Decimals>;
pub(super) type DecimalSums = GroupSums<Decimals>;

impl SumKind for Decimals {
    type State = Decimal256Type;
    const STATE: DataType = DataType::Decimal256(76, 0);

    fn sum(values: &dyn Array) -> i256 {
        match values.as_primitive_opt::<Decimal256Type>() {
            Some(states) => states.iter().flatten().fold(i256::ZERO, i256::wrapping_add),
            None => sum_of(values.as_primitive::<Decimal128Type>()),
        }
    }

    fn add(values: &dyn Array, groups: &[usize], filter: Option<&BooleanArray>, sums: &mut DecimalSums) {
        match values.as_primitive_opt::<Decimal256Type>() {
            Some(states) => sums.add(states, groups, filter),
            None => sums.add(values.as_primitive::<Decimal128Type>(), groups, filter),
        }
    }

    fn value(sum: Option<i256>, data_type: &DataType) -> Result<ScalarValue> {
        let sum = sum.map(|sum| narrowed(sum, data_type)).transpose()?;
        ScalarValue::new_primitive::<Decimal128Type>(sum, data_type)
    }

    fn values(sums: Vec<i256>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
        let narrow = sums.into_iter().map(|sum| narrowed(sum, data_type));
        let values = narrow.collect::<Result<Vec<_>>>()?;
        let sums = Decimal128Array::new(values.into(), nulls);
        Ok(Arc::new(sums.with_data_type(data_type.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

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
