//! CASE, COALESCE and the like in which a literal of a far year meets timestamps of nanoseconds, as in
//! `coalesce(valid_to, DATE '9999-12-31')`. The result has microseconds, in which the years 0001 to 9999 have a
//! place.
//!
//! That is known from literals only. Columns and sets of rows keep their nanoseconds; a far date among them is an
//! error that says what to cast.

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Case, Expr, Operator, lit};

use super::rules::type_of;
use super::time_comparisons::{comparison, literal};

/// A timestamp type whose years are few.
const NANOSECONDS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// Returns true for functions that return one of their arguments.
fn returns_argument(name: &str) -> bool {
    matches!(
        name,
        "coalesce" | "nvl" | "ifnull" | "nvl2" | "greatest" | "least"
    )
}

/// Returns true if one of these expressions is a literal that has no place in nanoseconds.
fn has_far_literal<'a>(
    mut exprs: impl Iterator<Item = &'a Expr>,
    schema: &DFSchema,
    zone: Option<&str>,
) -> bool {
    exprs.any(|expr| {
        let value = literal(expr, &type_of(expr, schema), &NANOSECONDS, zone);
        let nanoseconds = value.and_then(|value| value.nanoseconds);
        nanoseconds.is_some_and(|nanoseconds| i64::try_from(nanoseconds).is_err())
    })
}

fn has_nanoseconds<'a>(mut exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    exprs.any(|expr| {
        matches!(
            type_of(expr, schema),
            DataType::Timestamp(TimeUnit::Nanosecond, _)
        )
    })
}

/// Returns a timestamp of nanoseconds with microseconds, other expressions as they are.
fn shortened(expr: Expr, schema: &DFSchema) -> Expr {
    match type_of(&expr, schema) {
        DataType::Timestamp(TimeUnit::Nanosecond, label) => {
            let to = DataType::Timestamp(TimeUnit::Microsecond, label);
            Expr::Cast(Cast::new(Box::new(expr), to))
        }
        _ => expr,
    }
}

/// Gives the results of a CASE microseconds if a literal among them needs them; none if none does.
pub(super) fn case(case: &Case, schema: &DFSchema, zone: Option<&str>) -> Option<Case> {
    let results = || {
        let thens = case.when_then_expr.iter().map(|(_, then)| &**then);
        thens.chain(case.else_expr.as_deref())
    };
    if !has_nanoseconds(results(), schema) || !has_far_literal(results(), schema, zone) {
        return None;
    }
    let shorter = |expr: &Expr| Box::new(shortened(expr.clone(), schema));
    let pairs = case.when_then_expr.iter();
    Some(Case {
        expr: case.expr.clone(),
        when_then_expr: pairs.map(|(when, then)| (when.clone(), shorter(then))).collect(),
        else_expr: case.else_expr.as_deref().map(shorter),
    })
}

/// Returns a call of a function that returns one of its arguments, in microseconds if a literal needs them, or
/// NULLIF as a comparison that is exact; none if it is as it should be.
pub(super) fn call(function: &ScalarFunction, schema: &DFSchema, zone: Option<&str>) -> Option<Expr> {
    if let ("nullif", [value, other]) = (function.name(), function.args.as_slice()) {
        return nullif(value, other, schema, zone);
    }
    let args = || function.args.iter();
    if !returns_argument(function.name())
        || !has_nanoseconds(args(), schema)
        || !has_far_literal(args(), schema, zone)
    {
        return None;
    }
    let args = args().map(|arg| shortened(arg.clone(), schema)).collect();
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(
        function.func.clone(),
        args,
    )))
}

/// Returns `NULLIF(value, other)` of times of different types, which has the type of the value.
fn nullif(value: &Expr, other: &Expr, schema: &DFSchema, zone: Option<&str>) -> Option<Expr> {
    if value.is_volatile() {
        return None;
    }
    let equal = comparison(value, Operator::Eq, other, schema, zone)?;
    let null = lit(ScalarValue::try_from(type_of(value, schema)).ok()?);
    Some(Expr::Case(Case {
        expr: None,
        when_then_expr: vec![(Box::new(equal), Box::new(null))],
        else_expr: Some(Box::new(value.clone())),
    }))
}
