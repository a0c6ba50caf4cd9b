//! `age(to, from)`: the difference of two times in years, months, days and what is left of a day, as in
//! PostgreSQL and DuckDB. Days of an incomplete month are counted in the month of the earlier time.

use std::sync::Arc;

use arrow_array::types::IntervalMonthDayNano;
use arrow_array::{Array, ArrayRef, IntervalMonthDayNanoArray};
use arrow_schema::{DataType, IntervalUnit};
use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, Timelike};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{AcceptedType, by_columns, check_types, documentation};
use super::clock::{DAY, SECOND, Times, beyond_calendar, calendar, is_time_or_null};

const NAME: &str = "age";
const SYNTAX: &str = "age(to, from)";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Age {
    signature: Signature,
    documentation: Documentation,
}

impl Age {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
            documentation: documentation(
                "Returns the difference of two times in years, months, days and what is left of a day.",
                SYNTAX,
            ),
        }
    }
}

/// Returns the nanoseconds since midnight.
fn of_day(time: NaiveDateTime) -> i128 {
    i128::from(time.num_seconds_from_midnight()) * SECOND + i128::from(time.nanosecond())
}

/// Returns the number of days in the month of a date; `None` at the end of the calendar.
fn days_in_month(date: NaiveDate) -> Option<i64> {
    let first = date.with_day(1)?;
    let next = first.checked_add_months(Months::new(1))?;
    Some((next - first).num_days())
}

/// Returns the time from one reading of the clock to a later one: months, days and nanoseconds; `None` at the
/// end of the calendar.
fn between(earlier: NaiveDateTime, later: NaiveDateTime) -> Option<(i64, i64, i128)> {
    let months = |time: NaiveDateTime| i64::from(time.year()) * 12 + i64::from(time.month0());
    let mut months_between = months(later) - months(earlier);
    let mut days = i64::from(later.day()) - i64::from(earlier.day());
    let mut nanoseconds = of_day(later) - of_day(earlier);
    if nanoseconds < 0 {
        nanoseconds += DAY;
        days -= 1;
    }
    while days < 0 {
        days += days_in_month(earlier.date())?;
        months_between -= 1;
    }
    Some((months_between, days, nanoseconds))
}

fn age(to: i128, from: i128) -> Result<IntervalMonthDayNano> {
    let (earlier, later, sign) = if to < from { (to, from, -1) } else { (from, to, 1) };
    let between = between(calendar(earlier, NAME)?, calendar(later, NAME)?);
    let (months, days, nanoseconds) = between.ok_or_else(|| beyond_calendar(NAME))?;
    // The calendar has fewer months than 32 bits, and a day fewer nanoseconds than 64.
    let interval = (
        i32::try_from(months * sign),
        i32::try_from(days * sign),
        i64::try_from(nanoseconds * i128::from(sign)),
    );
    match interval {
        (Ok(months), Ok(days), Ok(nanoseconds)) => Ok(IntervalMonthDayNano::new(months, days, nanoseconds)),
        _ => Err(beyond_calendar(NAME)),
    }
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let time = "a date or timestamp";
        let accepted: [AcceptedType<'_>; 2] = [(time, is_time_or_null), (time, is_time_or_null)];
        check_types(SYNTAX, types, 2, &accepted)?;
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_columns(&args, |columns| {
            let (to, from) = (Times::read(&columns[0])?, Times::read(&columns[1])?);
            let of_row = |row: usize| match to.clock(row, NAME)?.zip(from.clock(row, NAME)?) {
                Some((to, from)) => age(to, from).map(Some),
                None => Ok(None),
            };
            let ages = (0..columns[0].len()).map(of_row);
            let ages: IntervalMonthDayNanoArray = ages.collect::<Result<_>>()?;
            Ok(Arc::new(ages) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(text: &str) -> i128 {
        let time: NaiveDateTime = text.parse().unwrap();
        i128::from(time.and_utc().timestamp()) * SECOND + i128::from(time.and_utc().timestamp_subsec_nanos())
    }

    #[test]
    fn ages_are_those_of_postgresql() {
        let hour = 3_600_000_000_000_i64;
        for (to, from, months, days, nanoseconds) in [
            ("2001-04-10T00:00:00", "1957-06-13T00:00:00", 43 * 12 + 9, 27, 0),
            ("2020-01-01T00:00:00", "2019-01-01T00:00:00", 12, 0, 0),
            ("2019-01-01T00:00:00", "2020-01-01T00:00:00", -12, 0, 0),
            ("2024-03-01T00:00:00", "2024-01-31T00:00:00", 1, 1, 0),
            ("2024-03-01T10:00:00", "2024-02-28T12:00:00", 0, 1, 22 * hour),
            ("2024-02-28T12:00:00", "2024-03-01T10:00:00", 0, -1, -22 * hour),
            ("1969-12-31T23:00:00", "1969-12-31T00:00:00", 0, 0, 23 * hour),
            (
                "9999-12-31T00:00:00",
                "0001-01-01T00:00:00",
                9998 * 12 + 11,
                30,
                0,
            ),
        ] {
            let expected = IntervalMonthDayNano::new(months, days, nanoseconds);
            assert_eq!(age(clock(to), clock(from)).unwrap(), expected, "{to} {from}");
        }
    }
}
