//! Values as expressions of the syntax tree, with the value and the type that they have.

use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value};

use crate::EngineError;
use crate::syntax::call_of;

/// Returns an expression that is planned as `value`. Integers, decimals with a fraction, floats, strings,
/// booleans and NULL are literals, which an `INSERT` takes without being planned; other types are written as
/// a conversion.
///
/// # Errors
/// The value has no text from which it can be read: it is a list or a struct.
pub fn literal_expr(value: &ScalarValue) -> Result<Expr, EngineError> {
    let literal = match value {
        value if value.is_null() => Value::Null,
        ScalarValue::Boolean(Some(value)) => Value::Boolean(*value),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Value::SingleQuotedString(text.clone()),
        ScalarValue::Binary(Some(_))
        | ScalarValue::LargeBinary(Some(_))
        | ScalarValue::BinaryView(Some(_)) => Value::HexStringLiteral(text_of(value)?),
        // An exponent makes it a float.
        ScalarValue::Float64(Some(float)) if float.is_finite() => return Ok(number(&format!("{float:e}"))),
        ScalarValue::Float32(Some(float)) if float.is_finite() => {
            return Ok(number(&format!("{:e}", f64::from(*float))));
        }
        ScalarValue::Decimal128(Some(_), _, 1..) => return Ok(number(&text_of(value)?)),
        value if value.data_type().is_integer() => return Ok(number(&text_of(value)?)),
        value if value.data_type().is_nested() => {
            return Err(EngineError::Unsupported {
                what: format!("a value of type {}", value.data_type()),
                instead: "give numbers, strings, dates, timestamps, booleans or NULL".into(),
            });
        }
        value => return Ok(cast(text_of(value)?, &value.data_type())),
    };
    Ok(Expr::value(literal))
}

/// Returns the text of a value, from which a cast makes the value again.
fn text_of(value: &ScalarValue) -> Result<String, EngineError> {
    let text = value
        .to_array()
        .and_then(|array| Ok(array_value_to_string(&array, 0)?));
    Ok(text?)
}

/// Returns a number, negative if the text has a sign.
fn number(text: &str) -> Expr {
    let literal = |digits: &str| Expr::value(Value::Number(digits.to_owned(), false));
    match text.strip_prefix('-') {
        None => literal(text),
        Some(digits) => Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(literal(digits)),
        },
    }
}

/// Returns `arrow_cast('text', 'type')`.
fn cast(text: String, data_type: &DataType) -> Expr {
    let args = [text, data_type.to_string()];
    call_of(
        "arrow_cast",
        args.map(|text| Expr::value(Value::SingleQuotedString(text))),
    )
}
