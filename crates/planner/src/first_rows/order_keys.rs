//! Order-preserving 64-bit sort keys: a row with a smaller number comes before one with a greater number.
//!
//! Distinct keys may map to the same number where 64 bits do not suffice: NULLs have the number of the first
//! or last value, decimals beyond 64 bits that of the nearest bound, and other types that of the first bytes
//! of their encoding. Zeros are equal whatever their sign.

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit, SortOptions};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::Result;

const SIGN: u64 = 1 << 63;

/// Makes numbers of the sort keys of one column.
#[derive(Debug)]
pub(super) struct OrderKeys {
    form: Form,
    options: SortOptions,
}

/// The form of the values of a column.
#[derive(Debug)]
enum Form {
    Signed(usize),
    Unsigned(usize),
    Float(usize),
    Decimal128,
    /// Encoded, in the order that the options ask for.
    Encoded(RowConverter, Rows),
}

impl OrderKeys {
    /// Makes keys of values of a type in this order.
    ///
    /// # Errors
    /// The values cannot be sorted.
    pub(super) fn new(of: &DataType, options: SortOptions) -> Result<Self> {
        let width = of.primitive_width().unwrap_or_default();
        let form = match of {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Form::Signed(width),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => Form::Unsigned(width),
            DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => {
                Form::Signed(width)
            }
            DataType::Timestamp(..) | DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth) => {
                Form::Signed(width)
            }
            DataType::Decimal32(..) | DataType::Decimal64(..) => Form::Signed(width),
            DataType::Decimal128(..) => Form::Decimal128,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Form::Float(width),
            _ => {
                let field = SortField::new_with_options(of.clone(), options);
                let converter = RowConverter::new(vec![field])?;
                let rows = converter.empty_rows(0, 0);
                Form::Encoded(converter, rows)
            }
        };
        Ok(Self { form, options })
    }

    /// Fills `keys` with the numbers of a column's values.
    ///
    /// # Errors
    /// The column has another type than `new` was given.
    pub(super) fn fill(&mut self, column: &ArrayRef, keys: &mut Vec<u64>) -> Result<()> {
        keys.clear();
        let data = column.to_data();
        let signed = |value: i64| value as u64 ^ SIGN;
        match &mut self.form {
            Form::Signed(1) => keys.extend(data.buffer::<i8>(0).iter().map(|v| signed((*v).into()))),
            Form::Signed(2) => keys.extend(data.buffer::<i16>(0).iter().map(|v| signed((*v).into()))),
            Form::Signed(4) => keys.extend(data.buffer::<i32>(0).iter().map(|v| signed((*v).into()))),
            Form::Signed(_) => keys.extend(data.buffer::<i64>(0).iter().map(|v| signed(*v))),
            Form::Unsigned(1) => keys.extend(data.buffer::<u8>(0).iter().map(|v| u64::from(*v))),
            Form::Unsigned(2) => keys.extend(data.buffer::<u16>(0).iter().map(|v| u64::from(*v))),
            Form::Unsigned(4) => keys.extend(data.buffer::<u32>(0).iter().map(|v| u64::from(*v))),
            Form::Unsigned(_) => keys.extend_from_slice(data.buffer::<u64>(0)),
            Form::Float(2) => keys.extend(
                data.buffer::<u16>(0)
                    .iter()
                    .map(|v| total_order(u64::from(*v) << 48)),
            ),
            Form::Float(4) => keys.extend(
                data.buffer::<u32>(0)
                    .iter()
                    .map(|v| total_order(u64::from(*v) << 32)),
            ),
            Form::Float(_) => keys.extend(data.buffer::<u64>(0).iter().map(|v| total_order(*v))),
            Form::Decimal128 => {
                let values = column.as_primitive::<Decimal128Type>().values();
                let near = |value: &i128| (*value).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                keys.extend(values.iter().map(|value| signed(near(value))));
            }
            Form::Encoded(converter, rows) => {
                rows.clear();
                converter.append(rows, std::slice::from_ref(column))?;
                keys.extend(rows.iter().map(|row| first_bytes(row.data())));
                return Ok(());
            }
        }
        keys.truncate(column.len());
        if self.options.descending {
            keys.iter_mut().for_each(|key| *key = !*key);
        }
        if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
            let of_null = if self.options.nulls_first { 0 } else { u64::MAX };
            for (key, is_valid) in keys.iter_mut().zip(nulls) {
                if !is_valid {
                    *key = of_null;
                }
            }
        }
        Ok(())
    }
}

/// Returns a number that sorts like a float with these bits in IEEE 754 total order, which DataFusion's sort
/// uses; both zeros have the same number. Narrower floats occupy the high bits.
fn total_order(bits: u64) -> u64 {
    match bits {
        // Minus zero.
        SIGN => SIGN,
        _ if bits & SIGN != 0 => !bits,
        _ => bits | SIGN,
    }
}

/// Returns the first bytes of an encoded key as a number.
fn first_bytes(key: &[u8]) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    let len = key.len().min(bytes.len());
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow_array::{
        BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
        Int64Array, StringArray, StringViewArray, UInt8Array, UInt32Array, UInt64Array,
    };
    use arrow_cast::cast;
    use datafusion::arrow::compute::sort_to_indices;

    /// Checks that keys never go down along the sorted rows; returns how often they go up, with NULLs last.
    fn sorted(column: &ArrayRef) -> usize {
        let mut steps = 0;
        for (descending, nulls_first) in [(true, true), (true, false), (false, true), (false, false)] {
            let options = SortOptions {
                descending,
                nulls_first,
            };
            let mut keys = vec![7];
            let mut of = OrderKeys::new(column.data_type(), options).unwrap();
            // A slice, to see that offsets are respected.
            let column = column.slice(1, column.len() - 1);
            of.fill(&column, &mut keys).unwrap();
            assert_eq!(keys.len(), column.len());
            let ranks = sort_to_indices(&column, Some(options), None).unwrap();
            let along: Vec<u64> = ranks.values().iter().map(|at| keys[*at as usize]).collect();
            assert!(along.is_sorted(), "{options:?}: {column:?}\n{along:?}");
            steps = along.windows(2).filter(|pair| pair[0] < pair[1]).count();
        }
        steps
    }

    #[test]
    fn keys_sort_like_the_values() {
        let longs = [
            Some(9),
            Some(i64::MIN),
            None,
            Some(-1),
            Some(0),
            Some(1),
            Some(i64::MAX),
            Some(77),
            None,
        ];
        let narrow = || longs.iter().map(|v| v.map(|v| v.clamp(-128, 127)));
        let floats = [
            None,
            Some(f64::NAN),
            Some(-f64::NAN),
            Some(0.0),
            Some(-0.0),
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            Some(1e-310),
            Some(-1e-310),
            Some(1.5),
            Some(-2.5),
            None,
            Some(f64::MAX),
        ];
        let decimals = [
            Some(5),
            Some(i128::MAX / 9),
            Some(-i128::MAX / 9),
            None,
            Some(-5),
            Some(0),
            Some(1 << 62),
        ];
        let texts = [
            Some("x"),
            None,
            Some(""),
            Some("a"),
            Some("ab"),
            Some("a\0"),
            Some("the same beginning 1"),
            Some("the same beginning 2"),
            Some("z"),
        ];
        let half = cast(&Float64Array::from(floats.to_vec()), &DataType::Float16).unwrap();
        let columns: Vec<(ArrayRef, usize)> = vec![
            (Arc::new(Int64Array::from(longs.to_vec())), 5),
            (
                Arc::new(Int16Array::from_iter(narrow().map(|v| v.map(|v| v as i16)))),
                5,
            ),
            (
                Arc::new(Int8Array::from_iter(narrow().map(|v| v.map(|v| v as i8)))),
                5,
            ),
            (
                Arc::new(Date32Array::from_iter(narrow().map(|v| v.map(|v| v as i32)))),
                5,
            ),
            (
                Arc::new(UInt8Array::from(vec![Some(0), None, Some(255), Some(3)])),
                1,
            ),
            (
                Arc::new(UInt32Array::from(vec![None, Some(9), Some(u32::MAX), Some(3)])),
                2,
            ),
            (
                Arc::new(UInt64Array::from(vec![None, Some(9), Some(u64::MAX), Some(3)])),
                2,
            ),
            (Arc::new(Float64Array::from(floats.to_vec())), 9),
            (
                Arc::new(Float32Array::from_iter(
                    floats.iter().map(|v| v.map(|v| v as f32)),
                )),
                7,
            ),
            (half, 0),
            (Arc::new(Decimal128Array::from(decimals.to_vec())), 4),
            (
                Arc::new(BooleanArray::from(vec![None, Some(true), Some(false), None])),
                2,
            ),
            (Arc::new(StringArray::from(texts.to_vec())), 4),
            (Arc::new(StringViewArray::from(texts.to_vec())), 4),
        ];
        for (column, least) in &columns {
            let steps = sorted(column);
            assert!(steps >= *least, "{steps} of {least}: {column:?}");
        }
    }
}
