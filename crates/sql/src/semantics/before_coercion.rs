//! Expressions before DataFusion coerces types: where decimals meet floats they become floats, and times of
//! different types get one.
//!
//! DataFusion would make both decimals of 15 digits after the point, which few floats are.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Cast, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Join, LogicalPlan, Operator, Subquery, Union};
use halocline_values::times::is_time;

use super::decimal_arithmetic;
use super::meeting_times;
use super::numbers::float_literal;
use super::rules::{is_comparison, meeting, project, type_of};
use super::time_comparisons;

/// Functions that return one of their arguments.
const RETURNING_ARGUMENT: [&str; 6] = ["coalesce", "nvl", "ifnull", "greatest", "least", "nullif"];

/// Returns a decimal as a float; others as they are.
fn floated(expr: Expr, to: &DataType, schema: &DFSchema) -> Expr {
    match &expr {
        Expr::Literal(value, _) => match float_literal(value, *to == DataType::Float32) {
            Some(float) => Expr::Literal(float, None),
            None if value.data_type().is_decimal() => cast_to(expr, to),
            None => expr,
        },
        _ if type_of(&expr, schema).is_decimal() => cast_to(expr, to),
        _ => expr,
    }
}

fn cast_to(expr: Expr, to: &DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), to.clone()))
}

/// Returns the type of floats that expressions meet in, if they do.
fn meet<'a>(exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    let types: Vec<DataType> = exprs.map(|expr| type_of(expr, schema)).collect();
    meeting(types.iter())
}

/// Rewrites an expression before the coercion of types. `zone` is that of the session.
pub(super) fn before(expr: Expr, schema: &DFSchema, zone: Option<&str>) -> Result<Transformed<Expr>> {
    let boxed = |expr: Box<Expr>, to: &DataType| Box::new(floated(*expr, to, schema));
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            if let Some(comparison) = time_comparisons::comparison(&left, op, &right, schema, zone) {
                return Ok(Transformed::yes(comparison));
            }
            let Some(to) = meet([&*left, &*right].into_iter(), schema) else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            let (left, right) = (boxed(left, &to), boxed(right, &to));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::BinaryExpr(binary) if binary.op == Operator::Minus => {
            match time_comparisons::difference(&binary, schema) {
                Some(difference) => Transformed::yes(difference),
                None => Transformed::no(Expr::BinaryExpr(binary)),
            }
        }
        Expr::Between(between) => {
            if let Some(within) = time_comparisons::between(&between, schema, zone) {
                return Ok(Transformed::yes(within));
            }
            let compared = [&*between.expr, &*between.low, &*between.high];
            let Some(to) = meet(compared.into_iter(), schema) else {
                return Ok(Transformed::no(Expr::Between(between)));
            };
            Transformed::yes(Expr::Between(Between {
                expr: boxed(between.expr, &to),
                negated: between.negated,
                low: boxed(between.low, &to),
                high: boxed(between.high, &to),
            }))
        }
        Expr::InList(list) => {
            if let Some(list) = time_comparisons::in_list(&list, schema, zone) {
                return Ok(Transformed::yes(list));
            }
            let Some(to) = meet(std::iter::once(&*list.expr).chain(&list.list), schema) else {
                return Ok(Transformed::no(Expr::InList(list)));
            };
            let values = list.list.into_iter().map(|value| floated(value, &to, schema));
            Transformed::yes(Expr::InList(InList {
                expr: boxed(list.expr, &to),
                list: values.collect(),
                negated: list.negated,
            }))
        }
        Expr::InSubquery(within) => match unified_subquery((&within.expr, &within.subquery), schema, zone)? {
            Some((expr, subquery)) => {
                Transformed::yes(Expr::InSubquery(InSubquery::new(expr, subquery, within.negated)))
            }
            None => Transformed::no(Expr::InSubquery(within)),
        },
        Expr::SetComparison(SetComparison {
            expr,
            subquery,
            op,
            quantifier,
        }) => match unified_subquery((&expr, &subquery), schema, zone)? {
            Some((expr, subquery)) => Transformed::yes(Expr::SetComparison(SetComparison::new(
                expr, subquery, op, quantifier,
            ))),
            None => Transformed::no(Expr::SetComparison(SetComparison::new(
                expr, subquery, op, quantifier,
            ))),
        },
        Expr::Case(case) => {
            let compared = match time_comparisons::case(&case, schema, zone) {
                Some(Expr::Case(case)) => Some(case),
                _ => None,
            };
            let results = meeting_times::case(compared.as_ref().unwrap_or(&case), schema, zone);
            match results.or(compared) {
                Some(case) => Transformed::yes(before_case(case, schema).data),
                None => before_case(case, schema),
            }
        }
        Expr::ScalarFunction(mut function) => {
            if function.name() == "round" {
                return Ok(round_to_literal(function));
            }
            if matches!(function.name(), "date_trunc" | "date_bin") {
                return Ok(of_far_dates(function, schema));
            }
            if let Some(call) = decimal_arithmetic::with_room(&function, schema) {
                return Ok(Transformed::yes(call));
            }
            if let Some(call) = meeting_times::call(&function, schema, zone) {
                return Ok(Transformed::yes(call));
            }
            let returns_argument = RETURNING_ARGUMENT.contains(&function.name());
            let converts = |expr: &Expr| match expr {
                Expr::Literal(value, _) => value.data_type().is_decimal(),
                _ => returns_argument,
            };
            if !function.args.iter().any(converts) {
                return Ok(Transformed::no(Expr::ScalarFunction(function)));
            }
            let Some(to) = meet(function.args.iter(), schema) else {
                return Ok(Transformed::no(Expr::ScalarFunction(function)));
            };
            let args = function.args.into_iter().map(|arg| {
                if converts(&arg) {
                    floated(arg, &to, schema)
                } else {
                    arg
                }
            });
            function.args = args.collect();
            Transformed::yes(Expr::ScalarFunction(function))
        }
        other => Transformed::no(other),
    })
}

/// Gives the second argument of `round` the type that it is cast to otherwise: the type of the result depends
/// on the literal, which a cast conceals until it is folded, when what surrounds it has been given its type.
fn round_to_literal(mut function: ScalarFunction) -> Transformed<Expr> {
    if let Some(Expr::Literal(value, _)) = function.args.get_mut(1)
        && let ScalarValue::Int64(Some(digits)) = value
        && let Ok(digits) = i32::try_from(*digits)
    {
        *value = ScalarValue::Int32(Some(digits));
        return Transformed::yes(Expr::ScalarFunction(function));
    }
    Transformed::no(Expr::ScalarFunction(function))
}

/// Gives `date_trunc` and `date_bin` of a date timestamps in microseconds, in which all dates have a place.
fn of_far_dates(mut function: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    match function.args.get_mut(1) {
        Some(arg) if matches!(type_of(arg, schema), DataType::Date32 | DataType::Date64) => {
            let date = std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None));
            *arg = time_comparisons::in_microseconds(date);
            Transformed::yes(Expr::ScalarFunction(function))
        }
        _ => Transformed::no(Expr::ScalarFunction(function)),
    }
}

/// Returns a join whose keys are times of one type.
pub(super) fn unified_keys(mut join: Join, zone: Option<&str>) -> Join {
    let (left_schema, right_schema) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    for (left, right) in &mut join.on {
        let (left_type, right_type) = (type_of(left, &left_schema), type_of(right, &right_schema));
        let unified = time_comparisons::unified((left, &left_type), (right, &right_type), zone);
        if let Some(unified) = unified {
            (*left, *right) = unified;
        }
    }
    join
}

/// Returns an expression and the subquery with whose rows it is compared as times of one type; `None` if they
/// are of one.
fn unified_subquery(
    (expr, subquery): (&Expr, &Subquery),
    schema: &DFSchema,
    zone: Option<&str>,
) -> Result<Option<(Box<Expr>, Subquery)>> {
    let column = subquery.subquery.schema().columns().into_iter().next();
    let Some(column) = column.map(Expr::Column) else {
        return Ok(None);
    };
    let expr_type = type_of(expr, schema);
    let column_type = type_of(&column, subquery.subquery.schema());
    let unified = time_comparisons::unified((expr, &expr_type), (&column, &column_type), zone);
    let Some((expr, column)) = unified else {
        return Ok(None);
    };
    let first = |at: usize| (at == 0).then_some(());
    let plan = project(&subquery.subquery, first, |_, ()| column.clone())?;
    let subquery = Subquery {
        subquery: Arc::new(plan),
        ..subquery.clone()
    };
    Ok(Some((Box::new(expr), subquery)))
}

fn before_case(case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let whens = case.when_then_expr.iter().map(|(when, _)| &**when);
    let compared = case.expr.as_ref();
    let compared = compared.and_then(|expr| meet(std::iter::once(&**expr).chain(whens), schema));
    let thens = case.when_then_expr.iter().map(|(_, then)| &**then);
    let results = meet(thens.chain(case.else_expr.as_deref()), schema);
    if compared.is_none() && results.is_none() {
        return Transformed::no(Expr::Case(case));
    }
    let maybe = |expr: Box<Expr>, to: Option<&DataType>| match to {
        Some(to) => Box::new(floated(*expr, to, schema)),
        None => expr,
    };
    let (compared, results) = (compared.as_ref(), results.as_ref());
    let pairs = case.when_then_expr.into_iter();
    let pairs = pairs.map(|(when, then)| (maybe(when, compared), maybe(then, results)));
    Transformed::yes(Expr::Case(Case {
        when_then_expr: pairs.collect(),
        expr: case.expr.map(|expr| maybe(expr, compared)),
        else_expr: case.else_expr.map(|expr| maybe(expr, results)),
    }))
}

/// Returns a union whose inputs have floats in the columns where one has floats and another decimals, and
/// times of one type in those where dates meet timestamps.
pub(super) fn union_of(union: Union) -> Result<LogicalPlan> {
    let columns = union.schema.fields().len();
    let type_of = |input: &Arc<LogicalPlan>, column: usize| {
        let field = input.schema().fields().get(column);
        field.map_or(DataType::Null, |field| field.data_type().clone())
    };
    let meet: Vec<Option<DataType>> = (0..columns)
        .map(|column| {
            let types: Vec<DataType> = union.inputs.iter().map(|input| type_of(input, column)).collect();
            meeting(types.iter()).or_else(|| meeting_times::meeting(types.iter(), || false))
        })
        .collect();
    if meet.iter().all(Option::is_none) {
        return Ok(LogicalPlan::Union(union));
    }
    let inputs = union.inputs.iter().map(|input| {
        let to = |column: usize| {
            let to = meet.get(column)?.as_ref()?;
            let of = type_of(input, column);
            let differs = of.is_decimal() || (is_time(&of) && of != *to);
            differs.then(|| to.clone())
        };
        project(input, to, cast_to).map(Arc::new)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    // Its schema still has the former types of the inputs.
    Union::try_new_with_loose_types(inputs).map(LogicalPlan::Union)
}
