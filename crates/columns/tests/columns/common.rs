//! Random tables, and the order of values that everything is compared with.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use halocline_columns::{Table, TableOptions, TableStats, TableWriter};
use halocline_media::Dram;
use halocline_pool::Pool;
use halocline_workloads::SplitMix64;
use std::cmp::Ordering;
use std::sync::Arc;

pub(crate) fn dram_pool() -> Pool {
    Pool::create_on(Arc::new(Dram::new(1 << 20).expect("memory"))).expect("a fresh pool")
}

/// Writes batches as table `t` and opens it.
pub(crate) fn write(pool: &Pool, batches: &[RecordBatch], options: TableOptions) -> (Table, TableStats) {
    let txn = pool.begin().expect("no other writer");
    let mut writer = TableWriter::new(&txn, "t", batches[0].schema(), options).expect("storable");
    batches
        .iter()
        .for_each(|batch| writer.write(batch).expect("written"));
    let stats = writer.finish().expect("finished");
    txn.commit().expect("committed");
    (
        Table::open(&pool.snapshot().expect("open pool"), "t").expect("written above"),
        stats,
    )
}

/// Every type that tables can store.
pub(crate) fn types() -> Vec<DataType> {
    use DataType as D;
    use TimeUnit as U;
    let zone = || Some("Asia/Kolkata".into());
    vec![
        D::Boolean,
        D::Int8,
        D::Int16,
        D::Int32,
        D::Int64,
        D::UInt8,
        D::UInt16,
        D::UInt32,
        D::UInt64,
        D::Float16,
        D::Float32,
        D::Float64,
        D::Date32,
        D::Date64,
        D::Time32(U::Second),
        D::Time32(U::Millisecond),
        D::Time64(U::Microsecond),
        D::Time64(U::Nanosecond),
        D::Timestamp(U::Second, None),
        D::Timestamp(U::Millisecond, zone()),
        D::Timestamp(U::Microsecond, None),
        D::Timestamp(U::Nanosecond, zone()),
        D::Duration(U::Second),
        D::Decimal32(9, 2),
        D::Decimal64(18, 4),
        D::Decimal128(38, 6),
        D::Decimal128(15, 2),
        D::Utf8,
        D::LargeUtf8,
        D::Utf8View,
        D::Binary,
        D::LargeBinary,
        D::BinaryView,
    ]
}

/// How the values of a random column are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// About how many distinct values (1 = constant); 0 = anything the type holds.
    pub(crate) distinct: u64,
    /// NULLs in 256.
    pub(crate) nulls: u64,
    pub(crate) seed: u64,
}

/// A random value of a fixed-size type as bits, or a number to make a string of.
fn draw(rng: &mut SplitMix64, shape: Shape) -> u64 {
    match shape.distinct {
        0 if rng.below(8) == 0 => [0, u64::MAX, 1 << 63, (1 << 63) - 1, 1][rng.below(5) as usize],
        0 => rng.next_u64() >> rng.below(64),
        distinct => rng
            .below(distinct)
            .wrapping_mul(shape.seed | 1)
            .wrapping_add(shape.seed >> 3),
    }
}

/// Leaves numbers as they are, repeats or sorts them, so that chunks get every encoding.
fn arrange(numbers: &mut [u64], seed: u64) {
    match seed % 5 {
        3 => {
            let repeat = 1 + (seed >> 8) as usize % 400;
            (0..numbers.len())
                .rev()
                .for_each(|row| numbers[row] = numbers[row / repeat]);
        }
        4 => numbers.sort_unstable(),
        _ => {}
    }
}

fn string(number: u64) -> String {
    const WORDS: [&str; 8] = ["quick", "", "é", "deposit ", "zz", "quickly", "\u{1F980}", "a"];
    (0..number % 4)
        .map(|i| WORDS[(number >> (3 * i + 2)) as usize % 8])
        .collect::<String>()
        + &if number.is_multiple_of(3) {
            number.to_string()
        } else {
            String::new()
        }
}

/// A decimal of up to 38 digits: of more than 64 bits never, in some rows, or in nearly all.
fn decimal(number: u64, seed: u64) -> i128 {
    const MAX_DECIMAL: i128 = 10_i128.pow(38) - 1;
    let narrow = i128::from(number as i64);
    match seed % 3 {
        0 => narrow,
        1 if number % 40 != 7 => narrow,
        _ if number == u64::MAX => MAX_DECIMAL,
        _ if number == 1 << 63 => -MAX_DECIMAL,
        _ => narrow * 10_i128.pow(18 + (number % 2) as u32),
    }
}

const F16_SPECIAL: [u16; 8] = [0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001, 0x7BFF];
const SPECIAL: [f64; 9] = [
    0.0,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    5e-324,
    -1.5,
    f64::MAX,
    f64::MIN,
];

/// A random array of `data_type`.
pub(crate) fn random_array(data_type: &DataType, rows: usize, shape: Shape) -> ArrayRef {
    let mut rng = SplitMix64::new(shape.seed);
    let valid: Vec<bool> = (0..rows).map(|_| rng.below(256) >= shape.nulls).collect();
    let nulls = (shape.nulls > 0).then(|| NullBuffer::from(valid));
    let mut numbers: Vec<u64> = (0..rows).map(|_| draw(&mut rng, shape)).collect();
    arrange(&mut numbers, shape.seed);
    if matches!(data_type, DataType::Boolean) {
        let bits = numbers.iter().map(|number| number & 1 == 1).collect();
        return Arc::new(arrow_array::BooleanArray::new(bits, nulls));
    }
    if data_type.is_primitive() {
        let width = data_type.primitive_width().expect("fixed size");
        let mut bytes: Vec<u8> = Vec::new();
        for &number in &numbers {
            match data_type {
                DataType::Float64 if number % 4 == 0 => {
                    bytes.extend(SPECIAL[number as usize / 4 % 9].to_le_bytes())
                }
                DataType::Float32 if number % 4 == 0 => {
                    bytes.extend((SPECIAL[number as usize / 4 % 9] as f32).to_le_bytes());
                }
                DataType::Float16 if number % 4 == 0 => {
                    bytes.extend(F16_SPECIAL[number as usize / 4 % 8].to_le_bytes())
                }
                DataType::Float16 => bytes.extend((number as u16).to_le_bytes()),
                DataType::Decimal128(38, _) => bytes.extend(decimal(number, shape.seed).to_le_bytes()),
                // Sign-extended, so that 128-bit decimals fit 64 bits.
                _ => bytes.extend(&i128::from(number as i64).to_le_bytes()[..width]),
            }
        }
        let data = arrow_data::ArrayData::builder(data_type.clone())
            .len(rows)
            .add_buffer(arrow_buffer::Buffer::from_vec(aligned(&bytes)))
            .nulls(nulls)
            .build()
            .expect("right size");
        return make_array(data);
    }
    let strings: Vec<Option<String>> = numbers
        .iter()
        .enumerate()
        .map(|(row, &number)| {
            nulls
                .as_ref()
                .is_none_or(|nulls| nulls.is_valid(row))
                .then(|| string(number))
        })
        .collect();
    arrow_cast::cast(&arrow_array::StringArray::from(strings), data_type)
        .expect("strings become any string type")
}

fn aligned(bytes: &[u8]) -> Vec<i128> {
    let chunks = bytes.chunks(16);
    chunks
        .map(|chunk| {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            i128::from_le_bytes(word)
        })
        .collect()
}

pub(crate) fn batch(columns: &[(DataType, Shape)], rows: usize) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(i, (data_type, shape))| Field::new(format!("c{i}"), data_type.clone(), shape.nulls > 0))
        .collect();
    let arrays = columns
        .iter()
        .map(|(data_type, shape)| random_array(data_type, rows, *shape))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length")
}

/// A value that can be compared as SQL compares: NaN is the largest float and equals itself, -0.0 equals 0.0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => {
                a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            _ => panic!("compared {self:?} with {other:?}"),
        }
    }
}

/// The values of an array.
pub(crate) fn values(array: &dyn Array) -> Vec<Value> {
    use arrow_array::types::*;
    let signed = |array: &dyn Array, row: usize| -> i128 {
        let data = array.to_data();
        let bytes = data.buffers()[0].as_slice();
        let width = array.data_type().primitive_width().expect("fixed size");
        let at = (data.offset() + row) * width;
        let mut word = if bytes[at + width - 1] & 0x80 != 0 {
            [0xFF; 16]
        } else {
            [0; 16]
        };
        word[..width].copy_from_slice(&bytes[at..at + width]);
        i128::from_le_bytes(word)
    };
    (0..array.len())
        .map(|row| match array.data_type() {
            _ if array.is_null(row) => Value::Null,
            DataType::Boolean => Value::Int(array.as_boolean().value(row).into()),
            DataType::UInt8 => Value::Int(array.as_primitive::<UInt8Type>().value(row).into()),
            DataType::UInt16 => Value::Int(array.as_primitive::<UInt16Type>().value(row).into()),
            DataType::UInt32 => Value::Int(array.as_primitive::<UInt32Type>().value(row).into()),
            DataType::UInt64 => Value::Int(array.as_primitive::<UInt64Type>().value(row).into()),
            DataType::Float16 => Value::Float(array.as_primitive::<Float16Type>().value(row).into()),
            DataType::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(row).into()),
            DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8 => Value::Bytes(array.as_string::<i32>().value(row).into()),
            DataType::LargeUtf8 => Value::Bytes(array.as_string::<i64>().value(row).into()),
            DataType::Utf8View => Value::Bytes(array.as_string_view().value(row).into()),
            DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row).into()),
            DataType::LargeBinary => Value::Bytes(array.as_binary::<i64>().value(row).into()),
            DataType::BinaryView => Value::Bytes(array.as_binary_view().value(row).into()),
            _ => Value::Int(signed(array, row)),
        })
        .collect()
}

/// Asserts that two arrays are the same bit for bit, but for the bits of NaNs.
pub(crate) fn assert_same(got: &dyn Array, expected: &dyn Array) {
    assert_eq!(got.data_type(), expected.data_type());
    assert_eq!(got.len(), expected.len());
    for (row, (got, expected)) in values(got).into_iter().zip(values(expected)).enumerate() {
        match (&got, &expected) {
            (Value::Float(a), Value::Float(b)) => {
                assert!(
                    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                    "row {row}: {a:?} is not {b:?}"
                );
            }
            _ => assert_eq!(got, expected, "row {row}"),
        }
    }
}
