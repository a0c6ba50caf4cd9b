//! Arithmetic of decimals whose result may have more than 38 digits, which is an error. Arrow's kernels notice
//! only what exceeds 128 bits.
//!
//! Most operations cannot exceed: their result type has room for the largest operands. Others are checked:
//! the kernel's results by a pass without branches, and those of a division in 256 bits, as its dividend is
//! multiplied first.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrayRef, Datum, Decimal128Array, Scalar};
use arrow_buffer::i256;
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};
use datafusion::arrow::compute::kernels::numeric::div;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::arithmetic::{arithmetic, checked_decimals, decimal_type};
use super::rules::type_of;

/// Digits of a decimal of 128 bits.
const MAX_DIGITS: i16 = 38;

/// The least number with more digits than a decimal of 128 bits.
const TOO_LARGE: u128 = 10_u128.pow(38);

/// Depth to which operands are looked through for their digits.
const DEPTH: usize = 3;

/// Makes `left op right` of decimals checked; `None` if it is no such operation or cannot exceed its type.
pub(super) fn checked(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (left, right) = (&*binary.left, &*binary.right);
    let second = operand_type(right, schema);
    let DataType::Decimal128(_, s2) = second else {
        return None;
    };
    let first = operand_type(left, schema);
    let DataType::Decimal128(p1, s1) = first else {
        return None;
    };
    let may_exceed = match binary.op {
        // The dividend is multiplied by that many tens; Arrow's kernel has no more room than 128 bits.
        Operator::Divide => {
            let scale = s1.saturating_add(4).min(38);
            i16::from(p1) + i16::from(scale) - i16::from(s1) + i16::from(s2) > MAX_DIGITS
        }
        op => result_digits(op, left, right, schema, DEPTH) > MAX_DIGITS,
    };
    let result = result_type(binary.op, &first, &second).filter(|_| may_exceed)?;
    checked_decimals(binary, result)
}

/// Gives `ceil` or `floor` of decimals, which have the type of their argument, room for the digit that
/// rounding may add: 9.9 becomes 10.0. `None` if there is room, or none to give.
pub(super) fn with_room(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let ("ceil" | "floor", [arg]) = (function.name(), function.args.as_slice()) else {
        return None;
    };
    let DataType::Decimal128(digits, scale @ 1..) = type_of(arg, schema) else {
        return None;
    };
    let has_room = |of: &Expr| match of {
        Expr::Cast(cast) => type_of(&cast.expr, schema) == DataType::Decimal128(digits - 1, scale),
        _ => false,
    };
    if i16::from(digits) >= MAX_DIGITS || has_room(arg) {
        return None;
    }
    let wider = Cast::new(Box::new(arg.clone()), DataType::Decimal128(digits + 1, scale));
    let args = vec![Expr::Cast(wider)];
    let func = Arc::clone(&function.func);
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(func, args)))
}

/// Returns the type of an operand; that of checked arithmetic without a look at what it consists of, so that a
/// sum of many terms is not walked through again for each of them.
fn operand_type(expr: &Expr, schema: &DFSchema) -> DataType {
    decimal_type(expr)
        .cloned()
        .unwrap_or_else(|| type_of(expr, schema))
}

/// Returns the number of digits that the unscaled value of a decimal expression has at most.
fn digits(expr: &Expr, schema: &DFSchema, depth: usize) -> i16 {
    let whole = |value: i128| {
        let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1);
        i16::try_from(digits).unwrap_or(MAX_DIGITS)
    };
    match expr {
        Expr::Literal(ScalarValue::Decimal128(Some(value), ..), _) => return whole(*value),
        Expr::Cast(cast) => {
            if let (Expr::Literal(ScalarValue::Int64(Some(value)), _), DataType::Decimal128(_, scale)) =
                (&*cast.expr, cast.field.data_type())
            {
                return whole((*value).into()) + i16::from(*scale);
            }
        }
        _ => {}
    }
    let own = match operand_type(expr, schema) {
        DataType::Decimal128(precision, _) => precision.into(),
        _ => MAX_DIGITS,
    };
    match arithmetic(expr) {
        Some((left, op, right)) if depth > 0 => own.min(result_digits(op, left, right, schema, depth - 1)),
        _ => own,
    }
}

fn result_digits(op: Operator, left: &Expr, right: &Expr, schema: &DFSchema, depth: usize) -> i16 {
    let (d1, d2) = (digits(left, schema, depth), digits(right, schema, depth));
    match op {
        Operator::Multiply => d1 + d2,
        Operator::Plus | Operator::Minus => {
            let (DataType::Decimal128(_, s1), DataType::Decimal128(_, s2)) =
                (operand_type(left, schema), operand_type(right, schema))
            else {
                return MAX_DIGITS;
            };
            let scale = s1.max(s2);
            (d1 + i16::from(scale - s1)).max(d2 + i16::from(scale - s2)) + 1
        }
        _ => MAX_DIGITS,
    }
}

/// Returns the type of `left op right` of decimals.
fn result_type(op: Operator, left: &DataType, right: &DataType) -> Option<DataType> {
    BinaryTypeCoercer::new(left, &op, right).get_result_type().ok()
}

/// Returns decimals as they are; others too.
///
/// # Errors
/// One has more than 38 digits.
pub(super) fn within_38_digits(values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !matches!(values.data_type(), DataType::Decimal128(..)) {
        return Ok(values);
    }
    let decimals = values.as_primitive::<Decimal128Type>();
    let exceeds = |value: &i128| value.unsigned_abs() >= TOO_LARGE;
    if decimals.values().iter().any(exceeds)
        && let Some(row) =
            (0..decimals.len()).find(|row| decimals.is_valid(*row) && exceeds(&decimals.value(*row)))
    {
        return Err(ArrowError::ArithmeticOverflow(shown(
            decimals.value(row),
            decimals.scale(),
        )));
    }
    Ok(values)
}

/// Returns a decimal as text, whatever its number of digits.
fn shown(value: i128, scale: i8) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let scale = usize::from(scale.unsigned_abs());
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    match digits.split_at(digits.len() - scale) {
        (whole, "") => format!("{sign}{whole}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    }
}

/// Divides decimals.
///
/// # Errors
/// A quotient has more than 38 digits, or a divisor is 0.
pub(super) fn divide(left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    let ((dividends, one), (divisors, other)) = (left.get(), right.get());
    let of_other_types = || ArrowError::InvalidArgumentError("decimals are divided".into());
    let to = result_type(Operator::Divide, dividends.data_type(), divisors.data_type());
    let to = to.ok_or_else(of_other_types)?;
    let wide = |values: &dyn Array| match *values.data_type() {
        DataType::Decimal128(_, scale) => {
            // Dividends are multiplied by 10^42 at most.
            cast_with_options(values, &DataType::Decimal256(38, scale), &CastOptions::default())
        }
        _ => Err(of_other_types()),
    };
    let (dividends, divisors) = (wide(dividends)?, wide(divisors)?);
    let quotients = match (one, other) {
        (true, true) => div(&Scalar::new(dividends), &Scalar::new(divisors)),
        (true, false) => div(&Scalar::new(dividends), &divisors),
        (false, true) => div(&dividends, &Scalar::new(divisors)),
        (false, false) => div(&dividends, &divisors),
    }?;
    let exact = quotients.as_primitive::<Decimal256Type>();
    let (DataType::Decimal256(_, scale), DataType::Decimal128(precision, wanted)) = (exact.data_type(), &to)
    else {
        return Err(of_other_types());
    };
    let surplus = u32::try_from(scale - wanted).unwrap_or(0);
    let factor = i256::from_i128(10_i128.pow(surplus));
    let most = 10_i128.pow(u32::from(*precision)).unsigned_abs();
    let narrow = |row: usize| {
        if exact.is_null(row) {
            return Ok(None);
        }
        let value = exact.value(row).wrapping_div(factor).to_i128();
        match value.filter(|value| value.unsigned_abs() < most) {
            Some(value) => Ok(Some(value)),
            None => Err(ArrowError::ArithmeticOverflow(exact.value_as_string(row))),
        }
    };
    let narrow = (0..exact.len()).map(narrow).collect::<Result<Vec<_>, _>>()?;
    let narrow = Decimal128Array::from(narrow);
    Ok(Arc::new(narrow.with_data_type(to)))
}
