//! A number that stands for rows, whatever their order and batches.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::DataType;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Rows, as a multiset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Digest {
    rows: u64,
    sum: u64,
}

impl Digest {
    pub(crate) fn from_batches(batches: &[RecordBatch]) -> Self {
        let mut digest = Self::default();
        for batch in batches {
            let mut rows = vec![0; batch.num_rows()];
            for (number, column) in batch.columns().iter().enumerate() {
                add(&mut rows, column, number as u64);
            }
            digest.rows += rows.len() as u64;
            digest.sum = rows.iter().fold(digest.sum, |sum, row| {
                sum.wrapping_add(xxh3_64_with_seed(&row.to_le_bytes(), 0))
            });
        }
        digest
    }
}

/// Adds a column's values to the digests of its rows.
fn add(rows: &mut [u64], column: &ArrayRef, number: u64) {
    let seed = |row: u64| row ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let null = |row: u64| xxh3_64_with_seed(&[], seed(row));
    match column.data_type().primitive_width() {
        Some(width) => {
            let data = column.to_data();
            let (bytes, start) = (data.buffers()[0].as_slice(), data.offset());
            for (index, row) in rows.iter_mut().enumerate() {
                let at = (start + index) * width;
                *row = if column.is_null(index) {
                    null(*row)
                } else {
                    xxh3_64_with_seed(&bytes[at..at + width], seed(*row))
                };
            }
        }
        None => {
            let column = cast(column, &DataType::LargeUtf8).unwrap();
            for (text, row) in column.as_string::<i64>().iter().zip(rows) {
                *row = text.map_or_else(
                    || null(*row),
                    |text| xxh3_64_with_seed(text.as_bytes(), seed(*row)),
                );
            }
        }
    }
}
