//! `time_bucket(width, time[, origin])`: the beginning of the interval of a width that a time is in, as in
//! DuckDB.
//!
//! Intervals of months are counted from January 2000, others from Monday, 3 January 2000, or from an origin.
//! A third argument that is an interval moves all of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_cast::cast::cast;
use arrow_schema::{DataType, IntervalUnit};
use chrono::{Datelike, NaiveDate};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use halocline_values::times::{instant, of_numbers, range_of};

use super::arguments::{AcceptedType, by_columns, check_types, documentation, failed};
use super::clock::{DAY, SECOND, Times, beyond_calendar, calendar, is_time_or_null};

const NAME: &str = "time_bucket";
const SYNTAX: &str = "time_bucket(INTERVAL '15 minutes', time[, origin])";
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Monday, 3 January 2000, in nanoseconds since 1970.
const MONDAY: i128 = 10_959 * DAY;
/// January 2000.
const JANUARY: i64 = 2000 * 12;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimeBucket {
    signature: Signature,
    documentation: Documentation,
}

impl TimeBucket {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
            documentation: documentation(
                "Returns the beginning of the interval of a width that a date or timestamp is in.",
                SYNTAX,
            ),
        }
    }
}

fn is_width(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Interval(_) | DataType::Duration(_) | DataType::Null
    )
}

fn is_origin(data_type: &DataType) -> bool {
    is_time_or_null(data_type) || matches!(data_type, DataType::Interval(_))
}

/// The width of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BucketWidth {
    Months(i64),
    Nanoseconds(i128),
}

fn nanoseconds(interval: IntervalMonthDayNano) -> i128 {
    i128::from(interval.days) * DAY + i128::from(interval.nanoseconds)
}

impl BucketWidth {
    fn of(interval: IntervalMonthDayNano) -> Result<Self> {
        let rest = nanoseconds(interval);
        match (interval.months, rest) {
            (months, 0) if months > 0 => Ok(Self::Months(months.into())),
            (0, rest) if rest > 0 => Ok(Self::Nanoseconds(rest)),
            (0, _) | (_, 0) => failed(format!("{NAME}: the width has to be longer than nothing")),
            _ => failed(format!(
                "{NAME}: a width is either months and years, or days and shorter units; write one of both"
            )),
        }
    }

    /// Returns the beginning of the interval that a reading of the clock is in. Intervals are counted from
    /// `origin`.
    fn start(self, clock: i128, origin: Option<i128>) -> Result<i128> {
        match self {
            Self::Nanoseconds(width) => {
                let origin = origin.unwrap_or(MONDAY);
                Ok((clock - origin).div_euclid(width) * width + origin)
            }
            Self::Months(width) => {
                let month = |clock| {
                    calendar(clock, NAME).map(|time| i64::from(time.year()) * 12 + i64::from(time.month0()))
                };
                let origin = origin.map_or(Ok(JANUARY), month)?;
                let start = (month(clock)? - origin).div_euclid(width) * width + origin;
                let year = i32::try_from(start.div_euclid(12)).ok();
                let date = year
                    .zip(u32::try_from(start.rem_euclid(12) + 1).ok())
                    .and_then(|(year, month)| NaiveDate::from_ymd_opt(year, month, 1))
                    .and_then(|date| date.and_hms_opt(0, 0, 0));
                let date = date.ok_or_else(|| beyond_calendar(NAME))?;
                Ok(i128::from(date.and_utc().timestamp()) * SECOND)
            }
        }
    }
}

/// What intervals are counted from, for each row.
enum BucketOrigin {
    Default,
    Times(Times),
    /// Intervals that move those of the default.
    Moved(ArrayRef),
}

impl BucketOrigin {
    fn read(column: Option<&ArrayRef>) -> Result<Self> {
        Ok(match column {
            None => Self::Default,
            Some(column) if matches!(column.data_type(), DataType::Interval(_)) => {
                Self::Moved(cast(column, &INTERVAL)?)
            }
            Some(column) => Self::Times(Times::read(column)?),
        })
    }

    /// Returns the beginning of the interval of a row; `None` if the origin is NULL.
    fn start(&self, width: BucketWidth, clock: i128, row: usize) -> Result<Option<i128>> {
        match self {
            Self::Default => width.start(clock, None).map(Some),
            Self::Times(times) => match times.clock(row, NAME)? {
                Some(origin) => width.start(clock, Some(origin)).map(Some),
                None => Ok(None),
            },
            Self::Moved(by) => {
                let by = by.as_primitive::<IntervalMonthDayNanoType>();
                if by.is_null(row) {
                    return Ok(None);
                }
                let by = by.value(row);
                if by.months != 0 {
                    return failed(format!(
                        "{NAME}: the third argument has months; write days or shorter units, or an origin"
                    ));
                }
                let by = nanoseconds(by);
                width.start(clock - by, None).map(|start| Some(start + by))
            }
        }
    }
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let accepted: [AcceptedType<'_>; 3] = [
            ("an interval", is_width),
            ("a date or timestamp", is_time_or_null),
            ("a date, timestamp or interval", is_origin),
        ];
        check_types(SYNTAX, types, 2, &accepted)?;
        Ok(types[1].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_columns(&args, |columns| {
            let to = columns[1].data_type();
            if to.is_null() {
                return Ok(Arc::clone(&columns[1]));
            }
            let widths = cast(&columns[0], &INTERVAL)?;
            let widths = widths.as_primitive::<IntervalMonthDayNanoType>();
            let times = Times::read(&columns[1])?;
            let origin = BucketOrigin::read(columns.get(2))?;
            let (least, most) = range_of(to);
            let start = |row: usize| {
                let (Some(clock), true) = (times.clock(row, NAME)?, widths.is_valid(row)) else {
                    return Ok(None);
                };
                let width = BucketWidth::of(widths.value(row))?;
                let Some(start) = origin.start(width, clock, row)? else {
                    return Ok(None);
                };
                let start = instant(start, times.zone()).ok_or_else(|| beyond_calendar(NAME))?;
                let start = start.div_euclid(times.unit());
                match i64::try_from(start) {
                    Ok(number) if (least..=most).contains(&start) => Ok(Some(number)),
                    _ => failed(format!(
                        "{NAME}: an interval begins before the first timestamp of its type; cast the \
                         times to timestamp(6)"
                    )),
                }
            };
            let starts: Int64Array = (0..columns[1].len()).map(start).collect::<Result<_>>()?;
            Ok(of_numbers(starts, to)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i128 = 3_600 * SECOND;

    fn width(months: i32, days: i32, nanoseconds: i64) -> Result<BucketWidth> {
        BucketWidth::of(IntervalMonthDayNano::new(months, days, nanoseconds))
    }

    #[test]
    fn intervals_are_counted_from_2000() {
        let hours = BucketWidth::Nanoseconds(6 * HOUR);
        assert_eq!(hours.start(0, None).unwrap(), 0);
        assert_eq!(hours.start(-1, None).unwrap(), -6 * HOUR);
        assert_eq!(hours.start(7 * HOUR, Some(2 * HOUR)).unwrap(), 2 * HOUR);
        let week = width(0, 7, 0).unwrap();
        assert_eq!(week.start(MONDAY + 6 * DAY, None).unwrap(), MONDAY);
        // Thursday, 1 January 1970; the week began on 29 December 1969.
        assert_eq!(week.start(0, None).unwrap(), -3 * DAY);
        let quarter = width(3, 0, 0).unwrap();
        assert_eq!(quarter.start(100 * DAY, None).unwrap(), 90 * DAY);
        assert_eq!(quarter.start(-1, None).unwrap(), -92 * DAY);
    }

    #[test]
    fn widths_are_of_one_kind_and_not_empty() {
        assert!(
            width(0, 0, 0).is_err() && width(-1, 0, 0).is_err() && width(0, 1, -86_400_000_000_000).is_err()
        );
        assert!(width(1, 1, 0).is_err() && width(12, 0, 0).is_ok() && width(0, 0, 1).is_ok());
    }
}
