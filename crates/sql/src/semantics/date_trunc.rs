//! `date_trunc` that fails where the result is before the least timestamp, as DataFusion's does for years and
//! days; for seconds and less it wraps. DataFusion's refuses years that have no place in nanoseconds, whatever
//! the unit: these are truncated here.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast::cast;
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};
use chrono::{DateTime, Datelike, Days};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use halocline_values::times::{instant, of_numbers, reading, session_zone, unit_of};

/// The function, over DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateTrunc {
    inner: Arc<ScalarUDF>,
}

impl DateTrunc {
    pub(super) fn over(inner: Arc<ScalarUDF>) -> Self {
        Self { inner }
    }
}

/// Returns the longest distance in units that truncating to an hour or less moves a timestamp.
fn reach(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 3_600,
        TimeUnit::Millisecond => 3_600_000,
        TimeUnit::Microsecond => 3_600_000_000,
        TimeUnit::Nanosecond => 3_600_000_000_000,
    }
}

/// Returns the first value of timestamps that lies so near to the least one that truncating it could wrap.
fn too_early(values: &ArrayRef) -> Option<i64> {
    let DataType::Timestamp(unit, _) = values.data_type() else {
        return None;
    };
    let least = i64::MIN + reach(*unit);
    macro_rules! first {
        ($kind:ty) => {{
            let values = values.as_primitive::<$kind>();
            // Most columns are decided by a pass without branches.
            let any = values.values().iter().any(|value| *value < least);
            any.then(|| values.iter().flatten().find(|value| *value < least))
                .flatten()
        }};
    }
    match unit {
        TimeUnit::Second => first!(TimestampSecondType),
        TimeUnit::Millisecond => first!(TimestampMillisecondType),
        TimeUnit::Microsecond => first!(TimestampMicrosecondType),
        TimeUnit::Nanosecond => first!(TimestampNanosecondType),
    }
}

/// Truncates timestamps of any year; `None` for those in nanoseconds, and for an unknown grain.
fn far(grain: &ScalarValue, values: &ColumnarValue) -> Option<Result<ColumnarValue>> {
    let (grain, data_type) = (grain.try_as_str()??.to_ascii_lowercase(), values.data_type());
    let unit = unit_of(&data_type).filter(|unit| *unit > 1)?;
    let DataType::Timestamp(_, label) = &data_type else {
        return None;
    };
    truncated(0, &grain)?;
    let zone = session_zone(label.as_deref());
    let of = |values: &ArrayRef| {
        let numbers = cast(values, &DataType::Int64)?;
        let numbers = numbers
            .as_primitive::<Int64Type>()
            .try_unary::<_, Int64Type, _>(|value| {
                let shown = reading(i128::from(value) * unit, zone);
                let truncated = shown.and_then(|shown| instant(truncated(shown, &grain)?, zone));
                let number = truncated.and_then(|value| i64::try_from(value.div_euclid(unit)).ok());
                number.ok_or_else(|| {
                    ArrowError::ComputeError(format!("date_trunc: timestamp {value} is out of range"))
                })
            })?;
        of_numbers(numbers, &data_type).map_err(DataFusionError::from)
    };
    Some(match values {
        ColumnarValue::Array(values) => of(values).map(ColumnarValue::Array),
        ColumnarValue::Scalar(value) => value
            .to_array()
            .and_then(|values| ScalarValue::try_from_array(&of(&values)?, 0))
            .map(ColumnarValue::Scalar),
    })
}

/// Truncates nanoseconds of the clock; `None` for an unknown grain, and beyond the calendar.
fn truncated(value: i128, grain: &str) -> Option<i128> {
    const SECOND: i128 = 1_000_000_000;
    let down_to = |unit: i128| Some(value - value.rem_euclid(unit));
    let day = DateTime::from_timestamp(i64::try_from(value.div_euclid(SECOND)).ok()?, 0)?.date_naive();
    let first = match grain {
        "microsecond" => return down_to(SECOND / 1_000_000),
        "millisecond" => return down_to(SECOND / 1_000),
        "second" => return down_to(SECOND),
        "minute" => return down_to(60 * SECOND),
        "hour" => return down_to(3_600 * SECOND),
        "day" => day,
        "week" => day.checked_sub_days(Days::new(day.weekday().num_days_from_monday().into()))?,
        "month" => day.with_day(1)?,
        "quarter" => day.with_day(1)?.with_month((day.month() - 1) / 3 * 3 + 1)?,
        "year" => day.with_day(1)?.with_month(1)?,
        _ => return None,
    };
    let seconds = first.and_hms_opt(0, 0, 0)?.and_utc().timestamp();
    Some(i128::from(seconds) * SECOND)
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(input)
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let early = match args.args.get(1) {
            Some(ColumnarValue::Array(values)) => too_early(values),
            Some(ColumnarValue::Scalar(value)) => too_early(&value.to_array()?),
            None => None,
        };
        match early {
            None => {
                let (grain, values) = (args.args.first().cloned(), args.args.get(1).cloned());
                let near = self.inner.invoke_with_args(args);
                match (near, grain, values) {
                    (Err(error), Some(ColumnarValue::Scalar(grain)), Some(values)) => {
                        far(&grain, &values).unwrap_or(Err(error))
                    }
                    (near, ..) => near,
                }
            }
            Some(value) => Err(DataFusionError::Execution(format!(
                "date_trunc: timestamp {value} is so near to the least one that the result is out of range; leave such rows \
                 out in WHERE"
            ))),
        }
    }
}
