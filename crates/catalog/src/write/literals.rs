//! `VALUES` of literals as arrays, without planning a query: what makes single-row INSERTs quick.
//!
//! Numbers are read as in a query (i64, else u64, else a decimal, or a float if there is an exponent), so
//! that a literal means the same on both ways. For a column of floats they are read as such, without a
//! decimal in between.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value};
use halocline_sql::EngineError;
use halocline_sql::parse::is_default;
use halocline_sql::semantics::convert_scalar;
use halocline_sql::sql_types::data_type;
use halocline_values::sql_name;

/// Returns the rows as a batch with a column per value; columns whose literals have different types are cast
/// to the type of the table's column that they are for, `to[i]`. With the `defaults` of these columns, the
/// word DEFAULT is a literal, too. Timestamps without time zone are read in `zone`; none is UTC.
///
/// # Errors
/// Rows of different lengths; a literal that is no value of its type. The error names row and column.
pub fn literals(
    statement: &str,
    rows: &[Vec<Expr>],
    to: &[Arc<Field>],
    defaults: Option<&[Option<&ArrayRef>]>,
    zone: Option<Tz>,
) -> Result<RecordBatch, EngineError> {
    if let Some(row) = rows.iter().position(|row| row.len() != to.len()) {
        let (found, expected) = (rows[row].len(), to.len());
        let text = format!(
            "{statement}, row {}: it has {found} values instead of {expected}",
            row + 1
        );
        return Err(EngineError::Query(text));
    }
    let columns: Vec<ArrayRef> = (0..to.len())
        .map(|column| {
            let wrong = |row: usize, reason: String| EngineError::Value {
                statement: statement.to_string(),
                row: row as u64 + 1,
                column: to[column].name().clone(),
                reason,
            };
            let default = match defaults.map(|defaults| defaults[column]) {
                Some(Some(value)) => Some(ScalarValue::try_from_array(value, 0)?),
                Some(None) => Some(ScalarValue::Null),
                None => None,
            };
            column_of(
                rows,
                (column, to[column].data_type()),
                default.as_ref(),
                zone,
                &wrong,
            )
        })
        .collect::<Result<_, _>>()?;
    let fields = columns.iter().zip(to);
    let fields = fields.map(|(values, field)| Field::new(field.name(), values.data_type().clone(), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(EngineError::from)
}

fn column_of(
    rows: &[Vec<Expr>],
    (column, to): (usize, &DataType),
    default: Option<&ScalarValue>,
    zone: Option<Tz>,
    wrong: &dyn Fn(usize, String) -> EngineError,
) -> Result<ArrayRef, EngineError> {
    let mut values = Vec::with_capacity(rows.len());
    for (row, exprs) in rows.iter().enumerate() {
        values.push(match default.filter(|_| is_default(&exprs[column])) {
            Some(default) => default.clone(),
            None => literal(&exprs[column], to, zone).map_err(|reason| wrong(row, reason))?,
        });
    }
    let mut types = values
        .iter()
        .filter(|value| !value.is_null())
        .map(ScalarValue::data_type);
    let first = types.next();
    let common = match &first {
        Some(first) if types.all(|other| other == *first) => first,
        _ => to,
    };
    for (row, value) in values.iter_mut().enumerate() {
        if value.data_type() != *common {
            *value = convert_scalar(value, common, false, zone)
                .map_err(|_| wrong(row, format!("'{value}' is not a value of type {}", sql_name(to))))?;
        }
    }
    ScalarValue::iter_to_array(values).map_err(EngineError::from)
}

/// Returns the value of a literal for a column of type `to`.
///
/// # Errors
/// It is no literal, or no value of the type it names; the text is the reason.
fn literal(expr: &Expr, to: &DataType, zone: Option<Tz>) -> Result<ScalarValue, String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => number(digits, false, to),
            Value::SingleQuotedString(text) => Ok(ScalarValue::Utf8(Some(text.clone()))),
            Value::Boolean(value) => Ok(ScalarValue::Boolean(Some(*value))),
            Value::Null => Ok(ScalarValue::Null),
            other => Err(format!("{other} is no literal that a table keeps")),
        },
        Expr::UnaryOp { op, expr } => match (op, &**expr) {
            (UnaryOperator::Minus | UnaryOperator::Plus, Expr::Value(value)) => match &value.value {
                Value::Number(digits, _) => number(digits, *op == UnaryOperator::Minus, to),
                other => Err(format!("{op}{other} is no number")),
            },
            _ => Err(format!(
                "{expr} is no literal; give a number, a text, a date, TRUE, FALSE or NULL"
            )),
        },
        Expr::TypedString(typed) => {
            let data_type = data_type(&typed.data_type)?;
            let text = typed.value.value.clone().into_string().unwrap_or_default();
            convert_scalar(&ScalarValue::Utf8(Some(text.clone())), &data_type, false, zone)
                .map_err(|_| format!("'{text}' is not a value of type {}", sql_name(&data_type)))
        }
        other => Err(format!(
            "{other} is no literal; give a number, a text, a date, TRUE, FALSE or NULL"
        )),
    }
}

fn number(digits: &str, negative: bool, to: &DataType) -> Result<ScalarValue, String> {
    let sign = if negative { "-" } else { "" };
    let text = format!("{sign}{}", digits.replace('_', ""));
    if let Ok(value) = text.parse::<i64>() {
        return Ok(ScalarValue::Int64(Some(value)));
    }
    if let Ok(value) = text.parse::<u64>() {
        return Ok(ScalarValue::UInt64(Some(value)));
    }
    if !to.is_floating()
        && let Some(decimal) = decimal(&text)
    {
        return Ok(decimal);
    }
    let no_number = || format!("'{text}' is no number");
    Ok(match to {
        DataType::Float32 => ScalarValue::Float32(Some(text.parse().map_err(|_| no_number())?)),
        _ => ScalarValue::Float64(Some(text.parse().map_err(|_| no_number())?)),
    })
}

/// Returns a number without an exponent as a decimal; `None` if it has more digits than a decimal can.
fn decimal(text: &str) -> Option<ScalarValue> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = i8::try_from(fraction.len()).ok().filter(|scale| *scale <= 38)?;
    let value: i128 = format!("{whole}{fraction}").parse().ok()?;
    let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1);
    let precision = u8::try_from(digits).ok()?.max(scale.unsigned_abs());
    (precision <= 38).then_some(ScalarValue::Decimal128(Some(value), precision, scale))
}
