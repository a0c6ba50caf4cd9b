//! Expressions that the simplifier must leave as they are.
//!
//! It moves a cast from a column to the constant that it is compared with, also where the cast rounds or
//! fails: `CAST(d AS int) = 1` becomes `d = 1`. And it makes `s ~ '.*'` true for NULL, and `s ~ 'a\\b'` a
//! pattern of LIKE in which the backslash is the escape character.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::rules::type_of;

/// Its argument, under its name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Kept {
    signature: Signature,
}

static KEPT_ARGUMENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(Kept {
        signature: Signature::any(1, Volatility::Immutable),
    }))
});

/// Returns an operand that is a lossy cast such that the cast stays where it is.
pub(super) fn kept_cast(expr: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&KEPT_ARGUMENT), vec![expr]))
}

/// Returns true for a cast between numbers that may round or fail, or whose value is NULL where it fails.
pub(super) fn is_lossy(expr: &Expr, schema: &DFSchema) -> bool {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expr else {
        return false;
    };
    let (from, to) = (type_of(expr, schema), field.data_type());
    match (digits(&from), digits(to)) {
        (Some((from_whole, from_scale)), Some((whole, scale))) => {
            let loses_sign = !from.is_unsigned_integer() && to.is_unsigned_integer();
            let loses_bit = from.is_unsigned_integer() && to.is_signed_integer() && whole == from_whole;
            whole < from_whole || scale < from_scale || loses_sign || loses_bit
        }
        _ => false,
    }
}

/// Returns the number of digits before and after the point that a type of numbers has at most.
fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    use DataType as D;
    Some(match data_type {
        D::Int8 | D::UInt8 => (3, 0),
        D::Int16 | D::UInt16 => (5, 0),
        D::Int32 | D::UInt32 => (10, 0),
        D::Int64 => (19, 0),
        D::UInt64 => (20, 0),
        D::Decimal32(precision, scale)
        | D::Decimal64(precision, scale)
        | D::Decimal128(precision, scale)
        | D::Decimal256(precision, scale) => (
            i16::from(*precision) - i16::from(*scale),
            i16::from(*scale).max(0),
        ),
        _ => return None,
    })
}

/// Returns a match with a regular expression that means the same to the simplifier.
pub(super) fn regex(mut binary: BinaryExpr) -> std::result::Result<Expr, BinaryExpr> {
    let Some((value, pattern)) = text_of(&binary.right) else {
        return Err(binary);
    };
    let pattern = match pattern {
        // The empty pattern is found in every text but NULL.
        ".*" => String::new(),
        // A group is not made a pattern of LIKE.
        _ if pattern.contains(r"\\") || pattern.contains(r"\x") || pattern.contains(r"\u") => {
            format!("({pattern})")
        }
        _ => return Err(binary),
    };
    let value = match value {
        ScalarValue::Utf8View(_) => ScalarValue::Utf8View(Some(pattern)),
        ScalarValue::LargeUtf8(_) => ScalarValue::LargeUtf8(Some(pattern)),
        _ => ScalarValue::Utf8(Some(pattern)),
    };
    let mut right = &mut *binary.right;
    while let Expr::Cast(cast) = right {
        right = &mut cast.expr;
    }
    *right = Expr::Literal(value, None);
    Ok(Expr::BinaryExpr(binary))
}

/// Returns a literal text, which may be cast to another type of texts, and its value.
pub(super) fn text_of(expr: &Expr) -> Option<(&ScalarValue, &str)> {
    match expr {
        Expr::Literal(value, _) => Some((value, value.try_as_str().flatten()?)),
        Expr::Cast(Cast { expr, field }) if field.data_type().is_string() => text_of(expr),
        _ => None,
    }
}

/// Returns true for operators that match regular expressions.
pub(super) fn is_regex(op: Operator) -> bool {
    matches!(
        op,
        Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch
    )
}

fn one_argument() -> DataFusionError {
    DataFusionError::Internal("kept has one argument".to_owned())
}

impl ScalarUDFImpl for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let value = args.first().ok_or_else(one_argument)?;
        Ok(value.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(one_argument)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        args.arg_fields.first().cloned().ok_or_else(one_argument)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(one_argument)
    }
}
