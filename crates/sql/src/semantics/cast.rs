//! `CAST` and `TRY_CAST` as SQL has them, where DataFusion's differ.
//!
//! A cast whose values are those of [`convert`] is a function instead of DataFusion's cast. That also keeps
//! the optimizer from comparing what is cast in place of the result: it takes `CAST(d AS int) = 3` for
//! `d = 3.00`, and `TRY_CAST(x AS tinyint) > 5` for `x > 5`.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halocline_values::convert;
use halocline_values::sql_name;
use halocline_values::times::{TimeRule, convert_times, is_time, session_zone};

use super::rules::type_of;

/// What a cast does with values that its type does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CastRule {
    /// `CAST`: rounds, and fails for what is out of range.
    Strict,
    /// `TRY_CAST`: rounds, and returns NULL for what is out of range.
    Try,
    /// Rounds times down.
    Floor,
    /// Rounds times up.
    Ceiling,
    /// Keeps the order of times: those out of range are before or after all others.
    Ordered,
}

/// A cast to one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlCast {
    to: DataType,
    rule: CastRule,
    /// The session's time zone.
    zone: Option<String>,
    signature: Signature,
}

/// Returns the cast of an expression to a type; `None` if DataFusion's is right.
pub(super) fn cast(
    expr: &Expr,
    to: &DataType,
    safe: bool,
    schema: &DFSchema,
    zone: Option<&str>,
) -> Option<Expr> {
    if !safe && fails(expr, to, zone) {
        return Some(cast_by(expr.clone(), to, CastRule::Strict, zone));
    }
    // Most casts are to types of which none needs a correction.
    let has_zone = session_zone(zone).is_some();
    let may_differ = to.is_integer() || to.is_decimal() || is_time(to) || (has_zone && to.is_string());
    if !may_differ || !differs(&type_of(expr, schema), to, safe, has_zone) {
        return None;
    }
    if let Some(literal) = folded(expr, to, safe, zone) {
        return Some(literal);
    }
    let rule = if safe { CastRule::Try } else { CastRule::Strict };
    Some(cast_by(expr.clone(), to, rule, zone))
}

/// Returns true for a literal that a type does not have. The statement fails only if it is evaluated, while
/// the simplifier fails at once.
fn fails(expr: &Expr, to: &DataType, zone: Option<&str>) -> bool {
    let Expr::Literal(value, _) = expr else {
        return false;
    };
    let is_possible = !value.is_null() && !to.is_string() && value.data_type() != *to;
    let values = || value.to_array().map_err(ArrowError::from);
    is_possible
        && values()
            .and_then(|values| convert(&values, to, false, session_zone(zone)))
            .is_err()
}

/// Returns a cast by a rule.
pub(super) fn cast_by(expr: Expr, to: &DataType, rule: CastRule, zone: Option<&str>) -> Expr {
    let function = ScalarUDF::new_from_impl(SqlCast {
        to: to.clone(),
        rule,
        zone: zone.map(str::to_owned),
        signature: Signature::any(1, Volatility::Immutable),
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

/// Returns the value of a literal that is cast; `None` for other expressions, and if it does not fit.
pub(super) fn folded(expr: &Expr, to: &DataType, safe: bool, zone: Option<&str>) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else {
        return None;
    };
    let value = convert(&value.to_array().ok()?, to, safe, session_zone(zone)).ok()?;
    let value = ScalarValue::try_from_array(&value, 0).ok()?;
    Some(Expr::Literal(value, metadata.clone()))
}

/// Returns the value of a cast of this module whose argument is a literal; `None` for other expressions, and
/// if it does not fit.
///
/// # Errors
/// The value has no place in the type. Instead of an error, or of the first or the last value, which columns
/// may have, a comparison with it needs another form, as statements with that literal have.
pub(super) fn evaluated(function: &ScalarFunction) -> Result<Option<Expr>> {
    let Some(cast) = function.func.inner().downcast_ref::<SqlCast>() else {
        return Ok(None);
    };
    let Some(Expr::Literal(value, metadata)) = function.args.first() else {
        return Ok(None);
    };
    let values = value.to_array()?;
    if matches!(cast.rule, CastRule::Floor | CastRule::Ceiling | CastRule::Ordered) {
        convert_times(
            &values,
            &cast.to,
            TimeRule::Strict,
            session_zone(cast.zone.as_deref()),
        )?;
    }
    let value = ScalarValue::try_from_array(&cast.converted(&values)?, 0)?;
    Ok(Some(Expr::Literal(value, metadata.clone())))
}

/// Returns true for a cast of this module that fails for values that its type does not have.
pub(super) fn may_fail(function: &ScalarFunction) -> bool {
    let cast = function.func.inner().downcast_ref::<SqlCast>();
    cast.is_some_and(|cast| cast.rule == CastRule::Strict)
}

/// Returns true if a cast has other values than DataFusion's, or maps several values to one.
fn differs(from: &DataType, to: &DataType, safe: bool, has_zone: bool) -> bool {
    use DataType as T;
    let is_text = matches!(from, T::Utf8 | T::LargeUtf8 | T::Utf8View);
    match (from, to) {
        (T::Decimal128(_, 1..), to) if to.is_integer() => true,
        (from, to) if from.is_floating() && to.is_integer() => true,
        (_, T::Decimal128(..) | T::Timestamp(..)) if is_text => true,
        // Dates have a place in microseconds, and DataFusion knows what such a cast keeps.
        (T::Date32, T::Timestamp(unit, to)) => *unit == TimeUnit::Nanosecond || (has_zone && to.is_some()),
        (T::Date64, T::Timestamp(..)) => true,
        (T::Timestamp(had, from), T::Timestamp(has, to)) => {
            had != has || (has_zone && from.is_some() != to.is_some())
        }
        (T::Timestamp(..), T::Date64) => true,
        (T::Timestamp(_, Some(_)), T::Date32) => has_zone,
        (T::Timestamp(_, Some(_)), to) if to.is_string() => has_zone,
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

impl SqlCast {
    fn called(&self, value: &str) -> String {
        format!(
            "{}({value} AS {})",
            self.name().to_uppercase(),
            sql_name(&self.to)
        )
    }

    fn converted(&self, values: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
        let zone = session_zone(self.zone.as_deref());
        match self.rule {
            CastRule::Strict | CastRule::Try => convert(values, &self.to, self.rule == CastRule::Try, zone),
            CastRule::Floor => convert_times(values, &self.to, TimeRule::Floor, zone),
            CastRule::Ceiling => convert_times(values, &self.to, TimeRule::Ceiling, zone),
            CastRule::Ordered => convert_times(values, &self.to, TimeRule::Ordered, zone),
        }
    }
}

impl ScalarUDFImpl for SqlCast {
    fn name(&self) -> &str {
        match self.rule {
            CastRule::Strict => "cast",
            CastRule::Try => "try_cast",
            CastRule::Floor => "floor_time",
            CastRule::Ceiling => "ceiling_time",
            CastRule::Ordered => "ordered_time",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let value = args.first().map(ToString::to_string).unwrap_or_default();
        Ok(self.called(&value))
    }

    /// Returns a name that no column has, as a join gets columns for the expressions among its keys.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let value = args.first().map(|value| value.schema_name().to_string());
        Ok(self.called(&value.unwrap_or_default()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = self.rule == CastRule::Try || args.arg_fields.iter().any(|field| field.is_nullable());
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
                let value = self.converted(&value.to_array()?)?;
                ScalarValue::try_from_array(&value, 0).map(ColumnarValue::Scalar)
            }
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(self.converted(values)?)),
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
            assert_eq!(differs(&from, &to, false, false), replaced, "{from} to {to}");
            assert_eq!(
                differs(&from, &to, true, false),
                replaced_if_safe,
                "try {from} to {to}"
            );
        }
    }
}
