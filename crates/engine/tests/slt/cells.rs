//! Values as text, in the form in which the records have them.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float16Type, Float32Type,
    Float64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::ArrayFormatter;
use arrow_schema::{DataType, Schema};
use datafusion::config::{ConfigField, FormatOptions};

/// Decimals of a float.
const DECIMALS: usize = 12;

/// Returns the letter of each column's type.
pub(super) fn types(schema: &Schema) -> String {
    schema
        .fields()
        .iter()
        .map(|field| letter(field.data_type()))
        .collect()
}

fn letter(data_type: &DataType) -> char {
    match data_type {
        DataType::Boolean => 'B',
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => 'D',
        DataType::Timestamp(..) => 'P',
        DataType::Dictionary(keys, values) if keys.is_integer() && is_text(values) => 'T',
        text if is_text(text) => 'T',
        integer if integer.is_integer() => 'I',
        float if float.is_floating() || float.is_decimal() => 'R',
        _ => '?',
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Returns the rows of batches. A row whose last value has several lines is followed by a row for each of
/// them.
pub(super) fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let mut cells: Vec<String> = batch.columns().iter().map(|column| cell(column, row)).collect();
            match cells.last().filter(|last| last.contains('\n')).cloned() {
                None => rows.push(cells),
                Some(last) => {
                    cells.pop();
                    rows.push(cells);
                    rows.extend(last.split('\n').enumerate().map(numbered));
                }
            }
        }
    }
    rows
}

/// Returns the row for one line of a value, with its number, and a dash for each space it begins with.
fn numbered((at, line): (usize, &str)) -> Vec<String> {
    let content = line.trim_start();
    let dashes = "-".repeat(line.len() - content.len());
    vec![format!("{:02}){dashes}{content}", at + 1)]
}

fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".to_owned();
    }
    match column.data_type() {
        DataType::Null => "NULL".to_owned(),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Float16 => float(
            column.as_primitive::<Float16Type>().value(row).to_f64(),
            |value| value.to_string(),
        ),
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            float(f64::from(value), |_| value.to_string())
        }
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row), |value| {
            value.to_string()
        }),
        DataType::Decimal32(..) => decimal::<Decimal32Type>(column, row),
        DataType::Decimal64(..) => decimal::<Decimal64Type>(column, row),
        DataType::Decimal128(..) => decimal::<Decimal128Type>(column, row),
        DataType::Decimal256(..) => decimal::<Decimal256Type>(column, row),
        DataType::Utf8 => text(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => text(column.as_string::<i64>().value(row)),
        DataType::Utf8View => text(column.as_string_view().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            cell(dictionary.values(), dictionary.normalized_keys()[row])
        }
        _ => {
            let mut options = FormatOptions::default();
            options.set("null", "NULL").unwrap();
            let options = (&options).try_into().unwrap();
            let formatter = ArrayFormatter::try_new(column.as_ref(), &options).unwrap();
            formatter
                .value(row)
                .try_to_string()
                .unwrap_or_else(|error| format!("error: {error}"))
        }
    }
}

fn text(value: &str) -> String {
    match value {
        "" => "(empty)".to_owned(),
        value => value.trim_end_matches('\n').replace('\0', "\\0"),
    }
}

fn decimal<T: DecimalType>(column: &ArrayRef, row: usize) -> String {
    trimmed(column.as_primitive::<T>().value_as_string(row))
}

/// Returns a float as text; `digits` returns the shortest digits that identify it, without an exponent.
fn float(value: f64, digits: impl Fn(f64) -> String) -> String {
    match value {
        nan if nan.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        value => trimmed(rounded(&digits(value), DECIMALS)),
    }
}

/// Rounds digits to a number of decimals, half to even.
fn rounded(digits: &str, decimals: usize) -> String {
    let Some((whole, fraction)) = digits.split_once('.') else {
        return digits.to_owned();
    };
    let Some(rest) = fraction.get(decimals..).filter(|rest| !rest.is_empty()) else {
        return digits.to_owned();
    };
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => ("-", whole),
        None => ("", whole),
    };
    let mut kept: Vec<u8> = [whole.as_bytes(), &fraction.as_bytes()[..decimals]].concat();
    let is_odd = kept.last().is_some_and(|digit| (digit - b'0') % 2 == 1);
    let half = rest.as_bytes()[0].cmp(&b'5');
    let is_more = rest.bytes().skip(1).any(|digit| digit != b'0');
    if half.is_gt() || half.is_eq() && (is_more || is_odd) {
        let nines = kept.iter().rev().take_while(|digit| **digit == b'9').count();
        let at = kept.len() - nines;
        kept[at..].fill(b'0');
        match at {
            0 => kept.insert(0, b'1'),
            at => kept[at - 1] += 1,
        }
    }
    let point = kept.len() - decimals;
    let kept = String::from_utf8(kept).unwrap();
    format!("{sign}{}.{}", &kept[..point], &kept[point..])
}

/// Removes zeros at the end of the decimals, and the sign of zero.
fn trimmed(digits: String) -> String {
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        digits
    };
    match digits.as_str() {
        "-0" | "" | "-" => "0".to_owned(),
        _ => digits,
    }
}

#[test]
fn floats_are_rounded_half_to_even() {
    for (value, text) in [
        (0.1, "0.1"),
        (-0.0, "0"),
        (1e20, "100000000000000000000"),
        (0.0000000000005, "0"),
        (0.0000000000015, "0.000000000002"),
        (-0.99999999999996, "-1"),
        (9.9999999999999, "10"),
        (1234.0, "1234"),
        (f64::NEG_INFINITY, "-Infinity"),
        (-f64::NAN, "NaN"),
    ] {
        assert_eq!(float(value, |value| value.to_string()), text, "{value}");
    }
}
