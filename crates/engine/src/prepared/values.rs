//! The values of parameters and literals, with the types that they have in a plan.

use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use halocline_sql::EngineError;
use halocline_values::sql_name;
use halocline_values::times::read as read_time;

/// Digits of an integer that certainly fits 64 bits.
const INTEGER_DIGITS: usize = 18;
/// Digits of a decimal.
const DECIMAL_DIGITS: usize = 38;

/// Returns the value as a literal of the same meaning is planned: integers have 64 bits, decimals the digits
/// that are written, texts are of type Utf8. `None` for NULL and for types whose literals are expressions.
pub(super) fn as_literal(value: &ScalarValue) -> Option<ScalarValue> {
    if value.is_null() {
        return None;
    }
    Some(match value {
        ScalarValue::Boolean(_)
        | ScalarValue::Utf8(_)
        | ScalarValue::Date32(_)
        | ScalarValue::TimestampSecond(..)
        | ScalarValue::TimestampMillisecond(..)
        | ScalarValue::TimestampMicrosecond(..)
        | ScalarValue::TimestampNanosecond(..) => value.clone(),
        ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => ScalarValue::Utf8(text.clone()),
        ScalarValue::Float64(Some(float)) if float.is_finite() => value.clone(),
        ScalarValue::Float32(Some(float)) if float.is_finite() => {
            ScalarValue::Float64(Some(f64::from(*float)))
        }
        ScalarValue::Decimal128(Some(_), _, 1..) => {
            let text = array_value_to_string(&value.to_array().ok()?, 0).ok()?;
            match text.strip_prefix('-') {
                Some(digits) => number(digits, true)?,
                None => number(&text, false)?,
            }
        }
        ScalarValue::UInt64(Some(number)) => match i64::try_from(*number) {
            Ok(number) => ScalarValue::Int64(Some(number)),
            Err(_) => value.clone(),
        },
        value if value.data_type().is_integer() => value.cast_to(&DataType::Int64).ok()?,
        _ => return None,
    })
}

/// Returns the value of a number without an exponent as DataFusion plans it; `None` for one whose type is not
/// plain from its digits: it may need more than 64 bits, or has more digits than a decimal.
pub(super) fn number(digits: &str, negative: bool) -> Option<ScalarValue> {
    let sign = |value: i128| if negative { -value } else { value };
    match number_type(digits)? {
        DataType::Decimal128(precision, scale) => {
            let value: i128 = digits.replace('.', "").parse().ok()?;
            Some(ScalarValue::Decimal128(Some(sign(value)), precision, scale))
        }
        _ => {
            let value: i64 = digits.parse().ok()?;
            Some(ScalarValue::Int64(Some(if negative { -value } else { value })))
        }
    }
}

/// Returns the type of a number as [`number`] reads it.
pub(super) fn number_type(digits: &str) -> Option<DataType> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((whole, fraction)) = digits.split_once('.') else {
        return (is_digits(digits) && digits.len() <= INTEGER_DIGITS).then_some(DataType::Int64);
    };
    if !is_digits(whole) || !is_digits(fraction) || digits.len() > DECIMAL_DIGITS {
        return None;
    }
    let significant = whole.trim_start_matches('0').len();
    let precision = match significant {
        // Zeros after the point are no digits of a number below 1, but the scale needs room for them.
        0 => fraction.len(),
        whole => whole + fraction.len(),
    };
    Some(DataType::Decimal128(
        u8::try_from(precision).ok()?,
        i8::try_from(fraction.len()).ok()?,
    ))
}

/// Types between which values may be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeFamily {
    Number,
    Text,
    Boolean,
    Time,
    Bytes,
    Other,
}

impl TypeFamily {
    fn from_type(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytes,
            DataType::Dictionary(_, values) => Self::from_type(values),
            numeric if numeric.is_numeric() => Self::Number,
            temporal if temporal.is_temporal() => Self::Time,
            _ => Self::Other,
        }
    }
}

/// Checks that a value can be given for a parameter of a type that was inferred from its place in the
/// statement.
///
/// # Errors
/// [`EngineError::Parameter`]: values of these types cannot be compared.
pub(super) fn check(number: usize, value: &ScalarValue, expected: &DataType) -> Result<(), EngineError> {
    let found = value.data_type();
    let (have, want) = (TypeFamily::from_type(&found), TypeFamily::from_type(expected));
    // A date may be given as a text, if it is one. It need not have a place in the type that it is compared
    // with.
    let reads_as_time = || {
        let is_timestamp = matches!(expected, DataType::Timestamp(..));
        let text = value.try_as_str().flatten();
        have == TypeFamily::Text
            && want == TypeFamily::Time
            && (value.cast_to(expected).is_ok()
                || (is_timestamp && text.is_some_and(|text| read_time(text, expected, None).is_some())))
    };
    if value.is_null() || have == want || want == TypeFamily::Other || reads_as_time() {
        return Ok(());
    }
    Err(wrong_type(number, value, expected))
}

/// Converts a value to the type that a parameter was declared with.
///
/// # Errors
/// [`EngineError::Parameter`]: it cannot be converted, or not without changing it.
pub(super) fn convert(
    number: usize,
    value: &ScalarValue,
    declared: &DataType,
) -> Result<ScalarValue, EngineError> {
    let is_exact = |converted: &ScalarValue| {
        let is_read = value.is_null() || TypeFamily::from_type(&value.data_type()) == TypeFamily::Text;
        is_read
            || converted
                .cast_to(&value.data_type())
                .is_ok_and(|back| back == *value)
    };
    let converted = value.cast_to(declared).ok();
    let converted =
        converted.filter(|converted| converted.is_null() == value.is_null() && is_exact(converted));
    converted.ok_or_else(|| wrong_type(number, value, declared))
}

fn wrong_type(number: usize, value: &ScalarValue, expected: &DataType) -> EngineError {
    let shown = value.to_array().ok();
    let shown = shown.and_then(|array| array_value_to_string(&array, 0).ok());
    let shown = shown.unwrap_or_else(|| value.to_string());
    EngineError::Parameter {
        name: format!("${number}"),
        reason: format!(
            "it is of type {}, and {shown} is of type {}; give a value of that type, or write a CAST in the \
             statement",
            sql_name(expected),
            sql_name(&value.data_type())
        ),
    }
}

/// Checks the number of values.
///
/// # Errors
/// [`EngineError::Parameter`]: there are more or fewer values than parameters.
pub(super) fn check_count(parameters: usize, values: usize) -> Result<(), EngineError> {
    if parameters == values {
        return Ok(());
    }
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    Err(EngineError::Parameter {
        name: format!("${}", parameters.min(values) + 1),
        reason: format!(
            "the statement has {}, and {} given",
            counted(parameters, "parameter"),
            match values {
                1 => "1 value is".to_owned(),
                values => format!("{values} values are"),
            }
        ),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::logical_expr::Expr;
    use proptest::prelude::*;

    use super::*;

    /// Returns the value of a literal as planned by DataFusion.
    fn planned(text: &str) -> ScalarValue {
        let mut state = SessionStateBuilder::new().build();
        state.config_mut().options_mut().sql_parser.parse_float_as_decimal = true;
        let schema = datafusion::common::DFSchema::empty();
        match state.create_logical_expr(text, &schema).unwrap() {
            Expr::Literal(value, _) => value,
            other => panic!("{text}: {other}"),
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_datafusion_plans_them(
            text in "[0-9]{1,18}|[0-9]{1,20}\\.[0-9]{1,17}|0{1,4}\\.0{0,5}[0-9]{1,4}", negative in any::<bool>()
        ) {
            let sign = if negative { "-" } else { "" };
            let read = number(&text, negative).unwrap();
            prop_assert_eq!(&read, &planned(&format!("{sign}{text}")), "{}", text);
            prop_assert_eq!(read.data_type(), number_type(&text).unwrap());
        }
    }

    #[test]
    fn other_numbers_are_not_read() {
        for text in ["", "1e3", "1_000", ".5", "5.", "1234567890123456789", "1.2.3"] {
            assert_eq!(number(text, false), None, "{text}");
        }
    }

    #[test]
    fn values_become_literals_of_the_same_meaning() {
        let decimal = ScalarValue::Decimal128(Some(870), 12, 2);
        assert_eq!(
            as_literal(&decimal),
            Some(ScalarValue::Decimal128(Some(870), 3, 2))
        );
        let negative = ScalarValue::Decimal128(Some(-5), 12, 2);
        assert_eq!(
            as_literal(&negative),
            Some(ScalarValue::Decimal128(Some(-5), 2, 2))
        );
        assert_eq!(as_literal(&ScalarValue::from(7i8)), Some(ScalarValue::from(7i64)));
        assert_eq!(
            as_literal(&ScalarValue::from(u64::MAX)),
            Some(ScalarValue::from(u64::MAX))
        );
        assert_eq!(
            as_literal(&ScalarValue::Utf8View(Some("x".into()))),
            Some(ScalarValue::from("x"))
        );
        for none in [
            ScalarValue::Null,
            ScalarValue::Int32(None),
            ScalarValue::from(f64::NAN),
        ] {
            assert_eq!(as_literal(&none), None);
        }
    }

    #[test]
    fn conversions_are_exact() {
        let int = DataType::Int32;
        assert_eq!(
            convert(1, &ScalarValue::from(5i64), &int).unwrap(),
            ScalarValue::from(5i32)
        );
        assert!(convert(1, &ScalarValue::Null, &int).unwrap().is_null());
        for wrong in [
            ScalarValue::from(1i64 << 40),
            ScalarValue::Decimal128(Some(15), 2, 1),
            ScalarValue::from("x"),
        ] {
            let error = convert(1, &wrong, &int).unwrap_err().to_string();
            assert!(error.contains("parameter $1: it is of type int"), "{error}");
        }
        let date = DataType::Date32;
        assert!(convert(1, &ScalarValue::from("2026-02-03"), &date).is_ok());
        assert!(check(1, &ScalarValue::from("2026-02-03"), &date).is_ok());
        assert!(check(1, &ScalarValue::from("x"), &date).is_err());
        assert!(check(1, &ScalarValue::from(1.5), &int).is_ok());
        assert!(check(1, &ScalarValue::from(true), &int).is_err());
    }
}
