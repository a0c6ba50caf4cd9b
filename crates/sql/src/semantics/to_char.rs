//! `to_char` and `strftime`: dates and times as text by a pattern ([`super::templates`]).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::{Int64Type, Time64NanosecondType};
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_cast::cast::cast;
use arrow_schema::{DataType, TimeUnit};
use chrono::{DateTime, NaiveDateTime, Offset, TimeZone};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use halocline_values::times::unit_of;

use super::templates::{TemplatePart, check_strftime, is_strftime, template, write};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToChar {
    /// DataFusion's, which has the patterns of `strftime` only.
    inner: Arc<ScalarUDF>,
    name: &'static str,
    signature: Signature,
}

impl ToChar {
    pub(super) fn over(inner: Arc<ScalarUDF>) -> Self {
        let signature = inner.signature().clone();
        Self {
            inner,
            name: "to_char",
            signature,
        }
    }

    /// Creates `strftime`, which has the same arguments.
    pub(super) fn strftime(inner: Arc<ScalarUDF>) -> Self {
        Self {
            name: "strftime",
            ..Self::over(inner)
        }
    }
}

/// A pattern.
enum TimePattern {
    Strftime(String),
    Template(Vec<TemplatePart>),
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        match self.name {
            "to_char" => self.inner.aliases(),
            _ => &[],
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values, patterns] = args.args.as_slice() else {
            return Err(DataFusionError::Internal(format!(
                "{} has two arguments",
                self.name
            )));
        };
        if matches!(values.data_type(), DataType::Duration(_)) {
            return self.inner.invoke_with_args(args);
        }
        let is_scalar = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let values = values.to_array(args.number_rows)?;
        let read = |pattern: &str| {
            let read = if self.name == "strftime" || is_strftime(pattern) {
                check_strftime(pattern).map(|()| TimePattern::Strftime(pattern.to_owned()))
            } else {
                template(pattern).map(TimePattern::Template)
            };
            read.map_err(|reason| DataFusionError::Execution(format!("{}: {reason}", self.name)))
        };
        let written = match patterns {
            ColumnarValue::Scalar(pattern) => match pattern.try_as_str().flatten() {
                Some(pattern) => {
                    let pattern = read(pattern)?;
                    texts(&values, |_| Ok(Some(&pattern)))?
                }
                None => StringArray::new_null(values.len()),
            },
            ColumnarValue::Array(patterns) => {
                let patterns = cast(patterns, &DataType::Utf8)?;
                let patterns = patterns.as_string::<i32>().iter();
                let patterns = patterns.map(|pattern| pattern.map(read).transpose());
                let patterns = patterns.collect::<Result<Vec<_>>>()?;
                texts(&values, |row| Ok(patterns[row].as_ref()))?
            }
        };
        let written = Arc::new(written) as ArrayRef;
        if is_scalar {
            ScalarValue::try_from_array(&written, 0).map(ColumnarValue::Scalar)
        } else {
            Ok(ColumnarValue::Array(written))
        }
    }
}

/// Writes values, each by its pattern.
fn texts<'a>(
    values: &ArrayRef,
    pattern: impl Fn(usize) -> Result<Option<&'a TimePattern>>,
) -> Result<StringArray> {
    let label = match values.data_type() {
        DataType::Timestamp(_, Some(label)) => Some(label.to_string()),
        _ => None,
    };
    let zone: Option<Tz> = label.as_deref().map(str::parse).transpose()?;
    let (numbers, unit) = match values.data_type() {
        DataType::Time32(_) | DataType::Time64(_) => {
            let times = cast(values, &DataType::Time64(TimeUnit::Nanosecond))?;
            let times = times
                .as_primitive::<Time64NanosecondType>()
                .reinterpret_cast::<Int64Type>();
            (Arc::new(times) as ArrayRef, 1)
        }
        DataType::Date32 => (
            cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?,
            unit_of(&DataType::Date32).unwrap_or(1),
        ),
        other => (cast(values, &DataType::Int64)?, unit_of(other).unwrap_or(1)),
    };
    let numbers = numbers.as_primitive::<Int64Type>();
    let text = |row: usize| {
        let (true, Some(pattern)) = (numbers.is_valid(row), pattern(row)?) else {
            return Ok(None);
        };
        let nanoseconds = i128::from(numbers.value(row)) * unit;
        let utc = utc(nanoseconds).ok_or_else(|| {
            DataFusionError::Execution("a time is beyond the calendar; leave such rows out in WHERE".into())
        })?;
        Ok(Some(one(pattern, utc, zone)))
    };
    (0..values.len()).map(text).collect()
}

fn utc(nanoseconds: i128) -> Option<NaiveDateTime> {
    const SECOND: i128 = 1_000_000_000;
    let seconds = i64::try_from(nanoseconds.div_euclid(SECOND)).ok()?;
    let rest = u32::try_from(nanoseconds.rem_euclid(SECOND)).ok()?;
    DateTime::from_timestamp(seconds, rest).map(|time| time.naive_utc())
}

fn one(pattern: &TimePattern, utc: NaiveDateTime, zone: Option<Tz>) -> String {
    let shown = zone.map(|zone| zone.from_utc_datetime(&utc));
    match (pattern, shown) {
        (TimePattern::Strftime(pattern), Some(shown)) => shown.format(pattern).to_string(),
        (TimePattern::Strftime(pattern), None) => utc.and_utc().format(pattern).to_string(),
        (TimePattern::Template(parts), Some(shown)) => {
            let seconds = shown.offset().fix().local_minus_utc();
            let short = shown.format("%Z").to_string();
            let name = if short.starts_with(['+', '-']) && seconds == 0 {
                "UTC".to_owned()
            } else {
                short
            };
            write(parts, shown.naive_local(), Some((&name, seconds)))
        }
        (TimePattern::Template(parts), None) => write(parts, utc, None),
    }
}
