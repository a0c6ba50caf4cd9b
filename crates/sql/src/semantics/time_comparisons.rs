//! Comparisons of dates and timestamps of different units, with and without time zone, which are exact.
//!
//! DataFusion compares them in nanoseconds, in which 9999-12-31 has no place, and then takes a literal for
//! one of the column's unit, without its fraction. Here a constant becomes one of the other side's type: the
//! nearest value before or after it, as the operator requires. So indexes, zone maps and keys can be used.
//! Two columns are compared in the finer unit, in which values out of range are before or after all others.

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, Cast, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, binary_expr, lit};
use halocline_values::times::{self, instant, is_time, is_zoned, range_of, reading, session_zone, unit_of};

use super::cast::{CastRule, cast_by, folded};
use super::rules::type_of;

/// Returns the comparison `left op right` of times of different types; `None` if it needs no correction.
pub(super) fn comparison(
    left: &Expr,
    op: Operator,
    right: &Expr,
    schema: &DFSchema,
    zone: Option<&str>,
) -> Option<Expr> {
    let (left_type, right_type) = (type_of(left, schema), type_of(right, schema));
    if !is_time(&left_type) && !is_time(&right_type) {
        return None;
    }
    let constant =
        |expr: &Expr, expr_type: &DataType, other_type: &DataType| literal(expr, expr_type, other_type, zone);
    if let Some(value) = constant(right, &right_type, &left_type) {
        return with_literal(left, &left_type, op, &value, zone);
    }
    if let Some(value) = constant(left, &left_type, &right_type) {
        return with_literal(right, &right_type, op.swap()?, &value, zone);
    }
    if let Some(right) = as_time(right, &right_type, &left_type) {
        let plain = || Some(binary_expr(left.clone(), op, right.clone()));
        return comparison(left, op, &right, schema, zone).or_else(plain);
    }
    if let Some(left) = as_time(left, &left_type, &right_type) {
        let plain = || Some(binary_expr(left.clone(), op, right.clone()));
        return comparison(&left, op, right, schema, zone).or_else(plain);
    }
    if !differ(&left_type, &right_type) {
        return None;
    }
    if is_constant(right)
        && let Some(compared) = with_constant(left, &left_type, op, (right, &right_type), zone)
    {
        return Some(compared);
    }
    if is_constant(left)
        && let Some(compared) = with_constant(right, &right_type, op.swap()?, (left, &left_type), zone)
    {
        return Some(compared);
    }
    let to = common(&left_type, &right_type)?;
    let left = ordered(left, &left_type, &right_type, &to, zone);
    let right = ordered(right, &right_type, &left_type, &to, zone);
    Some(binary_expr(left, op, right))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Returns a text that is compared with timestamps as one in microseconds; none beside nanoseconds, which
/// DataFusion makes of it.
fn as_time(text: &Expr, text_type: &DataType, other: &DataType) -> Option<Expr> {
    let DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond, label) = other
    else {
        return None;
    };
    let to = DataType::Timestamp(TimeUnit::Microsecond, label.clone());
    is_text(text_type).then(|| Expr::Cast(Cast::new(Box::new(text.clone()), to)))
}

/// Returns true if two types of times are compared here.
fn differ(left: &DataType, right: &DataType) -> bool {
    if !is_time(left) || !is_time(right) {
        return false;
    }
    let is_date = |data_type: &DataType| !matches!(data_type, DataType::Timestamp(..));
    if is_date(left) && is_date(right) {
        false
    } else {
        unit_of(left) != unit_of(right)
            || is_zoned(left) != is_zoned(right)
            || is_date(left)
            || is_date(right)
    }
}

/// Returns the type in which two types are compared.
fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    let finer = if unit_of(left)? <= unit_of(right)? {
        left
    } else {
        right
    };
    let label = [left, right].into_iter().find_map(|data_type| match data_type {
        DataType::Timestamp(_, Some(zone)) => Some(zone.clone()),
        _ => None,
    });
    Some(match finer {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, label),
        // Dates in milliseconds beside timestamps in seconds.
        _ => DataType::Timestamp(TimeUnit::Millisecond, label),
    })
}

fn ordered(expr: &Expr, from: &DataType, other: &DataType, to: &DataType, zone: Option<&str>) -> Expr {
    // What is in the finer unit already need only make way for what is out of its range.
    if from == to && unit_of(from) == unit_of(other) {
        return expr.clone();
    }
    cast_by(expr.clone(), to, CastRule::Ordered, zone)
}

/// Returns true for an expression with one value in a query.
fn is_constant(expr: &Expr) -> bool {
    let varies = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        ))
    };
    !expr.is_volatile() && !expr.exists(varies).unwrap_or(true)
}

/// A literal of dates or timestamps, in nanoseconds.
pub(super) struct TimeLiteral {
    /// `None` for NULL.
    pub(super) nanoseconds: Option<i128>,
    is_zoned: bool,
}

/// Returns the value of a literal that is compared with times of type `other`; `None` if the expression is no
/// literal, or needs no conversion.
pub(super) fn literal(
    expr: &Expr,
    expr_type: &DataType,
    other: &DataType,
    zone: Option<&str>,
) -> Option<TimeLiteral> {
    let value = match expr {
        Expr::Literal(value, _) => value.clone(),
        Expr::Cast(cast) => match folded(&cast.expr, cast.field.data_type(), false, zone)? {
            Expr::Literal(value, _) => value,
            _ => return None,
        },
        // A parameter's value in a statement that is planned as a whole.
        Expr::ScalarFunction(function) if function.name() == "arrow_cast" => {
            match folded(function.args.first()?, expr_type, false, zone)? {
                Expr::Literal(value, _) => value,
                _ => return None,
            }
        }
        _ => return None,
    };
    if is_text(expr_type) && matches!(other, DataType::Timestamp(..)) {
        let text = value.try_as_str()??;
        return Some(TimeLiteral {
            nanoseconds: Some(times::read(text, other, session_zone(zone))?),
            is_zoned: is_zoned(other),
        });
    }
    if !differ(expr_type, other) {
        return None;
    }
    let number = match value.cast_to(expr_type).ok()? {
        ScalarValue::Date32(days) => days.map(i128::from),
        ScalarValue::Date64(value)
        | ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _) => value.map(i128::from),
        _ => return None,
    };
    let unit = unit_of(expr_type)?;
    Some(TimeLiteral {
        nanoseconds: number.map(|number| number * unit),
        is_zoned: is_zoned(expr_type),
    })
}

/// A literal in the unit of another type.
enum Placed {
    Null,
    /// It is out of range, before all values or after them.
    Before,
    After,
    /// The greatest value that is not after it, and whether that is equal.
    At(i128, bool),
}

fn placed(literal: &TimeLiteral, to: &DataType, zone: Option<&str>) -> Option<Placed> {
    let Some(value) = literal.nanoseconds else {
        return Some(Placed::Null);
    };
    let zone = session_zone(zone);
    let value = match (literal.is_zoned, is_zoned(to)) {
        (true, false) => reading(value, zone)?,
        (false, true) => instant(value, zone)?,
        _ => value,
    };
    let unit = unit_of(to)?;
    let (least, most) = range_of(to);
    let floor = value.div_euclid(unit);
    Some(match floor {
        floor if floor < least => Placed::Before,
        floor if floor > most => Placed::After,
        floor => Placed::At(floor, floor * unit == value),
    })
}

/// Returns a number of a type's units as a literal.
fn of_units(number: i128, to: &DataType) -> Option<Expr> {
    let value = i64::try_from(number).ok();
    Some(lit(match to {
        DataType::Date32 => ScalarValue::Date32(i32::try_from(number).ok()),
        DataType::Date64 => ScalarValue::Date64(value),
        DataType::Timestamp(unit, zone) => {
            use TimeUnit as U;
            match unit {
                U::Second => ScalarValue::TimestampSecond(value, zone.clone()),
                U::Millisecond => ScalarValue::TimestampMillisecond(value, zone.clone()),
                U::Microsecond => ScalarValue::TimestampMicrosecond(value, zone.clone()),
                U::Nanosecond => ScalarValue::TimestampNanosecond(value, zone.clone()),
            }
        }
        _ => return None,
    }))
}

/// Compares times with a literal of another type, as one of their type.
fn with_literal(
    expr: &Expr,
    of: &DataType,
    op: Operator,
    literal: &TimeLiteral,
    zone: Option<&str>,
) -> Option<Expr> {
    use Operator as O;
    let (least, most) = range_of(of);
    let compare = |op, number: i128| Some(binary_expr(expr.clone(), op, of_units(number, of)?));
    match (placed(literal, of, zone)?, op) {
        (Placed::Null, op) => {
            let null = lit(ScalarValue::try_from(of).ok()?);
            Some(binary_expr(expr.clone(), op, null))
        }
        (Placed::At(at, true), op) => compare(op, at),
        // True for all values but NULL, or false.
        (Placed::Before, O::Gt | O::GtEq | O::NotEq) => compare(O::GtEq, least),
        (Placed::Before, O::Lt | O::LtEq | O::Eq) => compare(O::Lt, least),
        (Placed::After, O::Lt | O::LtEq | O::NotEq) => compare(O::LtEq, most),
        (Placed::After, O::Gt | O::GtEq | O::Eq) => compare(O::Gt, most),
        (Placed::At(at, false), O::Lt | O::LtEq) => compare(O::LtEq, at),
        (Placed::At(at, false), O::Gt | O::GtEq) => compare(O::Gt, at),
        (Placed::At(..), O::Eq) => compare(O::Lt, least),
        (Placed::At(..), O::NotEq) => compare(O::GtEq, least),
        (_, O::IsDistinctFrom) => Some(lit(true)),
        (_, O::IsNotDistinctFrom) => Some(lit(false)),
        _ => None,
    }
}

/// Compares times with a constant of another type, as one or two of their type; `None` if the operator needs
/// more.
fn with_constant(
    expr: &Expr,
    of: &DataType,
    op: Operator,
    (constant, from): (&Expr, &DataType),
    zone: Option<&str>,
) -> Option<Expr> {
    use Operator as O;
    let compare = |op, rule| binary_expr(expr.clone(), op, cast_by(constant.clone(), of, rule, zone));
    if unit_of(from) > unit_of(of) {
        return Some(compare(op, CastRule::Ordered));
    }
    Some(match op {
        O::Lt | O::GtEq => compare(op, CastRule::Ceiling),
        O::LtEq | O::Gt => compare(op, CastRule::Floor),
        // Between the two there is no value unless they are equal.
        O::Eq | O::NotEq if !expr.is_volatile() => {
            let (low, high) = (
                compare(O::GtEq, CastRule::Ceiling),
                compare(O::LtEq, CastRule::Floor),
            );
            let equal = binary_expr(low, O::And, high);
            if op == O::Eq {
                equal
            } else {
                Expr::Not(Box::new(equal))
            }
        }
        _ => return None,
    })
}

/// Returns `x [NOT] BETWEEN low AND high` as two comparisons; `None` if neither needs a correction.
pub(super) fn between(between: &Between, schema: &DFSchema, zone: Option<&str>) -> Option<Expr> {
    if between.expr.is_volatile() {
        return None;
    }
    let compare = |op, bound: &Expr| comparison(&between.expr, op, bound, schema, zone);
    let (low, high) = (
        compare(Operator::GtEq, &between.low),
        compare(Operator::LtEq, &between.high),
    );
    if low.is_none() && high.is_none() {
        return None;
    }
    let plain = |op, bound: &Expr| binary_expr((*between.expr).clone(), op, bound.clone());
    let within = binary_expr(
        low.unwrap_or_else(|| plain(Operator::GtEq, &between.low)),
        Operator::And,
        high.unwrap_or_else(|| plain(Operator::LtEq, &between.high)),
    );
    Some(if between.negated {
        Expr::Not(Box::new(within))
    } else {
        within
    })
}

/// Returns `x [NOT] IN (…)`, with literals as values of the type of `x`, or as comparisons; `None` if none
/// needs a correction.
pub(super) fn in_list(list: &InList, schema: &DFSchema, zone: Option<&str>) -> Option<Expr> {
    let of = type_of(&list.expr, schema);
    if !is_time(&of) || list.expr.is_volatile() {
        return None;
    }
    let types: Vec<DataType> = list.list.iter().map(|item| type_of(item, schema)).collect();
    let values: Vec<Option<TimeLiteral>> = list
        .list
        .iter()
        .zip(&types)
        .map(|(item, data_type)| literal(item, data_type, &of, zone))
        .collect();
    if values.iter().all(Option::is_none) && !types.iter().any(|data_type| differ(data_type, &of)) {
        return None;
    }
    let (mut items, mut others) = (Vec::new(), Vec::new());
    for ((item, value), data_type) in list.list.iter().zip(&values).zip(&types) {
        match value {
            Some(value) => match placed(value, &of, zone)? {
                Placed::At(at, true) => items.push(of_units(at, &of)?),
                Placed::Null => items.push(lit(ScalarValue::try_from(&of).ok()?)),
                // Equal to no value.
                _ => {}
            },
            None if *data_type == of || data_type.is_null() => items.push(item.clone()),
            None => others.push(comparison(&list.expr, Operator::Eq, item, schema, zone)?),
        }
    }
    let (least, _) = range_of(&of);
    let first = if items.is_empty() {
        binary_expr((*list.expr).clone(), Operator::Lt, of_units(least, &of)?)
    } else {
        Expr::InList(InList::new(list.expr.clone(), items, false))
    };
    let any = others
        .into_iter()
        .fold(first, |any, other| binary_expr(any, Operator::Or, other));
    Some(match (list.negated, any) {
        (true, Expr::InList(list)) => Expr::InList(InList {
            negated: true,
            ..list
        }),
        (true, any) => Expr::Not(Box::new(any)),
        (false, any) => any,
    })
}

/// Returns `CASE x WHEN …` of times as one of conditions; `None` if no comparison needs a correction.
pub(super) fn case(case: &Case, schema: &DFSchema, zone: Option<&str>) -> Option<Expr> {
    let compared = case.expr.as_ref().filter(|expr| !expr.is_volatile())?;
    let compare = |when: &Expr| comparison(compared, Operator::Eq, when, schema, zone);
    if !is_time(&type_of(compared, schema))
        || case
            .when_then_expr
            .iter()
            .all(|(when, _)| compare(when).is_none())
    {
        return None;
    }
    let conditions = case.when_then_expr.iter().map(|(when, then)| {
        let plain = || binary_expr((**compared).clone(), Operator::Eq, (**when).clone());
        (Box::new(compare(when).unwrap_or_else(plain)), then.clone())
    });
    Some(Expr::Case(Case {
        expr: None,
        when_then_expr: conditions.collect(),
        else_expr: case.else_expr.clone(),
    }))
}

/// Returns the two sides of an equality of times in one type; `None` if they are of one.
pub(super) fn unified(
    (left, left_type): (&Expr, &DataType),
    (right, right_type): (&Expr, &DataType),
    zone: Option<&str>,
) -> Option<(Expr, Expr)> {
    if !differ(left_type, right_type) {
        return None;
    }
    let to = common(left_type, right_type)?;
    Some((
        ordered(left, left_type, right_type, &to, zone),
        ordered(right, right_type, left_type, &to, zone),
    ))
}

/// Returns `left - right` of a date and a timestamp in microseconds, in which all dates have a place.
pub(super) fn difference(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (left, right) = (type_of(&binary.left, schema), type_of(&binary.right, schema));
    let is_stamp = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..));
    if !is_time(&left) || !is_time(&right) || is_stamp(&left) == is_stamp(&right) {
        return None;
    }
    Some(binary_expr(
        in_microseconds((*binary.left).clone()),
        Operator::Minus,
        in_microseconds((*binary.right).clone()),
    ))
}

/// Returns a date as a timestamp in microseconds.
pub(super) fn in_microseconds(expr: Expr) -> Expr {
    let to = DataType::Timestamp(TimeUnit::Microsecond, None);
    Expr::Cast(Cast::new(Box::new(expr), to))
}

/// Returns the argument of a function as timestamps that show the clock of the session's zone.
pub(super) fn shown_in(expr: Expr, schema: &DFSchema, zone: Option<&str>) -> std::result::Result<Expr, Expr> {
    match (type_of(&expr, schema), zone) {
        (DataType::Timestamp(unit, Some(label)), Some(zone)) if *label != *zone => {
            let to = DataType::Timestamp(unit, Some(zone.into()));
            Ok(Expr::Cast(Cast::new(Box::new(expr), to)))
        }
        _ => Err(expr),
    }
}
