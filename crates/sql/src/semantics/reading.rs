//! Functions that read dates and times by patterns (`to_timestamp`, `to_date` and the like), over
//! DataFusion's.
//!
//! Patterns are PostgreSQL's templates or those of `strftime` ([`super::templates`]); DataFusion's functions
//! know the latter only, take none from a column beside a constant text, and lose the time zone of the
//! result if the texts are those of a column.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_cast::cast::cast;
use arrow_schema::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::templates;

/// The functions.
pub(super) const NAMES: [&str; 8] = [
    "to_timestamp",
    "to_timestamp_seconds",
    "to_timestamp_millis",
    "to_timestamp_micros",
    "to_timestamp_nanos",
    "to_date",
    "to_time",
    "to_unixtime",
];

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ReadTime {
    inner: Arc<ScalarUDF>,
}

impl ReadTime {
    pub(super) fn over(inner: Arc<ScalarUDF>) -> Self {
        Self { inner }
    }

    /// Returns a pattern of `strftime`.
    ///
    /// # Errors
    /// The pattern is unknown.
    fn strftime(&self, pattern: &str) -> Result<String> {
        let read = if templates::is_strftime(pattern) {
            templates::check_strftime(pattern).map(|()| pattern.to_owned())
        } else {
            templates::reading_pattern(pattern)
        };
        read.map_err(|reason| DataFusionError::Execution(format!("{}: {reason}", self.name())))
    }

    /// Returns patterns of `strftime`.
    fn patterns(&self, patterns: &ColumnarValue) -> Result<ColumnarValue> {
        Ok(match patterns {
            ColumnarValue::Scalar(pattern) => {
                let read = match pattern.try_as_str() {
                    Some(pattern) => pattern.map(|pattern| self.strftime(pattern)).transpose()?,
                    None if pattern.is_null() => None,
                    None => {
                        let text = format!("{}: the pattern {pattern} is no text", self.name());
                        return Err(DataFusionError::Execution(text));
                    }
                };
                ColumnarValue::Scalar(ScalarValue::Utf8(read))
            }
            ColumnarValue::Array(patterns) => {
                let patterns = cast(patterns, &DataType::Utf8)?;
                let patterns = patterns.as_string::<i32>();
                let read = patterns
                    .iter()
                    .map(|pattern| pattern.map(|text| self.strftime(text)).transpose());
                ColumnarValue::Array(Arc::new(read.collect::<Result<StringArray>>()?))
            }
        })
    }
}

impl ScalarUDFImpl for ReadTime {
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

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        Some(ScalarUDF::new_from_impl(Self::over(Arc::new(inner))))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = args.return_field.data_type().clone();
        let is_column = |value: &ColumnarValue| matches!(value, ColumnarValue::Array(_));
        if args.args.len() > 1 {
            let columns = args.args.iter().any(is_column);
            for (at, value) in args.args.iter_mut().enumerate() {
                if at > 0 {
                    *value = self.patterns(value)?;
                } else if columns && let ColumnarValue::Scalar(text) = value {
                    *value = ColumnarValue::Array(text.to_array_of_size(args.number_rows)?);
                }
            }
        }
        Ok(match self.inner.inner().invoke_with_args(args)? {
            ColumnarValue::Array(times) if *times.data_type() != to => {
                ColumnarValue::Array(with_zone_of(&times, &to)?)
            }
            read => read,
        })
    }
}

/// Returns instants as those of a type with a time zone.
fn with_zone_of(times: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match (times.data_type(), to) {
        (DataType::Timestamp(unit, None), DataType::Timestamp(other, Some(_))) if unit == other => {
            let data = times.to_data().into_builder().data_type(to.clone()).build()?;
            Ok(arrow_array::make_array(data))
        }
        (from, _) => Err(DataFusionError::Internal(format!("{from} is not {to}"))),
    }
}
