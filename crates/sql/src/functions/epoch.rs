//! `epoch(t)` and the like: a time as the seconds, milliseconds, microseconds or nanoseconds since 1970 in
//! UTC, and a duration as their number.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{AcceptedType, by_columns, check_types, documentation, failed};
use super::clock::{SECOND, Times, is_time_or_null};

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Epoch {
    name: &'static str,
    /// Nanoseconds of the unit of its integers; `None` for seconds as a double.
    unit: Option<i64>,
    signature: Signature,
    documentation: Documentation,
}

impl Epoch {
    fn new(name: &'static str, unit: Option<i64>, units: &str) -> Self {
        Self {
            name,
            unit,
            signature: Signature::variadic_any(Volatility::Immutable),
            documentation: documentation(
                &format!("Returns the {units} from 1970 in UTC to a time, or those of a duration."),
                &format!("{name}(time)"),
            ),
        }
    }

    /// Returns all of them.
    pub(super) fn all() -> [Self; 4] {
        [
            Self::new("epoch", None, "seconds"),
            Self::new("epoch_ms", Some(1_000_000), "milliseconds"),
            Self::new("epoch_us", Some(1_000), "microseconds"),
            Self::new("epoch_ns", Some(1), "nanoseconds"),
        ]
    }
}

fn is_time_or_duration(data_type: &DataType) -> bool {
    is_time_or_null(data_type) || matches!(data_type, DataType::Duration(_))
}

/// Returns durations as the times that are so long after 1970.
fn since_1970(values: &ArrayRef) -> Result<ArrayRef> {
    let unit = match values.data_type() {
        DataType::Duration(unit) => *unit,
        DataType::Null => TimeUnit::Nanosecond,
        _ => return Ok(Arc::clone(values)),
    };
    let numbers = arrow_cast::cast::cast(values, &DataType::Int64)?;
    Ok(arrow_cast::cast::cast(
        &numbers,
        &DataType::Timestamp(unit, None),
    )?)
}

/// Returns nanoseconds as seconds; whole seconds of any time are exact.
fn seconds(nanoseconds: i128) -> f64 {
    let (whole, rest) = (nanoseconds.div_euclid(SECOND), nanoseconds.rem_euclid(SECOND));
    whole as f64 + rest as f64 / SECOND as f64
}

impl ScalarUDFImpl for Epoch {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let accepted: [AcceptedType<'_>; 1] = [("a date, timestamp or duration", is_time_or_duration)];
        check_types(&self.documentation.syntax_example, types, 1, &accepted)?;
        Ok(match self.unit {
            Some(_) => DataType::Int64,
            None => DataType::Float64,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_columns(&args, |columns| {
            let rows = 0..columns[0].len();
            let times = Times::read(&since_1970(&columns[0])?)?;
            let Some(unit) = self.unit else {
                let seconds: Float64Array = rows.map(|row| times.instant(row).map(seconds)).collect();
                return Ok(Arc::new(seconds) as ArrayRef);
            };
            let number = |row: usize| {
                let number = times.instant(row).map(|time| time.div_euclid(unit.into()));
                match number.map(i64::try_from) {
                    Some(Ok(number)) => Ok(Some(number)),
                    Some(Err(_)) => failed(format!(
                        "{}: the number of a time does not fit a bigint; use epoch_us or epoch_ms",
                        self.name
                    )),
                    None => Ok(None),
                }
            };
            let numbers: Int64Array = rows.map(number).collect::<Result<_>>()?;
            Ok(Arc::new(numbers) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_their_fraction_before_1970_as_after() {
        assert_eq!(seconds(0), 0.0);
        assert_eq!(seconds(1_500_000_000), 1.5);
        assert_eq!(seconds(-1_500_000_000), -1.5);
        assert_eq!(seconds(253_402_214_400 * SECOND), 253_402_214_400.0);
    }
}
