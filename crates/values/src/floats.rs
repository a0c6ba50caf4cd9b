//! Decimals as the nearest floats.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Float32Array, Float64Array};
use arrow_schema::DataType;

/// Returns the float that is nearest to a decimal, which the kernels miss by a bit where both take more than
/// 53 bits.
pub fn nearest_float(value: i128, scale: i8) -> f64 {
    const MAX_EXACT_INTEGER: u128 = 1 << f64::MANTISSA_DIGITS;
    match scale {
        // Powers of ten up to 22 are floats.
        0..=22 if value.unsigned_abs() <= MAX_EXACT_INTEGER => value as f64 / 10_f64.powi(scale.into()),
        _ => {
            let text = format!("{value}e{}", -i32::from(scale));
            // Digits with an exponent are a float always.
            text.parse().unwrap_or(f64::NAN)
        }
    }
}

/// Returns the float of 32 bits that is nearest to a decimal; rounding twice may miss it.
pub fn nearest_narrow_float(value: i128, scale: i8) -> f32 {
    format!("{value}e{}", -i32::from(scale))
        .parse()
        .unwrap_or(f32::NAN)
}

/// Converts decimals to the nearest 32-bit or 64-bit floats; `None` if `to` is another type.
pub fn decimals_to_floats(decimals: &Decimal128Array, to: &DataType) -> Option<ArrayRef> {
    let scale = decimals.scale();
    let values = decimals.iter();
    Some(match to {
        DataType::Float64 => {
            let floats = values.map(|value| value.map(|value| nearest_float(value, scale)));
            Arc::new(floats.collect::<Float64Array>())
        }
        DataType::Float32 => {
            let floats = values.map(|value| value.map(|value| nearest_narrow_float(value, scale)));
            Arc::new(floats.collect::<Float32Array>())
        }
        _ => return None,
    })
}
