//! `x AT TIME ZONE 'zone'`: the instant at which a clock of the zone shows a timestamp without time zone, and
//! what it shows at an instant.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use halocline_values::convert;
use halocline_values::times::{TimeRule, convert_times, is_time, session_zone};

/// Name of the function.
pub(super) const NAME: &str = "at_time_zone";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AtTimeZone {
    signature: Signature,
}

impl AtTimeZone {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

/// Returns the type of a result.
fn result_type(of: &DataType, zone: &str) -> DataType {
    match of {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
        DataType::Timestamp(unit, None) => DataType::Timestamp(*unit, Some(zone.into())),
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into())),
        _ => DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.into())),
    }
}

/// Returns the zone that a call names.
///
/// # Errors
/// It is no text constant, or there is no such zone.
fn zone_of(value: Option<&ScalarValue>) -> Result<&str> {
    let name = value.and_then(|value| value.try_as_str().flatten());
    let name = name.ok_or_else(|| {
        DataFusionError::Plan("AT TIME ZONE needs a time zone as a text, as 'Europe/Berlin'".into())
    })?;
    match name.parse::<arrow_array::timezone::Tz>() {
        Ok(_) => Ok(name),
        Err(_) => Err(DataFusionError::Plan(format!(
            "there is no time zone '{name}'; write a name as 'Europe/Berlin', or an offset as '+02:00'"
        ))),
    }
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [value, zone] => format!("{} AT TIME ZONE {}", value.schema_name(), zone.schema_name()),
            _ => NAME.to_owned(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type depends on the zone".into()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let zone = zone_of(args.scalar_arguments.get(1).copied().flatten())?;
        let data_type = args.arg_fields[0].data_type();
        let nullable = args.arg_fields[0].is_nullable();
        Ok(Arc::new(Field::new(NAME, result_type(data_type, zone), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (value, zone) = match args.args.as_slice() {
            [value, ColumnarValue::Scalar(zone)] => (value, zone_of(Some(zone))?),
            _ => {
                return Err(DataFusionError::Internal(
                    "AT TIME ZONE has a constant zone".into(),
                ));
            }
        };
        let (to, zone) = (args.return_field.data_type(), session_zone(Some(zone)));
        let converted = |values: &ArrayRef| match values.data_type() {
            from if is_time(from) => convert_times(values, to, TimeRule::Strict, zone),
            // A text has a zone of its own, or is read in this one.
            _ => convert(values, to, false, zone),
        };
        match value {
            ColumnarValue::Scalar(value) => {
                let value = converted(&value.to_array()?)?;
                ScalarValue::try_from_array(&value, 0).map(ColumnarValue::Scalar)
            }
            ColumnarValue::Array(values) => Ok(ColumnarValue::Array(converted(values)?)),
        }
    }
}
