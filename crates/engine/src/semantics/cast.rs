//! `CAST` and `TRY_CAST` as SQL has them, where DataFusion's differ.
//!
//! A cast whose values are those of [`convert`] is a function instead of DataFusion's cast. That also keeps
//! the optimizer from comparing what is cast in place of the result: it takes `CAST(d AS int) = 3` for
//! `d = 3.00`, and `TRY_CAST(x AS tinyint) > 5` for `x > 5`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::conversions::{convert, convert_scalar};
use super::rules::type_of;
use crate::import::sql_name;

/// A cast to one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlCast {
    to: DataType,
    /// True for `TRY_CAST`.
    safe: bool,
    signature: Signature,
}

/// Returns the cast of an expression to a type; none if DataFusion's is right.
pub(super) fn cast(expr: &Expr, to: &DataType, safe: bool, schema: &DFSchema) -> Option<Expr> {
    // Most casts are to types of which none needs a correction.
    let may_differ = to.is_integer() || to.is_decimal();
    if !may_differ || !differs(&type_of(expr, schema), to, safe) {
        return None;
    }
    if let Some(literal) = folded(expr, to, safe) {
        return Some(literal);
    }
    let function = ScalarUDF::new_from_impl(SqlCast {
        to: to.clone(),
        safe,
        signature: Signature::any(1, Volatility::Immutable),
    });
    let args = vec![expr.clone()];
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(
        Arc::new(function),
        args,
    )))
}

/// Returns the value of a literal that is cast; none for other expressions, and if it does not fit.
pub(super) fn folded(expr: &Expr, to: &DataType, safe: bool) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else {
        return None;
    };
    let value = convert_scalar(value, to, safe).ok()?;
    Some(Expr::Literal(value, metadata.clone()))
}

/// Returns true if a cast has other values than DataFusion's, or maps several values to one.
fn differs(from: &DataType, to: &DataType, safe: bool) -> bool {
    use DataType as T;
    let is_text = matches!(from, T::Utf8 | T::LargeUtf8 | T::Utf8View);
    match (from, to) {
        (T::Decimal128(_, 1..), to) if to.is_integer() => true,
        (from, to) if from.is_floating() && to.is_integer() => true,
        (_, T::Decimal128(..)) if is_text => true,
        (T::Decimal128(_, had), T::Decimal128(_, has)) if has < had => true,
        // NULL in place of some values.
        (from, to) => safe && from.is_numeric() && !widens(from, to),
    }
}

/// Returns true if every whole number of a type has a value of another type.
fn widens(from: &DataType, to: &DataType) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Decimal128(precision, scale) => Some(i16::from(*precision) - i16::from(*scale)),
        integer if integer.is_integer() => integer.primitive_width().map(|width| match width {
            1 => 3,
            2 => 5,
            4 => 10,
            _ => 20,
        }),
        _ => None,
    };
    if from.is_integer() && to.is_integer() {
        let signs = from.is_signed_integer() == to.is_signed_integer();
        return from == to || (signs && from.primitive_width() < to.primitive_width());
    }
    match (digits(from), digits(to)) {
        (Some(had), Some(has)) => to.is_decimal() && has >= had,
        _ => false,
    }
}

impl ScalarUDFImpl for SqlCast {
    fn name(&self) -> &str {
        match self.safe {
            true => "try_cast",
            false => "cast",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let word = if self.safe { "TRY_CAST" } else { "CAST" };
        let value = args.first().map(ToString::to_string).unwrap_or_default();
        Ok(format!("{word}({value} AS {})", sql_name(&self.to)))
    }

    /// Returns the name of what is cast, as that of a cast is.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args
            .first()
            .map(|value| value.schema_name().to_string())
            .unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = self.safe || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.first() {
            Some(Expr::Literal(value, _)) if value.is_null() => {
                let null = ScalarValue::try_from(&self.to)?;
                Ok(ExprSimplifyResult::Simplified(Expr::Literal(null, None)))
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(value)] => {
                convert_scalar(value, &self.to, self.safe).map(ColumnarValue::Scalar)
            }
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(convert(values, &self.to, self.safe)?)),
            _ => Err(DataFusionError::Internal(format!(
                "{} has one argument",
                self.name()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_casts_that_need_it_are_replaced() {
        let decimal = DataType::Decimal128;
        for (from, to, replaced, replaced_if_safe) in [
            (DataType::Float64, DataType::Int32, true, true),
            (decimal(5, 2), DataType::Int64, true, true),
            (decimal(5, 0), DataType::Int64, false, true),
            (decimal(5, 2), decimal(7, 4), false, false),
            (decimal(5, 2), decimal(5, 1), true, true),
            (decimal(5, 2), decimal(5, 3), false, true),
            (DataType::Int64, DataType::Int32, false, true),
            (DataType::Int32, DataType::Int64, false, false),
            (DataType::UInt32, DataType::Int32, false, true),
            (DataType::Int64, decimal(20, 0), false, false),
            (DataType::Int64, decimal(20, 2), false, true),
            (DataType::Utf8View, decimal(20, 2), true, true),
            (DataType::Utf8, DataType::Int32, false, false),
        ] {
            assert_eq!(differs(&from, &to, false), replaced, "{from} to {to}");
            assert_eq!(differs(&from, &to, true), replaced_if_safe, "try {from} to {to}");
        }
    }
}
