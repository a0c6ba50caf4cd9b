//! Conversions between dates and timestamps of any unit, with and without time zone.
//!
//! A timestamp with time zone is an instant, and its zone is how it is shown. One without, and a date, are
//! readings of a clock; where one becomes the other, the clock is that of the session's time zone. When the
//! clock goes forward, the times that it leaves out are those that it would have shown without the change
//! (02:30 becomes 03:30); when it goes back, a time that comes twice is the second one. PostgreSQL and DuckDB
//! have the same rules.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::{Date32Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, PrimitiveArray, StringArray};
use arrow_cast::cast::cast;
use arrow_cast::parse::string_to_datetime;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use chrono::{DateTime, MappedLocalTime, Offset, TimeZone, Utc};

use super::names::sql_name;

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// Nanoseconds of a day.
const DAY: i128 = 86_400 * SECOND;

/// What a conversion does with what its type has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeRule {
    /// Rounds to the nearest value, and fails for one that is out of range.
    Strict,
    /// Rounds to the nearest value, and returns NULL for one that is out of range.
    Safe,
    /// Rounds down; what is out of range is the first or the last value.
    Floor,
    /// Rounds up; what is out of range is the first or the last value.
    Ceiling,
    /// Keeps the order of values of other types: what is out of range is the first or last value, and what
    /// has the type already is not.
    Ordered,
}

/// Returns true for dates and timestamps.
pub fn is_time(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)
    )
}

/// Returns true for timestamps with time zone.
pub fn is_zoned(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

/// Returns the nanoseconds of a type's unit; `None` if it is not one of dates or timestamps.
pub fn unit_of(data_type: &DataType) -> Option<i128> {
    Some(match data_type {
        DataType::Date32 => DAY,
        DataType::Date64 => SECOND / 1_000,
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => SECOND,
            TimeUnit::Millisecond => SECOND / 1_000,
            TimeUnit::Microsecond => SECOND / 1_000_000,
            TimeUnit::Nanosecond => 1,
        },
        _ => return None,
    })
}

/// Returns the least and the greatest value of a type of dates or timestamps.
pub fn range_of(data_type: &DataType) -> (i128, i128) {
    match data_type {
        DataType::Date32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// Returns the time zone of a session; `None` for UTC.
pub fn session_zone(name: Option<&str>) -> Option<Tz> {
    let name = name.filter(|name| !matches!(*name, "" | "+00:00" | "UTC" | "Z"))?;
    name.parse().ok()
}

/// Returns the distance from UTC at an instant, in seconds; `None` beyond the calendar.
fn offset_at(zone: Tz, seconds: i64) -> Option<i64> {
    let utc = DateTime::from_timestamp(seconds, 0)?.naive_utc();
    let offset = zone.offset_from_utc_datetime(&utc).fix();
    Some(offset.local_minus_utc().into())
}

/// Returns the distance from UTC of a reading of the clock, in seconds; `None` beyond the calendar.
fn offset_of_reading(zone: Tz, seconds: i64) -> Option<i64> {
    let reading = DateTime::from_timestamp(seconds, 0)?.naive_utc();
    match zone.offset_from_local_datetime(&reading) {
        MappedLocalTime::Single(offset) => Some(offset.fix().local_minus_utc().into()),
        MappedLocalTime::Ambiguous(first, second) => {
            let (first, second) = (first.fix().local_minus_utc(), second.fix().local_minus_utc());
            // The smaller the distance, the later the instant.
            Some(first.min(second).into())
        }
        // No zone changes its clock twice within a day.
        MappedLocalTime::None => offset_at(zone, seconds - 86_400),
    }
}

/// Converts nanoseconds of a reading of the clock to those of an instant; `None` beyond the calendar.
pub fn instant(reading: i128, zone: Option<Tz>) -> Option<i128> {
    let Some(zone) = zone else { return Some(reading) };
    let seconds = i64::try_from(reading.div_euclid(SECOND)).ok()?;
    Some(reading - i128::from(offset_of_reading(zone, seconds)?) * SECOND)
}

/// Converts nanoseconds of an instant to those of the clock; `None` beyond the calendar.
pub fn reading(instant: i128, zone: Option<Tz>) -> Option<i128> {
    let Some(zone) = zone else { return Some(instant) };
    let seconds = i64::try_from(instant.div_euclid(SECOND)).ok()?;
    Some(instant + i128::from(offset_at(zone, seconds)?) * SECOND)
}

/// Divides nanoseconds by a unit.
fn units(value: i128, unit: i128, rule: TimeRule, to: &DataType) -> i128 {
    let half = |value: i128| (value.abs() + unit / 2) / unit * value.signum();
    match (to, rule) {
        (_, TimeRule::Ceiling) => -(-value).div_euclid(unit),
        (DataType::Date32, _) | (_, TimeRule::Floor) => value.div_euclid(unit),
        (DataType::Date64, _) => value.div_euclid(DAY) * (DAY / unit),
        _ => half(value),
    }
}

/// Converts dates and timestamps to another such type.
///
/// # Errors
/// The types are others, or a value is out of range, and the rule is strict.
pub fn convert_times(
    values: &ArrayRef,
    to: &DataType,
    rule: TimeRule,
    zone: Option<Tz>,
) -> Result<ArrayRef, ArrowError> {
    let from = values.data_type();
    let (Some(had), Some(has)) = (unit_of(from), unit_of(to)) else {
        return Err(ArrowError::CastError(format!(
            "{from} is no time, or {to} is none"
        )));
    };
    let (least, most) = match (rule, from == to) {
        // What has the type is nearer than all that has not.
        (TimeRule::Ordered, true) => (i128::from(i64::MIN) + 1, i128::from(i64::MAX) - 1),
        _ => range_of(to),
    };
    let shift = |value: i128| match (is_zoned(from), is_zoned(to)) {
        (true, false) => reading(value, zone),
        (false, true) => instant(value, zone),
        _ => Some(value),
    };
    let is_strict = matches!(rule, TimeRule::Strict | TimeRule::Safe);
    let converted = |value: i64| {
        let of_clock = i128::from(value) * had;
        match shift(of_clock).map(|value| units(value, has, rule, to)) {
            Some(value) if (least..=most).contains(&value) => i64::try_from(value).ok(),
            Some(_) if is_strict => None,
            Some(value) => i64::try_from(value.clamp(least, most)).ok(),
            None if is_strict => None,
            None => i64::try_from(if value < 0 { least } else { most }).ok(),
        }
    };
    let numbers = match from {
        DataType::Date32 => cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(values, &DataType::Int64)?,
    };
    let numbers = numbers.as_primitive::<Int64Type>();
    let results: Int64Array = match rule {
        TimeRule::Safe => numbers.unary_opt(converted),
        _ => numbers.try_unary(|value| converted(value).ok_or_else(|| out_of_range(from, value, to)))?,
    };
    of_numbers(results, to)
}

/// Returns dates or timestamps of the numbers that they are stored as.
pub fn of_numbers(numbers: Int64Array, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if *to == DataType::Date32 {
        let days: Int32Array = numbers.unary::<_, Int32Type>(|days| days as i32);
        return Ok(Arc::new(days.reinterpret_cast::<Date32Type>()));
    }
    let data = numbers.into_data().into_builder().data_type(to.clone()).build()?;
    Ok(arrow_array::make_array(data))
}

/// Returns the error for a value outside of a type.
fn out_of_range(from: &DataType, value: i64, to: &DataType) -> ArrowError {
    let shown = match from {
        DataType::Date32 => i32::try_from(value)
            .ok()
            .map(|days| Arc::new(PrimitiveArray::<Date32Type>::from(vec![days])) as ArrayRef),
        _ => of_numbers(Int64Array::from(vec![value]), from).ok(),
    };
    let text = shown.and_then(|shown| arrow_cast::display::array_value_to_string(&shown, 0).ok());
    let text = text.unwrap_or_else(|| value.to_string());
    let reach = match to {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            ", which has the years 1678 to 2261; cast it, and timestamps that it meets, to timestamp(6), which has \
             the years 0001 to 9999"
        }
        _ => "",
    };
    ArrowError::CastError(format!("'{text}' is not a value of type {}{reach}", sql_name(to)))
}

/// Reads a date and time as nanoseconds: of an instant for a type with time zone, else of the clock. The zone
/// of the text, as `+02:00`, has no meaning for a type without, but has to be one.
pub fn read(text: &str, to: &DataType, zone: Option<Tz>) -> Option<i128> {
    let text = text.trim();
    let nanoseconds = |time: DateTime<Utc>| {
        i128::from(time.timestamp()) * SECOND + i128::from(time.timestamp_subsec_nanos())
    };
    let (clock, has_zone) = match zone_in(text) {
        Some(at) => (text[..at].trim_end(), true),
        None => (text, false),
    };
    let read = |text: &str| {
        let read = string_to_datetime(&Utc, text).or_else(|error| match with_seconds(text) {
            Some(whole) => string_to_datetime(&Utc, &whole),
            None => Err(error),
        });
        read.ok().map(nanoseconds)
    };
    if has_zone {
        let instant = read(text)?;
        if is_zoned(to) {
            return Some(instant);
        }
    }
    let clock = read(clock)?;
    if is_zoned(to) {
        instant(clock, zone)
    } else {
        Some(clock)
    }
}

/// Returns `2024-01-05 10:00`, with a zone or without, as a time with seconds; `None` if it is not a time
/// without seconds.
pub fn with_seconds(text: &str) -> Option<String> {
    let (minutes, rest) = text.split_at_checked(16)?;
    let is_clock = matches!(minutes.as_bytes(), [.., b' ' | b'T', _, _, b':', _, _]);
    (is_clock && !rest.starts_with(':')).then(|| format!("{minutes}:00{rest}"))
}

/// Returns where the time zone in the text of a timestamp begins.
fn zone_in(text: &str) -> Option<usize> {
    let time = text.get(11..)?;
    let at = time.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.')?;
    Some(11 + at)
}

/// Converts texts to timestamps.
///
/// # Errors
/// A text is no timestamp, or out of range, and `safe` is false.
pub fn texts_to_times(
    texts: &StringArray,
    to: &DataType,
    safe: bool,
    zone: Option<Tz>,
) -> Result<ArrayRef, ArrowError> {
    let unit = unit_of(to).unwrap_or(1);
    let (least, most) = range_of(to);
    let read = |text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        let nanoseconds = read(text, to, zone);
        let value = nanoseconds.map(|value| units(value, unit, TimeRule::Strict, to));
        match value.filter(|value| (least..=most).contains(value)) {
            Some(value) => Ok(i64::try_from(value).ok()),
            None if safe => Ok(None),
            None if nanoseconds.is_some() && unit == 1 => Err(ArrowError::CastError(format!(
                "'{text}' is not a value of type {}, which has the years 1678 to 2261; write timestamp(6) for the years 0001 \
                 to 9999",
                sql_name(to)
            ))),
            None => Err(ArrowError::CastError(format!(
                "'{text}' is not a value of type {}",
                sql_name(to)
            ))),
        }
    };
    let values: Int64Array = texts.iter().map(read).collect::<Result<_, _>>()?;
    of_numbers(values, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanoseconds(text: &str) -> i128 {
        read(text, &DataType::Timestamp(TimeUnit::Nanosecond, None), None).unwrap()
    }

    #[test]
    fn the_clock_of_a_zone_is_read_by_one_rule() {
        let berlin = session_zone(Some("Europe/Berlin"));
        assert!(berlin.is_some() && session_zone(Some("+00:00")).is_none());
        for (clock, utc) in [
            ("2024-06-01 12:00:00", "2024-06-01 10:00:00"),
            ("2024-01-01 12:00:00", "2024-01-01 11:00:00"),
            // Left out: 02:00 to 03:00.
            ("2024-03-31 01:59:59", "2024-03-31 00:59:59"),
            ("2024-03-31 02:00:00", "2024-03-31 01:00:00"),
            ("2024-03-31 02:30:00", "2024-03-31 01:30:00"),
            ("2024-03-31 03:00:00", "2024-03-31 01:00:00"),
            // Twice: 02:00 to 03:00.
            ("2024-10-27 01:59:59", "2024-10-26 23:59:59"),
            ("2024-10-27 02:00:00", "2024-10-27 01:00:00"),
            ("2024-10-27 02:30:00", "2024-10-27 01:30:00"),
            ("2024-10-27 03:00:00", "2024-10-27 02:00:00"),
        ] {
            assert_eq!(
                instant(nanoseconds(clock), berlin),
                Some(nanoseconds(utc)),
                "{clock}"
            );
        }
        let noon = nanoseconds("2024-06-01 10:00:00");
        assert_eq!(reading(noon, berlin), Some(nanoseconds("2024-06-01 12:00:00")));
        assert_eq!(instant(i128::from(i64::MAX) * SECOND, berlin), None);
    }

    #[test]
    fn texts_have_a_zone_or_not() {
        let zoned = DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
        let berlin = session_zone(Some("Europe/Berlin"));
        for (text, with, without) in [
            (
                "2024-06-01 12:00:00",
                "2024-06-01 10:00:00",
                "2024-06-01 12:00:00",
            ),
            (
                "2024-06-01T12:00:00Z",
                "2024-06-01 12:00:00",
                "2024-06-01 12:00:00",
            ),
            (
                "2024-06-01 12:00:00+05",
                "2024-06-01 07:00:00",
                "2024-06-01 12:00:00",
            ),
            (
                "2024-06-01 12:00:00.5-05:30",
                "2024-06-01 17:30:00.5",
                "2024-06-01 12:00:00.5",
            ),
            (
                "2024-06-01 12:00:00 Asia/Tokyo",
                "2024-06-01 03:00:00",
                "2024-06-01 12:00:00",
            ),
            ("2024-06-01", "2024-05-31 22:00:00", "2024-06-01 00:00:00"),
            ("2024-06-01 12:00", "2024-06-01 10:00:00", "2024-06-01 12:00:00"),
            ("2024-06-01T12:00Z", "2024-06-01 12:00:00", "2024-06-01 12:00:00"),
            (
                "2024-06-01 12:00+05:00",
                "2024-06-01 07:00:00",
                "2024-06-01 12:00:00",
            ),
        ] {
            assert_eq!(read(text, &zoned, berlin), Some(nanoseconds(with)), "{text}");
            assert_eq!(nanoseconds(text), nanoseconds(without), "{text}");
        }
        for to in [&zoned, &DataType::Timestamp(TimeUnit::Nanosecond, None)] {
            assert_eq!(read("2024-06-01 12:00:00 Nowhere", to, None), None);
            assert_eq!(read("2024-06-01 12:00:00ZZ", to, None), None);
        }
        assert_eq!(read("ä2024-06-01 12:00:00", &zoned, None), None);
        assert_eq!(read("2024-02-30", &zoned, None), None);
        assert_eq!(read("2024-02-20 1:00", &zoned, None), None);
        assert_eq!(read("2024-02-20 10:60", &zoned, None), None);
    }

    #[test]
    fn times_are_converted_by_a_rule() {
        let of = |values: Vec<i64>, from: &DataType, to: &DataType, rule| {
            let values = of_numbers(Int64Array::from(values), from).unwrap();
            convert_times(&values, to, rule, None).map(|converted| {
                let converted = match to {
                    DataType::Date32 => cast(&cast(&converted, &DataType::Int32).unwrap(), &DataType::Int64),
                    _ => cast(&converted, &DataType::Int64),
                };
                converted.unwrap().as_primitive::<Int64Type>().values().to_vec()
            })
        };
        let unit = |unit| DataType::Timestamp(unit, None);
        let (s, ms, ns) = (
            unit(TimeUnit::Second),
            unit(TimeUnit::Millisecond),
            unit(TimeUnit::Nanosecond),
        );
        use TimeRule as R;
        let halves = vec![-1500, -1499, -500, -1, 499, 500, 1499];
        assert_eq!(
            of(halves.clone(), &ms, &s, R::Strict).unwrap(),
            [-2, -1, -1, 0, 0, 1, 1]
        );
        assert_eq!(
            of(halves.clone(), &ms, &s, R::Floor).unwrap(),
            [-2, -2, -1, -1, 0, 0, 1]
        );
        assert_eq!(of(halves, &ms, &s, R::Ceiling).unwrap(), [-1, -1, 0, 0, 1, 1, 2]);
        assert_eq!(
            of(vec![-1, 86_399_999], &ms, &DataType::Date32, R::Strict).unwrap(),
            [-1, 0]
        );
        let far = 253_402_214_400;
        assert!(
            of(vec![far], &s, &ns, R::Strict)
                .unwrap_err()
                .to_string()
                .contains("9999-12-31")
        );
        assert_eq!(
            of(vec![far, -far], &s, &ns, R::Ordered).unwrap(),
            [i64::MAX, i64::MIN]
        );
        assert_eq!(
            of(vec![i64::MAX, 7], &ns, &ns, R::Ordered).unwrap(),
            [i64::MAX - 1, 7]
        );
    }
}
