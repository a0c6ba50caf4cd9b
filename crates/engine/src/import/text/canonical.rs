//! Parsers that accept a text only if the value prints as the same text again.
//!
//! Type inference uses nothing else, so that an inferred type never alters a value: `007`, `+1`, `1.50`
//! beside `2.5`, `TRUE` and `2024-1-5` stay texts. Dates and timestamps print as CSV output does:
//! `2024-01-05`, `2024-01-05 10:00:00.250`, and with a time zone `2024-01-05T10:00:00Z`.

use arrow_array::types::Float64Type;
use arrow_cast::parse::Parser;

/// Digits of a `decimal(38, s)`.
const MAX_DIGITS: usize = 38;
/// Longest text of a number; a double prints in at most 24 bytes.
const MAX_NUMBER: usize = 40;

/// Parses `true` or `false`.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Returns a whole number of at most 38 digits.
pub(crate) fn integer(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let leading_zero = digits.first() == Some(&b'0') && (digits.len() > 1 || text.len() > 1);
    if digits.is_empty() || digits.len() > MAX_DIGITS || leading_zero {
        return None;
    }
    let value = unsigned(digits)?;
    Some(if text.len() > digits.len() { -value } else { value })
}

/// A number with a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FixedPoint {
    /// The digits without the point.
    pub(crate) unscaled: i128,
    /// Digits after the point.
    pub(crate) scale: u8,
    /// Digits that a decimal type needs, those after the point included.
    pub(crate) precision: u8,
}

/// Parses a number with a point, digits on both of its sides, and at most 38 digits.
pub(crate) fn fixed(text: &str) -> Option<FixedPoint> {
    if text.len() > MAX_NUMBER + 1 {
        return None;
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.')?;
    let whole_digits = if whole == "0" { 0 } else { whole.len() };
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    if whole.is_empty() || fraction.is_empty() || leading_zero || whole_digits + fraction.len() > MAX_DIGITS {
        return None;
    }
    let (whole, fraction_value) = (unsigned(whole.as_bytes())?, unsigned(fraction.as_bytes())?);
    let value = whole * 10i128.pow(u32::try_from(fraction.len()).ok()?) + fraction_value;
    let negative = digits.len() < text.len();
    if negative && value == 0 {
        return None;
    }
    Some(FixedPoint {
        unscaled: if negative { -value } else { value },
        scale: u8::try_from(fraction.len()).ok()?,
        precision: u8::try_from((whole_digits + fraction.len()).max(1)).ok()?,
    })
}

/// Parses a number that is a double's shortest decimal form.
pub(crate) fn double(text: &str) -> Option<f64> {
    let first = *text.as_bytes().first()?;
    let plausible =
        text.len() <= MAX_NUMBER && (first.is_ascii_digit() || matches!(first, b'-' | b'N' | b'i'));
    if !plausible {
        return None;
    }
    let value = Float64Type::parse(text)?;
    (ryu::Buffer::new().format(value) == text).then_some(value)
}

/// Returns a date as days from 1970-01-01.
pub(crate) fn date(text: &str) -> Option<i32> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let number = |range: std::ops::Range<usize>| i64::try_from(unsigned(&bytes[range])?).ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if year == 0 || day == 0 || day > last {
        return None;
    }
    // Days since 0000-03-01, in years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    i32::try_from(days + (153 * month + 2) / 5 + day - 1 - 719_468).ok()
}

/// Parses a timestamp without a time zone in nanoseconds from 1970: `2024-01-05 10:00:00`, then nothing or 3,
/// 6 or 9 digits of a second, as few as possible.
pub(crate) fn timestamp(text: &str) -> Option<i64> {
    point_in_time(text, b' ')
}

/// Parses a timestamp in UTC in nanoseconds from 1970: `2024-01-05T10:00:00Z`.
pub(crate) fn timestamp_utc(text: &str) -> Option<i64> {
    point_in_time(text.strip_suffix('Z')?, b'T')
}

fn point_in_time(text: &str, separator: u8) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() < 19 || bytes[10] != separator || bytes[13] != b':' || bytes[16] != b':' {
        return None;
    }
    let day = i64::from(date(text.get(..10)?)?);
    let number = |range: std::ops::Range<usize>| i64::try_from(unsigned(&bytes[range])?).ok();
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanos = match &bytes[19..] {
        [] => 0,
        [b'.', digits @ ..] if matches!(digits.len(), 3 | 6 | 9) && !digits.ends_with(b"000") => {
            i64::try_from(unsigned(digits)?).ok()? * 10i64.pow(9 - u32::try_from(digits.len()).ok()?)
        }
        _ => return None,
    };
    let seconds = ((day * 24 + hour) * 60 + minute) * 60 + second;
    i64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).ok()
}

/// Parses digits; at most 38 of them fit.
fn unsigned(digits: &[u8]) -> Option<i128> {
    let mut value = 0i128;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_that_print_the_same_are_numbers() {
        for text in [
            "0",
            "7",
            "-1",
            "9223372036854775807",
            "99999999999999999999999999999999999999",
        ] {
            assert_eq!(integer(text).map(|v| v.to_string()).as_deref(), Some(text));
        }
        for text in [
            "",
            "-",
            "007",
            "-0",
            "+1",
            " 1",
            "1 ",
            "1e3",
            "0x1",
            "100000000000000000000000000000000000000",
        ] {
            assert_eq!(integer(text), None, "{text:?}");
        }
        for (text, unscaled, scale, precision) in [
            ("1.50", 150, 2, 3),
            ("-0.05", -5, 2, 2),
            ("0.0", 0, 1, 1),
            ("12.345", 12345, 3, 5),
        ] {
            let expected = FixedPoint {
                unscaled,
                scale,
                precision,
            };
            assert_eq!(fixed(text), Some(expected), "{text}");
        }
        for text in ["1", ".5", "5.", "-0.00", "+1.5", "01.5", "1.5e3", "1,5", "1.-5"] {
            assert_eq!(fixed(text), None, "{text:?}");
        }
        for text in [
            "1.5",
            "-0.0",
            "1e16",
            "1e-7",
            "NaN",
            "-inf",
            "0.30000000000000004",
        ] {
            assert!(double(text).is_some(), "{text}");
        }
        for text in [
            "1",
            "1.50",
            "1e3",
            "nan",
            "infinity",
            "1E16",
            "0.1000000000000000055",
        ] {
            assert_eq!(double(text), None, "{text:?}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, days) in [
            ("1970-01-01", Some(0)),
            ("1969-12-31", Some(-1)),
            ("2000-02-29", Some(11_016)),
            ("2024-03-01", Some(19_783)),
            ("0001-01-01", Some(-719_162)),
            ("9999-12-31", Some(2_932_896)),
            ("1900-02-29", None),
            ("2024-13-01", None),
            ("2024-04-31", None),
            ("0000-01-01", None),
            ("2024-1-05", None),
            ("2024-01-00", None),
        ] {
            assert_eq!(date(text), days, "{text}");
        }
    }

    #[test]
    fn timestamps_have_as_few_digits_as_possible() {
        assert_eq!(timestamp("1970-01-02 00:00:01"), Some(86_401_000_000_000));
        assert_eq!(timestamp("1970-01-01 00:00:00.250"), Some(250_000_000));
        assert_eq!(
            timestamp_utc("1970-01-01T00:00:01.000000001Z"),
            Some(1_000_000_001)
        );
        for text in [
            "1970-01-01T00:00:00",
            "1970-01-01 00:00:00.25",
            "1970-01-01 00:00:00.250000",
            "1970-01-01 24:00:00",
            "1500-01-01 00:00:00",
            "1970-01-01 00:00",
        ] {
            assert_eq!(timestamp(text), None, "{text}");
        }
    }
}
