//! Parsers that accept a text only if the value prints as the same text again.
//!
//! Type inference uses nothing else but [`number`] and [`SlashedDate`], which accept a text only if the value
//! is the number or date that it names. So an inferred type never alters a value: `007`, `+1`, `TRUE` and
//! `2024-1-5` stay texts. Dates and timestamps print as CSV output does: `2024-01-05`,
//! `2024-01-05 10:00:00.250`, and with a time zone `2024-01-05T10:00:00Z`.

use arrow_array::types::Float64Type;
use arrow_cast::parse::Parser;

/// Digits of a `decimal(38, s)`.
const MAX_DIGITS: usize = 38;
/// Longest text of a number; a double prints in at most 24 bytes.
const MAX_NUMBER: usize = 40;

/// Parses `true` or `false`.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A number of at most [`SHORT_DIGITS`] digits, with or without a point.
struct ShortNumber {
    /// The digits without the point.
    digits: u64,
    negative: bool,
    /// Digits before the point, without a single zero.
    whole: u8,
    /// Digits after the point; `None` without a point.
    scale: Option<u8>,
}

/// Digits whose number fits 64 bits.
const SHORT_DIGITS: usize = 18;

impl ShortNumber {
    /// Parses a number without needless zeros before the point and with digits on both of its sides.
    #[inline]
    fn parse(text: &[u8]) -> Option<Self> {
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        if rest.is_empty() || rest.len() > SHORT_DIGITS + 1 {
            return None;
        }
        let (mut digits, mut point) = (0u64, None);
        for (i, byte) in rest.iter().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit < 10 {
                digits = digits * 10 + u64::from(digit);
            } else if *byte == b'.' && point.is_none() {
                point = Some(i);
            } else {
                return None;
            }
        }
        let whole = point.unwrap_or(rest.len());
        let scale = point.map(|point| rest.len() - point - 1);
        let count = whole + scale.unwrap_or(0);
        if whole == 0 || scale == Some(0) || count > SHORT_DIGITS || (whole > 1 && rest[0] == b'0') {
            return None;
        }
        Some(Self {
            digits,
            negative,
            whole: if rest[0] == b'0' {
                0
            } else {
                u8::try_from(whole).ok()?
            },
            scale: scale.map(|scale| scale as u8),
        })
    }

    /// Returns the digits with their sign; `None` for a negative zero.
    #[inline]
    fn signed(&self) -> Option<i64> {
        let digits = self.digits.cast_signed();
        match self.negative {
            true if digits == 0 => None,
            true => Some(-digits),
            false => Some(digits),
        }
    }
}

/// Returns a whole number of 64 bits.
#[inline]
pub(super) fn long(text: &str) -> Option<i64> {
    match ShortNumber::parse(text.as_bytes()) {
        Some(short) if short.scale.is_none() => short.signed(),
        Some(_) => None,
        None => i64::try_from(integer(text)?).ok(),
    }
}

/// Digits of a number that the nearest double always denotes, as its shortest form has no others.
const DOUBLE_DIGITS: u64 = 1_000_000_000_000_000;
/// The powers of ten that are doubles, as far as numbers of that many digits need them.
const POWERS: [f64; 19] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
];
/// The whole numbers up to here are doubles.
const WHOLE_DOUBLES: i128 = 1 << 53;

/// Parses a number, with or without a point, as the double whose shortest form is the same number: `1`,
/// `2.50`, `1e-7`.
pub(super) fn number(text: &str) -> Option<f64> {
    if let Some(short) = ShortNumber::parse(text.as_bytes())
        && (short.digits != 0 || !short.negative)
    {
        if short.digits < DOUBLE_DIGITS {
            // Both are exact, so the quotient is the nearest double.
            let value = short.digits as f64 / POWERS[usize::from(short.scale.unwrap_or(0))];
            return Some(if short.negative { -value } else { value });
        }
        if short.scale.is_some() && !text.ends_with('0') {
            return double(text);
        }
    }
    if let Some(whole) = integer(text) {
        return (whole.abs() <= WHOLE_DOUBLES).then_some(whole as f64);
    }
    if fixed(text).is_none() {
        return double(text);
    }
    // All of its digits count, except zeros at the end.
    let trimmed = text.trim_end_matches('0');
    let whole = if trimmed.ends_with('.') { "0" } else { "" };
    double(&format!("{trimmed}{whole}"))
}

/// Returns a whole number of at most 38 digits.
pub(super) fn integer(text: &str) -> Option<i128> {
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
pub(super) struct FixedPoint {
    /// The digits without the point.
    pub unscaled: i128,
    /// Digits after the point.
    pub scale: u8,
    /// Digits that a decimal type needs, those after the point included.
    pub precision: u8,
}

/// Parses a number with a point, digits on both of its sides, and at most 38 digits.
pub(super) fn fixed(text: &str) -> Option<FixedPoint> {
    if let Some(short) = ShortNumber::parse(text.as_bytes()) {
        let scale = short.scale?;
        return Some(FixedPoint {
            unscaled: i128::from(short.signed()?),
            scale,
            precision: (short.whole + scale).max(1),
        });
    }
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

/// Parses a number that is a double's shortest decimal form, or has an exponent and prints the same with
/// its number of digits: `1e-7`, `1e-07`, `2.50E+3`, `1.000000000000000056e-01`. `1e3`,
/// without a sign or a point, may be a code.
pub(super) fn double(text: &str) -> Option<f64> {
    let first = *text.as_bytes().first()?;
    let plausible =
        text.len() <= MAX_NUMBER && (first.is_ascii_digit() || matches!(first, b'-' | b'N' | b'i'));
    if !plausible {
        return None;
    }
    let value = Float64Type::parse(text)?;
    let is_shortest = ryu::Buffer::new().format(value) == text;
    (is_shortest || is_scientific(text, value)).then_some(value)
}

/// Returns true if a value prints as the text, with an exponent and the same number of digits.
fn is_scientific(text: &str, value: f64) -> bool {
    if !text.contains(['e', 'E']) || !text[1..].contains(['.', '-', '+']) {
        return false;
    }
    let Some((given, count)) = significant_digits(text) else {
        return false;
    };
    let printed = format!("{value:.*e}", count - 1);
    significant_digits(&printed).is_some_and(|(printed, _)| printed == given)
}

/// Returns the sign of a number, its digits without zeros at both ends, and the exponent of the last one;
/// with the number of digits that it has without zeros in front. `None` unless it has a digit before a point
/// or an exponent, no needless zero there, and a digit after each of them.
fn significant_digits(text: &str) -> Option<((bool, String, i32), usize)> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let has_needless_zero = whole.len() > 1 && whole.starts_with('0');
    let magnitude = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if !are_digits(whole) || !are_digits(fraction) || !are_digits(magnitude) || has_needless_zero {
        return None;
    }
    let is_negative = unsigned.len() < mantissa.len();
    let digits = format!("{whole}{fraction}");
    let counted = digits.trim_start_matches('0');
    let significant = counted.trim_end_matches('0');
    if significant.is_empty() {
        return Some(((is_negative, String::new(), 0), 1));
    }
    let behind = (counted.len() - significant.len()) as i32;
    let last = exponent.parse::<i32>().ok()? - fraction.len() as i32 + behind;
    Some(((is_negative, significant.to_owned(), last), counted.len()))
}

/// Returns a date as days from 1970-01-01.
pub(super) fn date(text: &str) -> Option<i32> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    days(small(&bytes[..4])?, small(&bytes[5..7])?, small(&bytes[8..])?)
}

/// Parses up to eight digits.
#[inline]
fn small(digits: &[u8]) -> Option<i64> {
    let mut value = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    (1..=8).contains(&digits.len()).then_some(value)
}

/// The order of the parts of a date with slashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlashedDate {
    /// `2024/01/31`
    Ymd,
    /// `31/01/2024`
    Dmy,
    /// `01/31/2024`
    Mdy,
}

impl SlashedDate {
    /// Returns a date as days from 1970-01-01. Its year has four digits, month and day one or two.
    pub(crate) fn date(self, text: &str) -> Option<i32> {
        let mut parts = text.split('/');
        let (first, second, third) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let (year, month, day) = match self {
            Self::Ymd => (first, second, third),
            Self::Dmy => (third, second, first),
            Self::Mdy => (third, first, second),
        };
        if year.len() != 4 || month.len() > 2 || day.len() > 2 {
            return None;
        }
        let part = |text: &str| small(text.as_bytes());
        days(part(year)?, part(month)?, part(day)?)
    }

    /// Returns a timestamp in nanoseconds from 1970: such a date, a blank, and a time as [`timestamp`] has
    /// it.
    pub(crate) fn timestamp(self, text: &str) -> Option<i64> {
        let (date, time) = text.split_once(' ')?;
        nanos_of(self.date(date)?, time.as_bytes())
    }
}

/// Returns a date of the calendar as days from 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> Option<i32> {
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
pub(super) fn timestamp(text: &str) -> Option<i64> {
    point_in_time(text, b' ')
}

/// Parses a timestamp in UTC in nanoseconds from 1970: `2024-01-05T10:00:00Z`.
pub(super) fn timestamp_utc(text: &str) -> Option<i64> {
    point_in_time(text.strip_suffix('Z')?, b'T')
}

fn point_in_time(text: &str, separator: u8) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() < 19 || bytes[10] != separator {
        return None;
    }
    nanos_of(date(text.get(..10)?)?, &bytes[11..])
}

/// Returns nanoseconds from 1970 of a time such as `10:00:00.250` on a day.
fn nanos_of(day: i32, time: &[u8]) -> Option<i64> {
    if time.len() < 8 || time[2] != b':' || time[5] != b':' {
        return None;
    }
    let (day, hour) = (i64::from(day), small(&time[..2])?);
    let (minute, second) = (small(&time[3..5])?, small(&time[6..8])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanos = match &time[8..] {
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
    fn numbers_as_doubles_are_the_same_numbers() {
        for (text, value) in [
            ("1", 1.0),
            ("-7", -7.0),
            ("2.50", 2.5),
            ("0.00001", 0.00001),
            ("9007199254740992", 9_007_199_254_740_992.0),
            ("0.30000000000000004", 0.1 + 0.2),
            ("0.300000000000000040", 0.1 + 0.2),
            ("1e16", 1e16),
            ("-0.0", -0.0),
            ("1.0e3", 1000.0),
            ("9.31e-05", 9.31e-5),
            ("-2.50E+3", -2500.0),
            ("1e-07", 1e-7),
            ("0.000000000000000000e+00", 0.0),
            ("1.000000000000000056e-01", 0.1),
            ("9.382193455180704e-05", 9.382193455180704e-5),
        ] {
            assert_eq!(
                number(text).map(f64::to_bits),
                Some(f64::to_bits(value)),
                "{text}"
            );
        }
        for text in [
            "",
            "-",
            "007",
            "-0",
            "+1",
            "1e3",
            "1e",
            "01e3",
            "1.e3",
            "1e400",
            "1.000000000000000057e-01",
            "9007199254740993e0",
            "9007199254740993",
            "0.1000000000000000055",
            "1.",
            ".5",
        ] {
            assert_eq!(number(text), None, "{text:?}");
        }
        for text in [
            "0",
            "7",
            "-12",
            "999999999999999999",
            "9223372036854775807",
            "1.5",
            "-0",
            "00",
            "",
        ] {
            assert_eq!(
                long(text),
                integer(text).and_then(|value| i64::try_from(value).ok()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn dates_with_slashes_have_an_order() {
        use SlashedDate::{Dmy, Mdy, Ymd};
        for (order, text, same) in [
            (Ymd, "2024/01/31", Some("2024-01-31")),
            (Ymd, "2024/1/5", Some("2024-01-05")),
            (Dmy, "31/01/2024", Some("2024-01-31")),
            (Mdy, "1/31/2024", Some("2024-01-31")),
            (Mdy, "31/01/2024", None),
            (Dmy, "31/01/24", None),
            (Ymd, "2024/001/31", None),
            (Ymd, "2024/01/31/", None),
            (Ymd, "2024//31", None),
        ] {
            assert_eq!(order.date(text), same.and_then(date), "{text}");
        }
        assert_eq!(
            Ymd.timestamp("2024/01/05 10:00:00.250"),
            timestamp("2024-01-05 10:00:00.250")
        );
        assert_eq!(Ymd.timestamp("2024/01/05"), None);
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
