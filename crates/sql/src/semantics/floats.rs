//! Comparisons of floats as SQL has them: -0.0 equals 0.0, and NaN, whatever its bits, equals NaN and is
//! greater than all else. The kernels order floats by their bits.
//!
//! A comparison with a literal other than zero needs nothing. For `<` and its like the sign of a literal zero
//! is chosen; everything else compares *canonical* floats, of which there is one zero and one NaN. Codes of
//! columns are canonical anyway, so filters look through the function.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Case, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// `x`, with one zero and one NaN.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CanonicalFloat {
    signature: Signature,
    /// The call has the name of its argument.
    keeps_name: bool,
}

static CANONICAL: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(false));
static CANONICAL_ARGUMENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(true));

fn function(keeps_name: bool) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(CanonicalFloat {
        signature: Signature::any(1, Volatility::Immutable),
        keeps_name,
    }))
}

/// Returns true for the function that makes floats canonical.
pub fn is_canonical(function: &ScalarFunction) -> bool {
    function.func.inner().downcast_ref::<CanonicalFloat>().is_some()
}

/// Returns the expression that is made canonical, or else the given one.
pub fn without_sign_of_zero(expr: &Expr) -> &Expr {
    match expr {
        Expr::ScalarFunction(function) if is_canonical(function) => function.args.first().unwrap_or(expr),
        other => other,
    }
}

/// Returns an expression of floats with one zero and one NaN.
pub fn canonical(expr: Expr) -> Expr {
    called(expr, &CANONICAL)
}

/// Returns an argument of an aggregate with one zero and one NaN. The aggregate keeps its name without an
/// alias, under which DataFusion's rule for aggregates of one distinct argument would not find it.
pub(super) fn canonical_argument(expr: Expr) -> Expr {
    called(expr, &CANONICAL_ARGUMENT)
}

fn called(expr: Expr, function: &Arc<ScalarUDF>) -> Expr {
    match expr {
        Expr::Literal(value, metadata) => Expr::Literal(canonical_value(value), metadata),
        Expr::ScalarFunction(function) if is_canonical(&function) => Expr::ScalarFunction(function),
        other => Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), vec![other])),
    }
}

fn canonical_value(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(float)) => ScalarValue::Float64(Some(one_zero_f64(float))),
        ScalarValue::Float32(Some(float)) => ScalarValue::Float32(Some(one_zero_f32(float))),
        ScalarValue::Float16(Some(float)) => {
            let float = one_zero_f32(float.to_f32());
            ScalarValue::Float32(Some(float))
                .cast_to(&DataType::Float16)
                .unwrap_or(ScalarValue::Float16(None))
        }
        other => other,
    }
}

fn one_zero_f64(float: f64) -> f64 {
    // -0.0 + 0.0 is 0.0.
    if float.is_nan() { f64::NAN } else { float + 0.0 }
}

fn one_zero_f32(float: f32) -> f32 {
    if float.is_nan() { f32::NAN } else { float + 0.0 }
}

/// Returns true for the types of floats.
pub(super) fn is_float(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Float16 | DataType::Float32 | DataType::Float64
    )
}

/// Returns the value of a literal of floats.
fn float_of(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(ScalarValue::Float64(value), _) => *value,
        Expr::Literal(ScalarValue::Float32(value), _) => value.map(f64::from),
        Expr::Literal(ScalarValue::Float16(value), _) => value.map(|value| value.to_f64()),
        _ => None,
    }
}

fn with_negative_zero(literal: Expr) -> Expr {
    match literal {
        Expr::Literal(ScalarValue::Float64(_), metadata) => {
            Expr::Literal(ScalarValue::Float64(Some(-0.0)), metadata)
        }
        Expr::Literal(ScalarValue::Float32(_), metadata) => {
            Expr::Literal(ScalarValue::Float32(Some(-0.0)), metadata)
        }
        other => other,
    }
}

/// Returns `NULLIF(value, other)` of floats of a type.
pub(super) fn nullif(mut call: ScalarFunction, data_type: &DataType) -> Expr {
    match call.args.as_slice() {
        // It is evaluated once.
        [value, _] if value.is_volatile() => {
            call.args = call.args.into_iter().map(canonical).collect();
            Expr::ScalarFunction(call)
        }
        [value, other] => {
            let equal = BinaryExpr::new(Box::new(value.clone()), Operator::Eq, Box::new(other.clone()));
            let null = ScalarValue::try_from(data_type).unwrap_or(ScalarValue::Null);
            Expr::Case(Case {
                expr: None,
                when_then_expr: vec![(Box::new(comparison(equal)), Box::new(lit(null)))],
                else_expr: Some(Box::new(value.clone())),
            })
        }
        _ => Expr::ScalarFunction(call),
    }
}

/// Returns a comparison of floats, which have one type.
pub fn comparison(mut binary: BinaryExpr) -> Expr {
    if let Some(op) = binary
        .op
        .swap()
        .filter(|_| matches!(*binary.left, Expr::Literal(..)))
        && !matches!(*binary.right, Expr::Literal(..))
    {
        // The literal moves to the right, and back again.
        let swapped = BinaryExpr::new(binary.right, op, binary.left);
        return match comparison(swapped) {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                Expr::BinaryExpr(BinaryExpr::new(right, op.swap().unwrap_or(op), left))
            }
            other => other,
        };
    }
    let (left, right) = (*binary.left, canonical_literal(*binary.right));
    let zero = float_of(&right) == Some(0.0);
    let ordering = matches!(
        binary.op,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    );
    let (left, right) = match (&left, &right) {
        (Expr::Column(_), Expr::Literal(..)) if ordering && zero => {
            let negative = matches!(binary.op, Operator::Lt | Operator::GtEq);
            (
                left,
                if negative {
                    with_negative_zero(right)
                } else {
                    right
                },
            )
        }
        (Expr::Column(_), Expr::Literal(..))
            if !zero && float_of(&right).is_none_or(|value| !value.is_nan()) =>
        {
            (left, right)
        }
        _ => (canonical(left), canonical(right)),
    };
    binary.left = Box::new(left);
    binary.right = Box::new(right);
    Expr::BinaryExpr(binary)
}

fn canonical_literal(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(..) => canonical(expr),
        other => other,
    }
}

/// Unifies zeros in `x [NOT] BETWEEN low AND high` of floats.
pub(super) fn between(between: Between) -> Expr {
    let bound =
        |op, bound: &Expr| comparison(BinaryExpr::new(between.expr.clone(), op, Box::new(bound.clone())));
    let (low, high) = (
        bound(Operator::GtEq, &between.low),
        bound(Operator::LtEq, &between.high),
    );
    match (low, high) {
        (Expr::BinaryExpr(low), Expr::BinaryExpr(high)) if low.left == high.left => Expr::Between(Between {
            expr: low.left,
            negated: between.negated,
            low: low.right,
            high: high.right,
        }),
        _ => Expr::Between(Between {
            expr: Box::new(canonical(*between.expr)),
            negated: between.negated,
            low: Box::new(canonical(*between.low)),
            high: Box::new(canonical(*between.high)),
        }),
    }
}

/// Unifies zeros in `x [NOT] IN (…)` of floats.
pub(super) fn in_list(list: InList) -> Expr {
    let plain = |value: &Expr| match value {
        Expr::Literal(..) => float_of(value).is_none_or(|value| value != 0.0 && !value.is_nan()),
        _ => false,
    };
    if matches!(*list.expr, Expr::Column(_)) && list.list.iter().all(plain) {
        return Expr::InList(list);
    }
    Expr::InList(InList {
        expr: Box::new(canonical(*list.expr)),
        list: list.list.into_iter().map(canonical).collect(),
        negated: list.negated,
    })
}

/// Unifies zeros in `CASE x WHEN …` of a float.
pub(super) fn case(case: Case) -> Expr {
    let when_then = case.when_then_expr.into_iter();
    Expr::Case(Case {
        expr: case.expr.map(|expr| Box::new(canonical(*expr))),
        when_then_expr: when_then
            .map(|(when, then)| (Box::new(canonical(*when)), then))
            .collect(),
        else_expr: case.else_expr,
    })
}

impl ScalarUDFImpl for CanonicalFloat {
    fn name(&self) -> &'static str {
        "canonical_float"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [value] if self.keeps_name => value.schema_name().to_string(),
            [value] => format!("{}({})", self.name(), value.schema_name()),
            _ => self.name().to_owned(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields.first();
        let data_type = field.map_or(DataType::Null, |field| field.data_type().clone());
        let nullable = field.is_none_or(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), data_type, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(value)] => Ok(ColumnarValue::Scalar(canonical_value(value.clone()))),
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(canonical_array(values))),
            _ => Err(DataFusionError::Internal(format!(
                "{} has one argument",
                self.name()
            ))),
        }
    }
}

fn canonical_array(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(one_zero_f64),
        ),
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(one_zero_f32),
        ),
        DataType::Float16 => {
            let one_zero = |float: F16| F16::from_f32(one_zero_f32(float.to_f32()));
            Arc::new(
                values
                    .as_primitive::<Float16Type>()
                    .unary::<_, Float16Type>(one_zero),
            )
        }
        _ => Arc::clone(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    #[test]
    fn only_comparisons_that_need_it_change() {
        let of = |left: Expr, op, right: Expr| {
            comparison(BinaryExpr::new(Box::new(left), op, Box::new(right))).to_string()
        };
        assert_eq!(of(col("x"), Operator::Eq, lit(1.5)), "x = Float64(1.5)");
        assert_eq!(of(col("x"), Operator::Lt, lit(0.0)), "x < Float64(-0)");
        assert_eq!(of(col("x"), Operator::LtEq, lit(-0.0)), "x <= Float64(0)");
        assert_eq!(of(lit(0.0), Operator::LtEq, col("x")), "Float64(-0) <= x");
        assert_eq!(
            of(col("x"), Operator::Eq, lit(-0.0)),
            "canonical_float(x) = Float64(0)"
        );
        assert_eq!(
            of(col("x"), Operator::Eq, col("y")),
            "canonical_float(x) = canonical_float(y)"
        );
    }
}
