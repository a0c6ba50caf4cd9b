//! Dates and timestamps of all types as nanoseconds of the clock, in 128 bits, which no year overflows.

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_cast::cast::cast;
use arrow_schema::DataType;
use chrono::{DateTime, NaiveDateTime};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use halocline_values::times::{is_time, reading, session_zone, unit_of};

pub(super) const SECOND: i128 = 1_000_000_000;
pub(super) const DAY: i128 = 86_400 * SECOND;

/// Returns true for a type of dates or timestamps, or that of NULL.
pub(super) fn is_time_or_null(data_type: &DataType) -> bool {
    is_time(data_type) || data_type.is_null()
}

/// Returns the error for a time whose year the calendar does not have.
pub(super) fn beyond_calendar(function: &str) -> DataFusionError {
    DataFusionError::Execution(format!(
        "{function}: a time is beyond the calendar; leave such rows out in WHERE"
    ))
}

/// Dates or timestamps.
pub(super) struct Times {
    numbers: Int64Array,
    /// Nanoseconds of a number.
    unit: i128,
    /// The zone whose clock shows them; `None` for UTC and for times without a zone.
    zone: Option<Tz>,
}

impl Times {
    /// Reads a column of dates or timestamps; one of NULL has none.
    ///
    /// # Errors
    /// The column has another type.
    pub(super) fn read(values: &ArrayRef) -> Result<Self> {
        let data_type = values.data_type();
        let numbers = match data_type {
            DataType::Date32 => cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?,
            _ => cast(values, &DataType::Int64)?,
        };
        let zone = match data_type {
            DataType::Timestamp(_, Some(zone)) => session_zone(Some(zone)),
            _ => None,
        };
        Ok(Self {
            numbers: numbers.as_primitive::<Int64Type>().clone(),
            unit: unit_of(data_type).unwrap_or(1),
            zone,
        })
    }

    /// Returns nanoseconds of a unit of the column's type.
    pub(super) fn unit(&self) -> i128 {
        self.unit
    }

    /// Returns the zone whose clock shows the times.
    pub(super) fn zone(&self) -> Option<Tz> {
        self.zone
    }

    /// Returns the instant of a row, in nanoseconds since 1970 in UTC; `None` for NULL.
    pub(super) fn instant(&self, row: usize) -> Option<i128> {
        let is_valid = self.numbers.is_valid(row);
        is_valid.then(|| i128::from(self.numbers.value(row)) * self.unit)
    }

    /// Returns what the clock shows at a row, in nanoseconds since 1970; `None` for NULL.
    ///
    /// # Errors
    /// The time is beyond the calendar.
    pub(super) fn clock(&self, row: usize, function: &str) -> Result<Option<i128>> {
        let shown = |instant| reading(instant, self.zone).ok_or_else(|| beyond_calendar(function));
        self.instant(row).map(shown).transpose()
    }
}

/// Returns a reading of the clock as date and time.
///
/// # Errors
/// It is beyond the calendar.
pub(super) fn calendar(clock: i128, function: &str) -> Result<NaiveDateTime> {
    let seconds = i64::try_from(clock.div_euclid(SECOND)).ok();
    let rest = u32::try_from(clock.rem_euclid(SECOND)).ok();
    let time = seconds
        .zip(rest)
        .and_then(|(seconds, rest)| DateTime::from_timestamp(seconds, rest));
    time.map(|time| time.naive_utc())
        .ok_or_else(|| beyond_calendar(function))
}
