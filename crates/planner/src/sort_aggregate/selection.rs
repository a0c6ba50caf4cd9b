//! Selection of the value at a position among all values, without sorting them, by its digits: the most
//! significant ones first, as in radix exchange (Knuth, The Art of Computer Programming, volume 3, section
//! 5.2.2).
//!
//! The values are in a [file](crate::file_column) that is mapped. Bits that all values share are passed over.
//! Each pass counts the values of the next 16 bits, among those whose bits before are the ones that were
//! found; the position tells which of them is the right one. As soon as few values are left, they are
//! collected. The counters take half a MiB, the values that are collected a whole one.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use datafusion::arrow::compute::{filter, is_not_null};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};
use halocline_catalog::spill_files::SpillFiles;

use super::layout::unexpected;
use super::middle::MiddleOf;
use crate::file_column::FileColumn;

/// Bits that a pass looks at.
const DIGIT_BITS: u32 = 16;
/// Values that are collected.
const MAX_COLLECTED_VALUES: u64 = 1 << 15;

/// Returns true for types whose values can be selected.
pub(super) fn selects(data_type: &DataType) -> bool {
    let is_other = matches!(
        data_type,
        DataType::Interval(_) | DataType::Decimal256(..) | DataType::Float16
    );
    !is_other && data_type.primitive_width().is_some()
}

/// Returns the row of the one group of rows without keys; `of.value` is a column of these rows.
pub(super) fn selection(
    rows: SendableRecordBatchStream,
    of: MiddleOf,
    files: Arc<SpillFiles>,
    context: &TaskContext,
) -> SendableRecordBatchStream {
    let memory = MemoryConsumer::new("values of a median").register(context.memory_pool());
    let output = Arc::clone(&of.output);
    let group = async move {
        let mut rows = rows;
        let mut column = FileColumn::new(rows.schema().field(of.value).data_type().clone(), &files)?;
        let collected = MAX_COLLECTED_VALUES as usize * size_of::<(u128, usize)>();
        memory.try_resize(column.size() + (size_of::<u64>() << DIGIT_BITS) + collected)?;
        let mut count = 0;
        while let Some(batch) = rows.try_next().await? {
            let values = valid(&batch, of.value)?;
            count += values.len() as u64;
            column.append(&values)?;
        }
        let values = column.finish()?;
        of.group(count, |position| selected(&values, position))
    };
    Box::pin(RecordBatchStreamAdapter::new(output, stream::once(group)))
}

/// Returns the values of a column that are not NULL.
fn valid(rows: &RecordBatch, column: usize) -> Result<ArrayRef> {
    let values = rows.column(column);
    match values.null_count() {
        0 => Ok(Arc::clone(values)),
        _ => Ok(filter(values, &is_not_null(values)?)?),
    }
}

/// Returns the value at a position, counted from 0, among the values of an array without NULLs, in ascending
/// order: an array of one row. Floats are in their total order.
///
/// # Errors
/// The type is none that [`selects`] returns true for, or there is no value at `position`.
fn selected(values: &ArrayRef, position: u64) -> Result<ArrayRef> {
    const SIGN_64: u128 = 1 << 63;
    let data = values.to_data();
    let buffer = data
        .buffers()
        .first()
        .ok_or_else(|| unexpected("values have a buffer"))?;
    let width = data.data_type().primitive_width().unwrap_or_default();
    macro_rules! row {
        ($native:ty, $key:expr) => {{
            let all = &buffer.typed_data::<$native>()[data.offset()..][..data.len()];
            row_at(all, $key, position)
        }};
    }
    // The keys of signed values are shifted by the half of their range; those of negative floats are
    // complements.
    let is_unsigned = data.data_type().is_unsigned_integer();
    let row = match (data.data_type(), width) {
        (DataType::Float32, _) => row!(f32, |value: f32| {
            let bits = value.to_bits();
            u128::from(if bits >> 31 == 0 { bits | 1 << 31 } else { !bits })
        }),
        (DataType::Float64, _) => row!(f64, |value: f64| {
            let bits = value.to_bits();
            u128::from(if bits >> 63 == 0 { bits | 1 << 63 } else { !bits })
        }),
        (_, 1) if is_unsigned => row!(u8, u128::from),
        (_, 2) if is_unsigned => row!(u16, u128::from),
        (_, 4) if is_unsigned => row!(u32, u128::from),
        (_, 8) if is_unsigned => row!(u64, u128::from),
        (_, 1) => row!(i8, |value: i8| u128::from(value as u8 ^ 1 << 7)),
        (_, 2) => row!(i16, |value: i16| u128::from(value as u16 ^ 1 << 15)),
        (_, 4) => row!(i32, |value: i32| u128::from(value as u32 ^ 1 << 31)),
        (_, 8) => row!(i64, |value: i64| u128::from(value as u64) ^ SIGN_64),
        (_, 16) => row!(i128, |value: i128| value as u128 ^ 1 << 127),
        _ => None,
    };
    let row = row.ok_or_else(|| unexpected("a position is that of a value"))?;
    Ok(values.slice(row, 1))
}

/// Returns the row of the value at a position in the order of keys.
fn row_at<T: Copy>(values: &[T], key: impl Fn(T) -> u128, position: u64) -> Option<usize> {
    let first = key(*values.first()?);
    let differing = values
        .iter()
        .fold(0, |differing, value| differing | (key(*value) ^ first));
    let mut left = u128::BITS - differing.leading_zeros();
    let (mut found, mut position) = (first.checked_shr(left).unwrap_or(0), position);
    let mut count = values.len() as u64;
    while left > 0 && count > MAX_COLLECTED_VALUES {
        let above = left;
        left -= left.min(DIGIT_BITS);
        let mut counts = vec![0_u64; 1 << (above - left)];
        let mask = counts.len() - 1;
        for value in values {
            let key = key(*value);
            if key.checked_shr(above).unwrap_or(0) == found {
                counts[(key >> left) as usize & mask] += 1;
            }
        }
        let mut digit = 0;
        while position >= *counts.get(digit)? {
            position -= counts[digit];
            digit += 1;
        }
        (found, count) = (found << (above - left) | digit as u128, counts[digit]);
    }
    let mut rows = (0..).zip(values).filter_map(|(row, value): (usize, _)| {
        let key = key(*value);
        (key.checked_shr(left).unwrap_or(0) == found).then_some((key, row))
    });
    if left == 0 {
        return rows.nth(usize::try_from(position).ok()?).map(|(_, row)| row);
    }
    let mut rows: Vec<(u128, usize)> = rows.collect();
    let position = usize::try_from(position)
        .ok()
        .filter(|position| *position < rows.len())?;
    Some(rows.select_nth_unstable(position).1.1)
}

/// Returns the temporary files of a session.
///
/// # Errors
/// The session is none of a database.
pub(super) fn files_of(context: &TaskContext) -> Result<Arc<SpillFiles>> {
    let files = context.session_config().get_extension::<SpillFiles>();
    files.ok_or_else(|| DataFusionError::Internal("the session has no temporary files".into()))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a random test prints its seed")]
mod tests {
    use arrow_array::{
        Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, TimestampMicrosecondArray,
        UInt16Array,
    };
    use datafusion::arrow::compute::sort;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn values_are_those_of_a_sort() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let count = 40_000;
        let integers: Vec<i64> = (0..count)
            .map(|_| random.random::<i64>() >> random.random_range(0..64))
            .collect();
        let mut floats: Vec<f64> = integers
            .iter()
            .map(|number| f64::from_bits(*number as u64))
            .collect();
        floats.extend([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 1.5, -1.5]);
        let arrays: [ArrayRef; 7] = [
            Arc::new(Int64Array::from(integers.clone())),
            Arc::new(Int8Array::from_iter_values(
                integers.iter().map(|number| *number as i8),
            )),
            Arc::new(UInt16Array::from_iter_values(
                integers.iter().map(|number| *number as u16),
            )),
            Arc::new(Float64Array::from(floats.clone())),
            Arc::new(Float32Array::from_iter_values(
                floats.iter().map(|number| *number as f32),
            )),
            Arc::new(Decimal128Array::from_iter_values(
                integers
                    .iter()
                    .map(|number| i128::from(*number) * i128::from(number >> 40) * 1_000),
            )),
            Arc::new(TimestampMicrosecondArray::from(integers)),
        ];
        for array in arrays {
            assert!(selects(array.data_type()));
            let sorted = sort(&array, None).unwrap();
            for _ in 0..50 {
                let position = random.random_range(0..array.len());
                let value = selected(&array, position as u64).unwrap();
                assert_eq!(
                    &value,
                    &sorted.slice(position, 1),
                    "{position} of {:?}",
                    array.data_type()
                );
            }
            assert!(selected(&array, array.len() as u64).is_err());
        }
    }
}
