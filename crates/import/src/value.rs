//! Texts as values of a given type, as a user writes them.

use std::borrow::Cow;

use arrow_array::timezone::Tz;
use arrow_array::types::{
    Date32Type, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_cast::parse::{Parser, string_to_datetime};
use arrow_schema::{DataType, TimeUnit};
use halocline_values::times::{read as read_time, with_seconds};

use super::text::SlashedDate;

/// Returns true if `text` can be decoded as `data_type`.
pub(crate) fn is_value(text: &str, data_type: &DataType) -> bool {
    fn parses<T: Parser>(text: &str) -> bool {
        <T as Parser>::parse(text).is_some()
    }
    match data_type {
        DataType::Boolean => boolean(text).is_some(),
        DataType::Int8 => parses::<Int8Type>(text),
        DataType::Int16 => parses::<Int16Type>(text),
        DataType::Int32 => parses::<Int32Type>(text),
        DataType::Int64 => parses::<Int64Type>(text),
        DataType::UInt8 => parses::<UInt8Type>(text),
        DataType::UInt16 => parses::<UInt16Type>(text),
        DataType::UInt32 => parses::<UInt32Type>(text),
        DataType::UInt64 => parses::<UInt64Type>(text),
        DataType::Float32 => parses::<Float32Type>(text),
        DataType::Float64 => parses::<Float64Type>(text),
        DataType::Decimal128(precision, scale) => decimal(text, *precision, *scale).is_some(),
        DataType::Date32 => date(text).is_some(),
        DataType::Date64 => parses::<Date64Type>(text),
        DataType::Time32(TimeUnit::Second) => parses::<Time32SecondType>(text),
        DataType::Time32(_) => parses::<Time32MillisecondType>(text),
        DataType::Time64(TimeUnit::Microsecond) => parses::<Time64MicrosecondType>(text),
        DataType::Time64(_) => parses::<Time64NanosecondType>(text),
        DataType::Timestamp(unit, name) => {
            zone(name.as_deref()).is_some_and(|zone| timestamp(text, *unit, zone).is_some())
        }
        _ => true,
    }
}

/// Parses `true` or `false` in any case.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match () {
        () if text.eq_ignore_ascii_case("true") => Some(true),
        () if text.eq_ignore_ascii_case("false") => Some(false),
        () => None,
    }
}

/// Returns the unscaled value of a decimal; `None` if the type has no room for all of its digits.
pub(crate) fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let scale = i32::from(scale);
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (number, exponent) = match digits.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all = || whole.bytes().chain(fraction.bytes());
    if all().next().is_none() || !all().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut value = 0i128;
    let mut zeros = 0u32;
    for byte in all() {
        // Zeros count only if another digit follows, so that a value may end in any number of them.
        if byte == b'0' {
            zeros += u32::from(value != 0);
            continue;
        }
        value = value
            .checked_mul(10i128.checked_pow(zeros + 1)?)?
            .checked_add(i128::from(byte - b'0'))?;
        zeros = 0;
    }
    if value != 0 {
        let shift =
            i64::from(scale) + i64::from(exponent) - i64::try_from(fraction.len()).ok()? + i64::from(zeros);
        value = value.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    }
    let fits = value < 10i128.checked_pow(u32::from(precision))?;
    fits.then_some(if text.starts_with('-') { -value } else { value })
}

/// Returns a timestamp in `unit` from 1970, of `zone` if the text names none; `None` if it has digits that
/// the unit has no room for.
pub(crate) fn timestamp(text: &str, unit: TimeUnit, zone: Tz) -> Option<i64> {
    let nanoseconds = |text: &str| {
        let time = string_to_datetime(&zone, text).or_else(|error| match with_seconds(text) {
            Some(whole) => string_to_datetime(&zone, &whole),
            None => Err(error),
        });
        let time = time.ok()?;
        Some(i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos()))
    };
    in_unit(text, unit, nanoseconds)
}

/// Returns a timestamp with time zone as [`timestamp`] does, by the session's rule for times that a clock
/// leaves out or shows twice.
pub(crate) fn session_timestamp(text: &str, data_type: &DataType, zone: Tz) -> Option<i64> {
    let DataType::Timestamp(unit, _) = data_type else {
        return None;
    };
    in_unit(text, *unit, |text| read_time(text, data_type, Some(zone)))
}

/// Returns the time that `nanoseconds` reads in a text, in `unit`.
fn in_unit(text: &str, unit: TimeUnit, nanoseconds: impl Fn(&str) -> Option<i128>) -> Option<i64> {
    let nanos = nanoseconds(text).or_else(|| {
        // As a date with the year first.
        let slashed = text.as_bytes().get(4) == Some(&b'/');
        slashed.then(|| nanoseconds(&text.replacen('/', "-", 2)))?
    });
    let nanos = nanos?;
    let step = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    (nanos % step == 0)
        .then(|| i64::try_from(nanos / step).ok())
        .flatten()
}

/// Returns a date as days from 1970-01-01. `2024/01/05` is one too; the order of day and month is not guessed.
pub(crate) fn date(text: &str) -> Option<i32> {
    Date32Type::parse(text).or_else(|| SlashedDate::Ymd.date(text))
}

/// Returns the bytes that a text stands for, in which `\xHH` is a byte and every other character itself;
/// `None` if a backslash begins nothing of that kind.
pub(crate) fn bytes_of(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let [b'\\', b'x' | b'X', high, low, behind @ ..] = &rest[at..] else {
            return None;
        };
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        bytes.extend_from_slice(&rest[..at]);
        bytes.push(u8::try_from(16 * digit(high)? + digit(low)?).ok()?);
        rest = behind;
    }
    bytes.extend_from_slice(rest);
    Some(Cow::Owned(bytes))
}

/// Returns the text that [`bytes_of`] reads as these bytes.
pub fn text_of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' | b'\'' | b'"' | ..=0x1f | 0x7f.. => {
                text.push_str("\\x");
                let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
                text.extend([byte >> 4, byte & 15].map(|half| digit(half).to_ascii_uppercase()));
            }
            printable => text.push(char::from(*printable)),
        }
    }
    text
}

/// Returns the time zone of a timestamp type; UTC if it has none. `None` if it is unknown.
pub(crate) fn zone(name: Option<&str>) -> Option<Tz> {
    name.unwrap_or("+00:00").parse().ok()
}
