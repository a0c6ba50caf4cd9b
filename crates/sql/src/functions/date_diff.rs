//! `date_diff(part, from, to)`: the number of boundaries of a part, such as midnights for `day`, between two
//! times. Weeks begin on Monday.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::DataType;
use chrono::Datelike;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{AcceptedType, by_columns, check_types, documentation, failed, is_text, texts};
use super::clock::{DAY, SECOND, Times, calendar, is_time_or_null};

/// The names of the function.
pub(super) const NAMES: [&str; 2] = [NAME, "datediff"];

const NAME: &str = "date_diff";
const SYNTAX: &str = "date_diff('day', from, to)";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateDiff {
    signature: Signature,
    aliases: Vec<String>,
    documentation: Documentation,
}

impl DateDiff {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
            aliases: vec![NAMES[1].to_owned()],
            documentation: documentation(
                "Returns the number of boundaries of a part between two dates or timestamps.",
                SYNTAX,
            ),
        }
    }
}

/// A part of dates and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimePart {
    Years(i64),
    Months(i64),
    Week,
    Nanoseconds(i128),
}

/// Returns the part of a name, which may be in the plural; `None` if there is none.
fn part(name: &str) -> Option<TimePart> {
    Some(match name.to_ascii_lowercase().as_str() {
        "millennium" | "millennia" | "mil" => TimePart::Years(1_000),
        "century" | "centuries" | "cent" => TimePart::Years(100),
        "decade" | "decades" | "dec" => TimePart::Years(10),
        "year" | "years" | "yr" | "y" => TimePart::Years(1),
        "quarter" | "quarters" => TimePart::Months(3),
        "month" | "months" | "mon" | "mons" => TimePart::Months(1),
        "week" | "weeks" | "w" => TimePart::Week,
        "day" | "days" | "d" | "dayofmonth" => TimePart::Nanoseconds(DAY),
        "hour" | "hours" | "hr" | "h" => TimePart::Nanoseconds(3_600 * SECOND),
        "minute" | "minutes" | "min" | "m" => TimePart::Nanoseconds(60 * SECOND),
        "second" | "seconds" | "sec" | "s" => TimePart::Nanoseconds(SECOND),
        "millisecond" | "milliseconds" | "ms" | "msec" => TimePart::Nanoseconds(1_000_000),
        "microsecond" | "microseconds" | "us" | "usec" => TimePart::Nanoseconds(1_000),
        "nanosecond" | "nanoseconds" | "ns" => TimePart::Nanoseconds(1),
        _ => return None,
    })
}

/// Returns true for the name of a part.
pub(super) fn is_part(name: &str) -> bool {
    part(name).is_some()
}

impl TimePart {
    /// Returns the number of the part that a time is in.
    fn number(self, clock: i128) -> Result<i128> {
        let date = || calendar(clock, NAME);
        Ok(match self {
            Self::Years(years) => i64::from(date()?.year()).div_euclid(years).into(),
            Self::Months(months) => {
                let date = date()?;
                let month = i64::from(date.year()) * 12 + i64::from(date.month0());
                month.div_euclid(months).into()
            }
            // 1970 began on a Thursday.
            Self::Week => (clock.div_euclid(DAY) + 3).div_euclid(7),
            Self::Nanoseconds(unit) => clock.div_euclid(unit),
        })
    }
}

fn read_part(name: &str) -> Result<TimePart> {
    match part(name) {
        Some(part) => Ok(part),
        None => failed(format!(
            "{NAME}: there is no part '{name}' of a time; write year, quarter, month, week, day, hour, minute, second, \
             millisecond or microsecond"
        )),
    }
}

impl ScalarUDFImpl for DateDiff {
    fn name(&self) -> &str {
        NAME
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let time = "a date or timestamp";
        let accepted: [AcceptedType<'_>; 3] = [
            ("a text", is_text),
            (time, is_time_or_null),
            (time, is_time_or_null),
        ];
        check_types(SYNTAX, types, 3, &accepted)?;
        Ok(DataType::Int64)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_columns(&args, |columns| {
            let names = texts(&columns[0])?;
            let (from, to) = (Times::read(&columns[1])?, Times::read(&columns[2])?);
            let difference = |row: usize| {
                let times = from.clock(row, NAME)?.zip(to.clock(row, NAME)?);
                let (Some((from, to)), true) = (times, names.is_valid(row)) else {
                    return Ok(None);
                };
                let part = read_part(names.value(row))?;
                let difference = part.number(to)? - part.number(from)?;
                match i64::try_from(difference) {
                    Ok(difference) => Ok(Some(difference)),
                    Err(_) => failed(format!(
                        "{NAME}: {difference} is not a value of type bigint; use a coarser part"
                    )),
                }
            };
            let differences = (0..names.len()).map(difference);
            let differences: Int64Array = differences.collect::<Result<_>>()?;
            Ok(Arc::new(differences) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, clock: i128) -> i128 {
        part(name).unwrap().number(clock).unwrap()
    }

    #[test]
    fn parts_have_boundaries_before_1970_as_after() {
        assert_eq!(number("day", -1), -1);
        assert_eq!(number("day", 0), 0);
        assert_eq!(number("year", -1), 1969);
        assert_eq!(number("decade", -1), 196);
        assert_eq!(number("quarter", -1), 1969 * 4 + 3);
        // Monday, 5 January 1970, and the day before.
        assert_eq!(number("week", 4 * DAY), number("week", 4 * DAY - 1) + 1);
        assert_eq!(number("weeks", -3 * DAY), number("week", 0));
        assert_eq!(number("week", -3 * DAY - 1), number("week", 0) - 1);
    }

    #[test]
    fn times_beyond_the_calendar_are_errors() {
        let far = i128::from(i64::MAX) * SECOND;
        assert!(TimePart::Years(1).number(far).is_err());
        assert!(TimePart::Nanoseconds(SECOND).number(far).is_ok());
        assert!(read_part("fortnight").is_err() && !is_part("x") && is_part("DAYS"));
    }
}
