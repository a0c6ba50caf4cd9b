//! The type in which dates and timestamps meet as results of CASE, COALESCE and the like, and as rows of set
//! operations.
//!
//! DataFusion gives a date beside any timestamp nanoseconds, in which only the years 1678 to 2261 have a
//! place. Here dates take the unit of the timestamps. Timestamps of nanoseconds keep them, as a shorter unit
//! would alter them, unless a literal beside them has no place there, as in `coalesce(valid_to, DATE
//! '9999-12-31')`: then the result has microseconds. In other cases a far date beside nanoseconds is an error
//! that says what to cast.

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Case, Expr, Operator, lit};
use halocline_values::times::is_time;

use super::rules::type_of;
use super::time_comparisons::{comparison, literal};

/// A timestamp type whose years are few.
const NANOSECONDS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// Returns the type in which times of these types meet; `None` if DataFusion's is right. `is_far` is true if
/// one of them is a literal that has no place in nanoseconds.
pub(super) fn meeting<'a>(
    types: impl Iterator<Item = &'a DataType> + Clone,
    is_far: impl FnOnce() -> bool,
) -> Option<DataType> {
    let timestamps = types.clone().filter_map(|data_type| match data_type {
        DataType::Timestamp(unit, label) => Some((*unit, label.as_ref())),
        _ => None,
    });
    let finest = timestamps.clone().map(|(unit, _)| unit).max()?;
    let is_date = |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Date64);
    let unit = match finest {
        TimeUnit::Nanosecond if is_far() => TimeUnit::Microsecond,
        TimeUnit::Nanosecond => return None,
        unit if types.clone().any(|data_type| *data_type == DataType::Date64) => {
            unit.max(TimeUnit::Millisecond)
        }
        unit if types.clone().any(is_date) => unit,
        _ => return None,
    };
    let label = timestamps.filter_map(|(_, label)| label).next();
    Some(DataType::Timestamp(unit, label.cloned()))
}

/// Returns the type in which expressions meet, unless DataFusion's is right.
fn meeting_of<'a>(
    exprs: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
    zone: Option<&str>,
) -> Option<DataType> {
    let types: Vec<DataType> = exprs.clone().map(|expr| type_of(expr, schema)).collect();
    let is_far = || {
        exprs.zip(&types).any(|(expr, of)| {
            let nanoseconds = literal(expr, of, &NANOSECONDS, zone).and_then(|value| value.nanoseconds);
            nanoseconds.is_some_and(|nanoseconds| i64::try_from(nanoseconds).is_err())
        })
    };
    meeting(types.iter(), is_far)
}

/// Returns a date or timestamp as another type, and other expressions as they are.
fn as_type(expr: &Expr, to: &DataType, schema: &DFSchema) -> Expr {
    let of = type_of(expr, schema);
    if is_time(&of) && of != *to {
        Expr::Cast(Cast::new(Box::new(expr.clone()), to.clone()))
    } else {
        expr.clone()
    }
}

/// Gives the results of a CASE the type in which they meet; `None` if they have it.
pub(super) fn case(case: &Case, schema: &DFSchema, zone: Option<&str>) -> Option<Case> {
    let thens = case.when_then_expr.iter().map(|(_, then)| &**then);
    let to = meeting_of(thens.chain(case.else_expr.as_deref()), schema, zone)?;
    let result = |expr: &Expr| Box::new(as_type(expr, &to, schema));
    let pairs = case.when_then_expr.iter();
    Some(Case {
        expr: case.expr.clone(),
        when_then_expr: pairs.map(|(when, then)| (when.clone(), result(then))).collect(),
        else_expr: case.else_expr.as_deref().map(result),
    })
}

/// Returns a call of a function that returns one of its arguments, in the type in which they meet, or NULLIF
/// as an exact comparison; `None` if the call is as it should be.
pub(super) fn call(function: &ScalarFunction, schema: &DFSchema, zone: Option<&str>) -> Option<Expr> {
    let results = match (function.name(), function.args.as_slice()) {
        ("nullif", [value, other]) => return nullif(value, other, schema, zone),
        ("coalesce" | "nvl" | "ifnull" | "greatest" | "least", results) => results,
        _ => return None,
    };
    let to = meeting_of(results.iter(), schema, zone)?;
    let results = results.iter().map(|result| as_type(result, &to, schema));
    let call = ScalarFunction::new_udf(function.func.clone(), results.collect());
    Some(Expr::ScalarFunction(call))
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
