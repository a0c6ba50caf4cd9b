//! Arithmetic of integers and decimals that fails where the result is outside of its type, in place of
//! DataFusion's, which wraps, or makes decimals of too many digits ([`super::decimal_arithmetic`]). `x << n` is
//! x times 2^n, and `x >> n` x divided by that, rounded down; DataFusion takes n modulo the width of the type.
//!
//! Each operation is a function that takes the place of an expression and has its name, so that columns are
//! called what they were, and constants are folded by the same rules.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, Datum, PrimitiveArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use datafusion::arrow::compute::kernels::numeric::{add, mul, neg, sub};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use halocline_values::sql_name;

use super::decimal_arithmetic::{divide, within_38_digits};
use super::rules::type_of;
use crate::EngineError;

/// An operation of integers or decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ArithmeticOperation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    ShiftLeft,
    ShiftRight,
    ExclusiveOr,
}

/// A checked operation as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedArithmetic {
    operation: ArithmeticOperation,
    /// The type of the result; that of the operands, which are integers, if none is given.
    decimal: Option<DataType>,
    signature: Signature,
}

static ADD: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(ArithmeticOperation::Add, None));
static SUBTRACT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(ArithmeticOperation::Subtract, None));
static MULTIPLY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(ArithmeticOperation::Multiply, None));
static SHIFT_LEFT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| function(ArithmeticOperation::ShiftLeft, None));
static SHIFT_RIGHT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| function(ArithmeticOperation::ShiftRight, None));
static NEGATE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(ArithmeticOperation::Negate, None));
static EXCLUSIVE_OR: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| function(ArithmeticOperation::ExclusiveOr, None));

fn function(operation: ArithmeticOperation, decimal: Option<DataType>) -> Arc<ScalarUDF> {
    let signature = match operation {
        ArithmeticOperation::Negate => Signature::any(1, Volatility::Immutable),
        _ => Signature::any(2, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(CheckedArithmetic {
        operation,
        decimal,
        signature,
    }))
}

/// Makes `left op right` of integers of one type checked; `None` if it cannot overflow silently, or is
/// another operation.
pub(super) fn checked(binary: &BinaryExpr) -> Option<Expr> {
    let function = match binary.op {
        Operator::Plus => &ADD,
        Operator::Minus => &SUBTRACT,
        Operator::Multiply => &MULTIPLY,
        Operator::BitwiseShiftLeft => &SHIFT_LEFT,
        Operator::BitwiseShiftRight => &SHIFT_RIGHT,
        // The simplifier makes `i # i` 0 for NULL, too.
        Operator::BitwiseXor => &EXCLUSIVE_OR,
        _ => return None,
    };
    Some(called(Arc::clone(function), binary))
}

/// Makes `left op right` of decimals checked; `None` if it is another operation.
pub(super) fn checked_decimals(binary: &BinaryExpr, result: DataType) -> Option<Expr> {
    let operation = match binary.op {
        Operator::Plus => ArithmeticOperation::Add,
        Operator::Minus => ArithmeticOperation::Subtract,
        Operator::Multiply => ArithmeticOperation::Multiply,
        Operator::Divide => ArithmeticOperation::Divide,
        _ => return None,
    };
    Some(called(function(operation, Some(result)), binary))
}

fn called(function: Arc<ScalarUDF>, binary: &BinaryExpr) -> Expr {
    let args = vec![(*binary.left).clone(), (*binary.right).clone()];
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

/// Returns the type of checked arithmetic of decimals, without a look at its operands.
pub(super) fn decimal_type(expr: &Expr) -> Option<&DataType> {
    let Expr::ScalarFunction(function) = expr else {
        return None;
    };
    let checked = function.func.inner().downcast_ref::<CheckedArithmetic>()?;
    checked.decimal.as_ref()
}

/// Returns the checked `-value` of an integer.
pub(super) fn negated(value: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&NEGATE), vec![value]))
}

/// Levels of an expression that are searched for the bounds of its value: each asks for the types of all
/// levels below it.
const LEVELS_OF_BOUNDS: usize = 8;

/// Returns true for checked arithmetic whose result may be outside of its type, as far as the types and
/// literals of the operands tell.
pub(super) fn may_overflow(function: &ScalarFunction, schema: &DFSchema) -> bool {
    let Some(checked) = function.func.inner().downcast_ref::<CheckedArithmetic>() else {
        return false;
    };
    match &checked.decimal {
        Some(result) => digits_needed(checked.operation, &function.args, schema) > precision(result),
        None => {
            let (least, most) = unchecked_bounds(function, checked.operation, schema, LEVELS_OF_BOUNDS);
            let (first, last) = bounds_of_type(&type_of_first(&function.args, schema));
            least < first || most > last
        }
    }
}

fn type_of_first(args: &[Expr], schema: &DFSchema) -> DataType {
    args.first().map_or(DataType::Null, |arg| type_of(arg, schema))
}

fn precision(decimal: &DataType) -> i32 {
    match decimal {
        DataType::Decimal128(precision, _) => i32::from(*precision),
        _ => 0,
    }
}

/// Returns the digits of the largest result of an operation of decimals.
fn digits_needed(operation: ArithmeticOperation, args: &[Expr], schema: &DFSchema) -> i32 {
    let digits = |arg: Option<&Expr>| match arg.map(|arg| type_of(arg, schema)) {
        Some(DataType::Decimal128(precision, scale)) => {
            (i32::from(precision) - i32::from(scale), i32::from(scale))
        }
        _ => (0, 0),
    };
    let ((whole, scale), (other_whole, other_scale)) = (digits(args.first()), digits(args.get(1)));
    match operation {
        ArithmeticOperation::Multiply => whole + scale + other_whole + other_scale,
        ArithmeticOperation::Add | ArithmeticOperation::Subtract => {
            whole.max(other_whole) + 1 + scale.max(other_scale)
        }
        // Division may fail anyway.
        _ => 0,
    }
}

/// Returns the least and greatest value of a type of integers; others have none.
fn bounds_of_type(data_type: &DataType) -> (i128, i128) {
    match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => (0, 0),
    }
}

/// Returns the least and greatest value that an expression of integers may have, by its upper levels.
fn bounds(expr: &Expr, schema: &DFSchema, levels: usize) -> (i128, i128) {
    let of_type = || bounds_of_type(&type_of(expr, schema));
    let Some(below) = levels.checked_sub(1) else {
        return bounds_of_type(&DataType::Int64);
    };
    match expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Decimal128(38, 0)) {
            Ok(ScalarValue::Decimal128(Some(value), ..)) => (value, value),
            Ok(value) if value.is_null() => (0, 0),
            _ => of_type(),
        },
        Expr::Cast(Cast { expr: inner, .. }) if type_of(inner, schema).is_integer() => {
            let ((least, most), (first, last)) = (bounds(inner, schema, below), of_type());
            (least.max(first), most.min(last))
        }
        Expr::ScalarFunction(function) => match function.func.inner().downcast_ref::<CheckedArithmetic>() {
            Some(checked) if checked.decimal.is_none() => {
                let ((least, most), (first, last)) = (
                    unchecked_bounds(function, checked.operation, schema, below),
                    of_type(),
                );
                (least.max(first), most.min(last))
            }
            _ => of_type(),
        },
        _ => of_type(),
    }
}

/// Returns the bounds of the result of an operation of integers, were there no bounds of its type.
fn unchecked_bounds(
    function: &ScalarFunction,
    operation: ArithmeticOperation,
    schema: &DFSchema,
    levels: usize,
) -> (i128, i128) {
    let of = |at: usize| {
        let arg = function.args.get(at);
        arg.map_or((0, 0), |arg| bounds(arg, schema, levels))
    };
    let ((least, most), (other_least, other_most)) = (of(0), of(1));
    match operation {
        ArithmeticOperation::Add => (least + other_least, most + other_most),
        ArithmeticOperation::Subtract => (least - other_most, most - other_least),
        ArithmeticOperation::Negate => (-most, -least),
        ArithmeticOperation::Multiply => {
            let corners = [
                least.saturating_mul(other_least),
                least.saturating_mul(other_most),
                most.saturating_mul(other_least),
                most.saturating_mul(other_most),
            ];
            corners
                .iter()
                .fold((i128::MAX, i128::MIN), |(least, most), corner| {
                    (least.min(*corner), most.max(*corner))
                })
        }
        // Division may fail anyway, and shifts overflow where anything does.
        ArithmeticOperation::ShiftLeft => (i128::MIN, i128::MAX),
        ArithmeticOperation::Divide | ArithmeticOperation::ShiftRight | ArithmeticOperation::ExclusiveOr => {
            bounds_of_type(&type_of_first(&function.args, schema))
        }
    }
}

/// Returns the operands and the operator of an arithmetic expression with two, checked or not.
pub fn arithmetic(expr: &Expr) -> Option<(&Expr, Operator, &Expr)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => Some((left, *op, right)),
        Expr::ScalarFunction(function) => {
            let checked = function.func.inner().downcast_ref::<CheckedArithmetic>()?;
            match function.args.as_slice() {
                [left, right] => Some((left, checked.operator()?, right)),
                _ => None,
            }
        }
        _ => None,
    }
}

impl CheckedArithmetic {
    fn operator(&self) -> Option<Operator> {
        match self.operation {
            ArithmeticOperation::Add => Some(Operator::Plus),
            ArithmeticOperation::Subtract => Some(Operator::Minus),
            ArithmeticOperation::Multiply => Some(Operator::Multiply),
            ArithmeticOperation::Divide => Some(Operator::Divide),
            ArithmeticOperation::ShiftLeft => Some(Operator::BitwiseShiftLeft),
            ArithmeticOperation::ShiftRight => Some(Operator::BitwiseShiftRight),
            ArithmeticOperation::ExclusiveOr => Some(Operator::BitwiseXor),
            ArithmeticOperation::Negate => None,
        }
    }
}

impl ScalarUDFImpl for CheckedArithmetic {
    fn name(&self) -> &str {
        match self.operation {
            ArithmeticOperation::Add => "add",
            ArithmeticOperation::Subtract => "subtract",
            ArithmeticOperation::Multiply => "multiply",
            ArithmeticOperation::Divide => "divide",
            ArithmeticOperation::Negate => "negate",
            ArithmeticOperation::ShiftLeft => "shift_left",
            ArithmeticOperation::ShiftRight => "shift_right",
            ArithmeticOperation::ExclusiveOr => "xor",
        }
    }

    /// Returns the name of the expression that it stands for.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (self.operator(), args) {
            (Some(Operator::BitwiseXor), [left, right]) => {
                format!("{} # {}", left.schema_name(), right.schema_name())
            }
            (Some(op), [left, right]) => format!("{} {op} {}", left.schema_name(), right.schema_name()),
            (_, [value]) => format!("(- {value})"),
            _ => self.name().to_string(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let of_operands = || types.first().cloned().unwrap_or(DataType::Null);
        Ok(self.decimal.clone().unwrap_or_else(of_operands))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let data_type = self.return_type(&types.collect::<Vec<_>>())?;
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), data_type, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    /// Returns NULL if an operand is NULL, so that what has to be a constant is one.
    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_null = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if value.is_null());
        match args.first() {
            Some(_) if args.iter().any(is_null) => {
                let types = args.iter().map(|arg| context.get_data_type(arg));
                let data_type = self.return_type(&types.collect::<Result<Vec<_>>>()?)?;
                let null = ScalarValue::try_from(data_type)?;
                Ok(ExprSimplifyResult::Simplified(Expr::Literal(null, None)))
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.operation, args.args.as_slice()) {
            (ArithmeticOperation::Add, [left, right]) => {
                apply(left, right, |a, b| add(a, b).and_then(within_38_digits))
            }
            (ArithmeticOperation::Subtract, [left, right]) => {
                apply(left, right, |a, b| sub(a, b).and_then(within_38_digits))
            }
            (ArithmeticOperation::Multiply, [left, right]) => {
                apply(left, right, |a, b| mul(a, b).and_then(within_38_digits))
            }
            (ArithmeticOperation::Divide, [left, right]) => apply(left, right, divide),
            (ArithmeticOperation::ShiftLeft, [left, right]) => apply(left, right, |a, b| shift(a, b, "<<")),
            (ArithmeticOperation::ShiftRight, [left, right]) => apply(left, right, |a, b| shift(a, b, ">>")),
            (ArithmeticOperation::ExclusiveOr, [left, right]) => apply(left, right, |a, b| shift(a, b, "#")),
            (ArithmeticOperation::Negate, [ColumnarValue::Scalar(value)]) => {
                let negated = neg(&*value.to_array()?)?;
                ScalarValue::try_from_array(&negated, 0).map(ColumnarValue::Scalar)
            }
            (ArithmeticOperation::Negate, [ColumnarValue::Array(values)]) => neg(values.as_ref())
                .map(ColumnarValue::Array)
                .map_err(DataFusionError::from),
            _ => Err(DataFusionError::Internal(format!(
                "{} has other arguments",
                self.name()
            ))),
        }
        .map_err(|error| overflow(error, args.return_field.data_type()))
    }
}

/// Returns `x * 2^n`; `None` for a negative `n` or a result of more than 128 bits.
fn shifted_left(x: i128, n: i128) -> Option<i128> {
    match (x, u32::try_from(n).ok()?) {
        (0, _) => Some(0),
        // The type of `x` has 64 bits.
        (_, 64..) => None,
        (x, n) => x.checked_mul(1 << n),
    }
}

/// Returns `x / 2^n`, rounded down; `None` for a negative `n`.
fn shifted_right(x: i128, n: i128) -> Option<i128> {
    u32::try_from(n).ok().map(|n| x >> n.min(127))
}

/// Shifts integers of one type, or combines their bits; `sign` is the operator's.
fn shift(left: &dyn Datum, right: &dyn Datum, sign: &str) -> Result<ArrayRef, ArrowError> {
    use arrow_array::types as t;
    macro_rules! of_type {
        ($($data_type:ident => $native:ident),*) => {
            match left.get().0.data_type() {
                $(DataType::$data_type => shift_of::<t::$native>(left, right, sign),)*
                other => Err(ArrowError::InvalidArgumentError(format!("{other} cannot be shifted"))),
            }
        };
    }
    of_type!(
        Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type,
        UInt8 => UInt8Type, UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type
    )
}

fn shift_of<T: ArrowPrimitiveType>(
    left: &dyn Datum,
    right: &dyn Datum,
    sign: &str,
) -> Result<ArrayRef, ArrowError>
where
    T::Native: Into<i128> + TryFrom<i128>,
{
    let ((left, one), (right, other)) = (left.get(), right.get());
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    let at = |values: &PrimitiveArray<T>, is_scalar: bool, row: usize| {
        let row = if is_scalar { 0 } else { row };
        values.is_valid(row).then(|| values.value(row).into())
    };
    let shifted = |row: usize| {
        let (Some(x), Some(n)) = (at(left, one, row), at(right, other, row)) else {
            return Ok(None);
        };
        let shifted = match sign {
            "<<" => shifted_left(x, n),
            ">>" => shifted_right(x, n),
            _ => Some(x ^ n),
        };
        let fitting = shifted.and_then(|value| T::Native::try_from(value).ok());
        // The text of the other kernels.
        let text = || format!("Overflow happened on: {x} {sign} {n}");
        fitting
            .map(Some)
            .ok_or_else(|| ArrowError::ArithmeticOverflow(text()))
    };
    let rows = if one { right.len() } else { left.len() };
    let values = (0..rows)
        .map(shifted)
        .collect::<Result<Vec<Option<T::Native>>, _>>()?;
    Ok(Arc::new(values.into_iter().collect::<PrimitiveArray<T>>()))
}

/// Returns the error for a result outside of its type; others as they are.
fn overflow(error: DataFusionError, data_type: &DataType) -> DataFusionError {
    let DataFusionError::ArrowError(inner, _) = &error else {
        return error;
    };
    let ArrowError::ArithmeticOverflow(text) = &**inner else {
        return error;
    };
    let operation = text.strip_prefix("Overflow happened on: ").unwrap_or(text);
    let own = EngineError::Overflow {
        operation: operation.to_string(),
        data_type: sql_name(data_type),
    };
    DataFusionError::External(Box::new(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;

    fn add_arrays(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        let values = |array: &ArrayRef| ColumnarValue::Array(Arc::clone(array));
        apply(&values(left), &values(right), add)?.into_array(left.len())
    }

    #[test]
    fn the_slot_of_a_null_does_not_overflow() {
        let nulls = Some(vec![true, false].into());
        let left: ArrayRef = Arc::new(Int64Array::new(vec![1, i64::MAX].into(), nulls));
        let right: ArrayRef = Arc::new(Int64Array::from(vec![2, 2]));
        let sum = add_arrays(&left, &right).expect("no value overflows");
        assert_eq!((sum.len(), sum.null_count()), (2, 1));
        let full: ArrayRef = Arc::new(Int64Array::from(vec![1, i64::MAX]));
        let error = overflow(
            add_arrays(&full, &right).expect_err("it overflows"),
            &DataType::Int64,
        );
        let text = EngineError::from(error).to_string();
        assert!(
            text.starts_with("9223372036854775807 + 2 is not a value of type bigint"),
            "{text}"
        );
    }
}
