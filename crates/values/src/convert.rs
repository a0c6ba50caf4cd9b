//! Conversions of values where Arrow's kernels lose or reject something that SQL keeps: floats become the
//! nearest integer (ties to even) and decimals too (ties away from zero), which the kernels truncate; texts
//! become decimals at any length and with an exponent; decimals become the nearest float.
//!
//! All else is Arrow's. A value that does not fit its new type is an error, or NULL if the conversion is safe.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::{Decimal128Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, StringArray};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};

use super::floats::decimals_to_floats;
use super::names::sql_name;
use super::times::{TimeRule, convert_times, is_time, texts_to_times};

/// Maximum number of digits of a decimal of 128 bits.
const MAX_DIGITS: usize = 38;

/// Converts values to another type. Timestamps without time zone are read in `zone`; none is UTC.
///
/// # Errors
/// There is no such conversion, or a value does not fit and `safe` is false.
pub fn convert(
    values: &ArrayRef,
    to: &DataType,
    safe: bool,
    zone: Option<Tz>,
) -> Result<ArrayRef, ArrowError> {
    let from = values.data_type();
    if from == to {
        return Ok(Arc::clone(values));
    }
    let cast = |values: &ArrayRef, to: &DataType| {
        let options = CastOptions {
            safe,
            ..CastOptions::default()
        };
        cast_with_options(values, to, &options)
    };
    match (from, to) {
        (DataType::Dictionary(_, plain), _) => convert(&cast(values, plain)?, to, safe, zone),
        (DataType::Float16 | DataType::Float32 | DataType::Float64, to) if to.is_integer() => {
            cast(&rounded_to_even(values), to)
        }
        (DataType::Decimal128(precision, scale @ 1..), to) if to.is_integer() => {
            // Rounding may add a digit.
            let digits = precision.saturating_sub(scale.unsigned_abs()).max(1) + 1;
            let whole = DataType::Decimal128(digits.min(MAX_DIGITS as u8), 0);
            cast(&cast(values, &whole)?, to)
        }
        (DataType::Decimal128(..), DataType::Float32 | DataType::Float64) => {
            let floats = decimals_to_floats(values.as_primitive::<Decimal128Type>(), to);
            floats.map_or_else(|| cast(values, to), Ok)
        }
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::Decimal128(..)) => {
            let texts = cast(values, &DataType::Utf8)?;
            texts_to_decimals(texts.as_string(), to, safe)
        }
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::Timestamp(..)) => {
            let texts = cast(values, &DataType::Utf8)?;
            texts_to_times(texts.as_string(), to, safe, zone)
        }
        (DataType::Timestamp(unit, Some(_)), to) if to.is_string() && zone.is_some() => {
            let label = zone.map(|zone| zone.to_string().into());
            let shown = cast(values, &DataType::Timestamp(*unit, label))?;
            cast(&shown, to)
        }
        (from, to) if is_time(from) && is_time(to) => {
            let rule = if safe { TimeRule::Safe } else { TimeRule::Strict };
            convert_times(values, to, rule, zone)
        }
        _ => cast(values, to),
    }
}

/// Returns floats without a fraction, ties to the even number.
fn rounded_to_even(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let floats = values.as_primitive::<Float64Type>();
            Arc::new(floats.unary::<_, Float64Type>(f64::round_ties_even))
        }
        DataType::Float32 => {
            let floats = values.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Float32Type>(f32::round_ties_even))
        }
        DataType::Float16 => {
            let floats = values.as_primitive::<Float16Type>();
            Arc::new(floats.unary::<_, Float32Type>(|float| float.to_f32().round_ties_even()))
        }
        _ => Arc::clone(values),
    }
}

fn texts_to_decimals(texts: &StringArray, to: &DataType, safe: bool) -> Result<ArrayRef, ArrowError> {
    let DataType::Decimal128(precision, scale) = *to else {
        return Err(ArrowError::CastError(format!("{to} is no decimal")));
    };
    let read = |text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        match decimal(text, precision, scale) {
            None if !safe => Err(ArrowError::CastError(format!(
                "'{text}' is not a value of type {}",
                sql_name(to)
            ))),
            value => Ok(value),
        }
    };
    let decimals = texts.iter().map(read);
    let decimals: Decimal128Array = decimals.collect::<Result<_, _>>()?;
    Ok(Arc::new(decimals.with_data_type(to.clone())))
}

/// Reads a number, with or without an exponent, as the unscaled value of a decimal, ties away from zero;
/// `None` if it is not a number or has more digits.
fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let text = text.trim();
    let (negative, text) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let digits = &digits[zeros..];
    // The number of digits that are kept; beyond those that there are, zeros follow.
    let kept = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?
        + i64::from(exponent)
        + i64::from(scale);
    if digits.is_empty() || kept < 0 {
        return Some(0);
    }
    let kept = usize::try_from(kept).ok().filter(|kept| *kept <= MAX_DIGITS)?;
    let digit = |at: usize| i128::from(digits.get(at).map_or(0, |digit| digit - b'0'));
    let cut = (0..kept).fold(0_i128, |value, at| value * 10 + digit(at));
    let value = cut + i128::from(digit(kept) >= 5);
    let fits = value < 10_i128.pow(u32::from(precision));
    fits.then_some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{Float32Array, Float64Array};

    #[test]
    fn texts_are_read_as_decimals() {
        for (text, precision, scale, value) in [
            ("1.005", 4, 2, Some(101)),
            ("-1.005", 4, 2, Some(-101)),
            ("1.0049999", 4, 2, Some(100)),
            (" 12.5 ", 4, 2, Some(1250)),
            ("99.995", 4, 2, None),
            ("1e2", 5, 2, Some(10000)),
            ("12.3e-1", 5, 2, Some(123)),
            ("0.0004e4", 5, 2, Some(400)),
            ("5e-3", 5, 2, Some(1)),
            ("4e-3", 5, 2, Some(0)),
            ("1e-2000000000", 5, 2, Some(0)),
            ("0e2000000000", 5, 2, Some(0)),
            ("1e2000000000", 5, 2, None),
            (".5", 5, 0, Some(1)),
            ("5.", 5, 1, Some(50)),
            ("+7", 5, 0, Some(7)),
            ("", 5, 2, None),
            (".", 5, 2, None),
            ("-", 5, 2, None),
            ("1.2.3", 5, 2, None),
            ("--1", 5, 2, None),
            ("nan", 5, 2, None),
        ] {
            assert_eq!(decimal(text, precision, scale), value, "{text}");
        }
        let long = format!("0.{}", "9".repeat(200));
        assert_eq!(decimal(&long, 38, 2), Some(100));
        assert_eq!(decimal(&"9".repeat(38), 38, 0), Some(10_i128.pow(38) - 1));
        assert_eq!(decimal(&"9".repeat(39), 38, 0), None);
        assert_eq!(decimal(&format!("{}.5", "9".repeat(38)), 38, 0), None);
        assert_eq!(decimal(&format!("{}7", "0".repeat(300)), 38, 0), Some(7));
    }

    #[test]
    fn integers_are_the_nearest() {
        let ints = |values: ArrayRef| {
            let ints = convert(&values, &DataType::Int32, false, None).unwrap();
            ints.as_primitive::<Int32Type>().values().to_vec()
        };
        let floats = vec![0.5, 1.5, 2.5, -0.5, -1.5, 2.4999, 2_147_483_647.4];
        let even = [0, 2, 2, 0, -2, 2, 2_147_483_647];
        assert_eq!(ints(Arc::new(Float64Array::from(floats))), even);
        assert_eq!(ints(Arc::new(Float32Array::from(vec![2.5, -3.5]))), [2, -4]);
        let decimals = |values: Vec<i128>, precision, scale| {
            let decimals = Decimal128Array::from(values).with_precision_and_scale(precision, scale);
            Arc::new(decimals.unwrap()) as ArrayRef
        };
        assert_eq!(
            ints(decimals(vec![5, -5, 4, 15, 25, 99], 2, 1)),
            [1, -1, 0, 2, 3, 10]
        );
        assert_eq!(ints(decimals(vec![50, 49], 2, 2)), [1, 0]);
        assert_eq!(ints(decimals(vec![5 * 10_i128.pow(37)], 38, 38)), [1]);
        for wrong in [f64::NAN, f64::INFINITY, 2_147_483_647.5, -2_147_483_649.0] {
            let values = Arc::new(Float64Array::from(vec![wrong])) as ArrayRef;
            assert!(
                convert(&values, &DataType::Int32, false, None).is_err(),
                "{wrong}"
            );
            let safe = convert(&values, &DataType::Int32, true, None).unwrap();
            assert_eq!(safe.null_count(), 1, "{wrong}");
        }
    }
}
