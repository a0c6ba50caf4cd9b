//! A table of all types with NULLs, NaN, and the ends of every domain.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;

/// Rows of the table: more than a dictionary holds, so that `unique` is stored without one.
pub(crate) const ROWS: usize = 70_000;

/// A pseudo-random number from a row and a salt.
fn mix(row: usize, salt: u64) -> u64 {
    let mut x =
        (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 29;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 32)
}

fn some<T>(row: usize, salt: u64, value: T) -> Option<T> {
    (!mix(row, salt + 1000).is_multiple_of(11)).then_some(value)
}

macro_rules! integers {
    ($type:ty, $native:ty, $salt:expr, $rows:expr) => {{
        let value = |row: usize| {
            let value = match row {
                3 => <$native>::MIN,
                5 => <$native>::MAX,
                _ => (mix(row, $salt) % 100) as $native,
            };
            some(row, $salt, value)
        };
        Arc::new(PrimitiveArray::<$type>::from_iter((0..$rows).map(value))) as ArrayRef
    }};
}

/// The first `rows` rows.
pub(crate) fn batch(rows: usize) -> RecordBatch {
    let small = |row: usize, salt: u64, of: u64| (mix(row, salt) % of) as i64;
    let float = |row: usize| match row % 97 {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => f64::MAX,
        4 => f64::MIN_POSITIVE,
        _ => small(row, 20, 2000) as f64 / 8.0 - 100.0,
    };
    let words = [
        "", "AIR", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK", "zebra", "Ärger", "a_b", "a%b",
    ];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("i8", integers!(Int8Type, i8, 1, rows)),
        ("i16", integers!(Int16Type, i16, 2, rows)),
        ("i32", integers!(Int32Type, i32, 3, rows)),
        ("i64", integers!(Int64Type, i64, 4, rows)),
        ("u8", integers!(UInt8Type, u8, 5, rows)),
        ("u16", integers!(UInt16Type, u16, 6, rows)),
        ("u32", integers!(UInt32Type, u32, 7, rows)),
        ("u64", integers!(UInt64Type, u64, 8, rows)),
        (
            "f32",
            Arc::new(Float32Array::from_iter(
                (0..rows).map(|r| some(r, 9, float(r) as f32)),
            )),
        ),
        (
            "f64",
            Arc::new(Float64Array::from_iter((0..rows).map(|r| some(r, 10, float(r))))),
        ),
        (
            "flag",
            Arc::new(BooleanArray::from_iter(
                (0..rows).map(|r| some(r, 11, small(r, 11, 2) == 0)),
            )),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter(
                (0..rows).map(|r| some(r, 12, small(r, 12, 2500) as i32 + 8000)),
            )),
        ),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from_iter((0..rows).map(|r| {
                some(r, 13, small(r, 13, 90_000) * 1_000_000_007 + 700_000_000_000_000)
            }))),
        ),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter(
                    (0..rows).map(|r| some(r, 14, i128::from(small(r, 14, 100_000)) - 5000)),
                )
                .with_precision_and_scale(15, 2)
                .unwrap(),
            ),
        ),
        (
            "tenth",
            Arc::new(
                Decimal128Array::from_iter_values((0..rows).map(|r| i128::from(small(r, 15, 11))))
                    .with_precision_and_scale(38, 1)
                    .unwrap(),
            ),
        ),
        (
            "word",
            Arc::new(StringArray::from_iter(
                (0..rows).map(|r| some(r, 16, words[small(r, 16, 11) as usize])),
            )),
        ),
        (
            "unique",
            Arc::new(StringArray::from_iter(
                (0..rows).map(|r| some(r, 17, format!("u{:08x}", mix(r, 17) >> 32))),
            )),
        ),
        (
            "nothing",
            Arc::new(Int32Array::from_iter((0..rows).map(|_| None::<i32>))),
        ),
        (
            "constant",
            Arc::new(StringArray::from_iter_values((0..rows).map(|_| "same"))),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, n != "id"))).unwrap()
}
