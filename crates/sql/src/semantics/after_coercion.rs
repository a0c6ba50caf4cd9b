//! Expressions after DataFusion has coerced types: integer arithmetic is checked, and comparisons of floats
//! know one zero.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Between, Cast, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, Subquery, TryCast};

use super::arithmetic::{arithmetic, checked, negated};
use super::cast;
use super::decimal_arithmetic;
use super::extremes;
use super::floats::{self, canonical, canonical_argument, is_float};
use super::kept;
use super::lists;
use super::numbers::float_literal;
use super::ordered_aggregates;
use super::rules::{is_comparison, project, type_of};
use super::sort_keys;
use super::time_comparisons;

/// Returns true for functions of which the result depends on the time zone of an argument.
fn shows_clock(name: &str) -> bool {
    matches!(
        name,
        "age"
            | "date_bin"
            | "date_diff"
            | "date_part"
            | "date_trunc"
            | "strftime"
            | "time_bucket"
            | "to_char"
            | "to_date"
    )
}

/// Gives a function timestamps that show the clock of the session's zone.
fn in_session_zone(mut function: ScalarFunction, schema: &DFSchema, zone: Option<&str>) -> Transformed<Expr> {
    let mut changed = false;
    let args = function
        .args
        .into_iter()
        .map(|arg| match time_comparisons::shown_in(arg, schema, zone) {
            Ok(shown) => {
                changed = true;
                shown
            }
            Err(arg) => arg,
        });
    function.args = args.collect();
    if changed {
        Transformed::yes(Expr::ScalarFunction(function))
    } else {
        Transformed::no(Expr::ScalarFunction(function))
    }
}

/// Rewrites an expression after the coercion of types. `zone` is that of the session.
pub(super) fn after(expr: Expr, schema: &DFSchema, zone: Option<&str>) -> Result<Transformed<Expr>> {
    let of_floats = |expr: &Expr| is_float(&type_of(expr, schema));
    Ok(match expr {
        Expr::Cast(Cast { expr, field }) => {
            let cast = exact(&expr, &field);
            match cast.or_else(|| cast::cast(&expr, field.data_type(), false, schema, zone)) {
                Some(cast) => Transformed::yes(cast),
                None => Transformed::no(Expr::Cast(Cast { expr, field })),
            }
        }
        Expr::TryCast(TryCast { expr, field }) => {
            match cast::cast(&expr, field.data_type(), true, schema, zone) {
                Some(cast) => Transformed::yes(cast),
                None => Transformed::no(Expr::TryCast(TryCast { expr, field })),
            }
        }
        Expr::BinaryExpr(binary) if is_comparison(binary.op) && of_floats(&binary.left) => {
            Transformed::yes(floats::comparison(binary))
        }
        Expr::ScalarFunction(call) if call.name() == "nullif" && call.args.first().is_some_and(of_floats) => {
            let data_type = call
                .args
                .first()
                .map_or(DataType::Null, |arg| type_of(arg, schema));
            Transformed::yes(floats::nullif(call, &data_type))
        }
        Expr::BinaryExpr(binary)
            if matches!(
                binary.op,
                Operator::Plus
                    | Operator::Minus
                    | Operator::Multiply
                    | Operator::BitwiseShiftLeft
                    | Operator::BitwiseShiftRight
                    | Operator::BitwiseXor
            ) && are_integers(&binary, schema) =>
        {
            match checked(&binary) {
                Some(checked) => Transformed::yes(checked),
                None => Transformed::no(Expr::BinaryExpr(binary)),
            }
        }
        Expr::BinaryExpr(binary)
            if matches!(
                binary.op,
                Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide
            ) && !of_floats(&binary.right) =>
        {
            match decimal_arithmetic::checked(&binary, schema) {
                Some(checked) => Transformed::yes(checked),
                None => Transformed::no(Expr::BinaryExpr(binary)),
            }
        }
        Expr::BinaryExpr(binary) if kept::is_regex(binary.op) => match kept::regex(binary) {
            Ok(regex) => Transformed::yes(regex),
            Err(binary) => Transformed::no(Expr::BinaryExpr(binary)),
        },
        Expr::BinaryExpr(mut binary) if is_comparison(binary.op) => {
            let mut is_kept = false;
            for operand in [&mut binary.left, &mut binary.right] {
                if kept::is_lossy(operand, schema) {
                    **operand = kept::kept_cast(std::mem::take(&mut **operand));
                    is_kept = true;
                }
            }
            if is_kept {
                Transformed::yes(Expr::BinaryExpr(binary))
            } else {
                Transformed::no(Expr::BinaryExpr(binary))
            }
        }
        Expr::Negative(value) if type_of(&value, schema).is_signed_integer() => {
            Transformed::yes(negated(*value))
        }
        Expr::ScalarFunction(function) if zone.is_some() && shows_clock(function.name()) => {
            in_session_zone(function, schema, zone)
        }
        Expr::Between(between) if of_floats(&between.expr) => Transformed::yes(floats::between(between)),
        Expr::InList(list) if of_floats(&list.expr) => match floats::in_list(list) {
            Expr::InList(mut list) => {
                if kept::is_lossy(&list.expr, schema) {
                    *list.expr = kept::kept_cast(std::mem::take(&mut *list.expr));
                }
                Transformed::yes(lists::separated(list))
            }
            other => Transformed::yes(other),
        },
        Expr::InList(list) => Transformed::yes(lists::separated(list)),
        Expr::Between(mut between) if kept::is_lossy(&between.expr, schema) => {
            *between.expr = kept::kept_cast(std::mem::take(&mut *between.expr));
            Transformed::yes(Expr::Between(between))
        }
        Expr::InSubquery(within) if of_floats(&within.expr) => Transformed::yes(in_subquery(within)?),
        Expr::Case(case) => match &case.expr {
            Some(expr) if of_floats(expr) => Transformed::yes(floats::case(case)),
            _ => Transformed::no(Expr::Case(case)),
        },
        Expr::AggregateFunction(AggregateFunction { func, mut params }) if params.distinct => {
            // The values that are sorted by have to be those that are distinct.
            let sorted = params.order_by.iter_mut().map(|sort| &mut sort.expr);
            for arg in params.args.iter_mut().chain(sorted) {
                if of_floats(arg) && !matches!(arg, Expr::Literal(..)) {
                    *arg = canonical_argument(std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None)));
                }
            }
            sort_keys::of_aggregate(&mut params.order_by, schema);
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        Expr::AggregateFunction(mut function)
            if function.params.args.first().is_some_and(of_floats)
                && let Some(extreme) = extremes::of_floats(&function.func) =>
        {
            function.func = extreme;
            function.params.order_by.clear();
            Transformed::yes(Expr::AggregateFunction(function))
        }
        Expr::AggregateFunction(mut function) if !function.params.order_by.is_empty() => {
            ordered_aggregates::without_order(&mut function);
            sort_keys::of_aggregate(&mut function.params.order_by, schema);
            Transformed::yes(Expr::AggregateFunction(function))
        }
        Expr::WindowFunction(mut window) => {
            sort_keys::of_window(&mut window.params, schema);
            Transformed::yes(Expr::WindowFunction(window))
        }
        other => Transformed::no(other),
    })
}

/// Rewrites an expression that passed both passes with parameters in place of some literals. Decimals that
/// are cast to floats become the nearest ones, and operands that were made canonical because their values
/// were unknown are what they are beside a literal.
pub(super) fn bound(expr: Expr) -> Result<Expr> {
    let stripped = |expr: Box<Expr>| Box::new(floats::without_sign_of_zero(&expr).clone());
    let no_columns = DFSchema::empty();
    let is_made_canonical = |expr: &Expr| match expr {
        Expr::ScalarFunction(function) => floats::is_canonical(function),
        _ => false,
    };
    let rewritten = expr.transform_up(|expr| {
        Ok(match expr {
            Expr::Cast(Cast { expr, field }) => {
                let literal = exact(&expr, &field);
                match literal.or_else(|| cast::cast(&expr, field.data_type(), false, &no_columns, None)) {
                    Some(literal) => Transformed::yes(literal),
                    None => Transformed::no(Expr::Cast(Cast { expr, field })),
                }
            }
            Expr::ScalarFunction(function) => match cast::evaluated(&function)? {
                Some(literal) => Transformed::yes(literal),
                None => Transformed::no(Expr::ScalarFunction(function)),
            },
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if is_comparison(op) && (is_made_canonical(&left) || is_made_canonical(&right)) =>
            {
                let (left, right) = (stripped(left), stripped(right));
                Transformed::yes(floats::comparison(BinaryExpr { left, op, right }))
            }
            Expr::Between(between) if is_made_canonical(&between.expr) => {
                Transformed::yes(floats::between(Between {
                    expr: stripped(between.expr),
                    negated: between.negated,
                    low: stripped(between.low),
                    high: stripped(between.high),
                }))
            }
            Expr::InList(list) if is_made_canonical(&list.expr) => {
                let items = list
                    .list
                    .iter()
                    .map(|item| floats::without_sign_of_zero(item).clone());
                Transformed::yes(floats::in_list(InList {
                    list: items.collect(),
                    expr: stripped(list.expr),
                    negated: list.negated,
                }))
            }
            other => Transformed::no(other),
        })
    });
    rewritten.data()
}

fn are_integers(binary: &BinaryExpr, schema: &DFSchema) -> bool {
    let right = operand_type(&binary.right, schema);
    right.is_integer() && operand_type(&binary.left, schema) == right
}

/// Returns the type of an operand; of one that is checked itself that of its last operand, so that a sum of
/// many terms is not walked through again for each of them.
fn operand_type(expr: &Expr, schema: &DFSchema) -> DataType {
    match (expr, arithmetic(expr)) {
        (Expr::ScalarFunction(_), Some((_, _, last))) => operand_type(last, schema),
        _ => type_of(expr, schema),
    }
}

/// Returns a decimal literal that is cast to a float, as the float that is nearest.
fn exact(expr: &Expr, to: &Arc<Field>) -> Option<Expr> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    match to.data_type() {
        DataType::Float64 => float_literal(value, false),
        DataType::Float32 => float_literal(value, true),
        _ => None,
    }
    .map(|float| Expr::Literal(float, None))
}

fn in_subquery(within: InSubquery) -> Result<Expr> {
    let Subquery {
        subquery,
        outer_ref_columns,
        spans,
    } = within.subquery;
    let of_floats = |column: usize| {
        let field = subquery.schema().fields().get(column);
        field.filter(|field| is_float(field.data_type())).map(|_| ())
    };
    let subquery = Arc::new(project(&subquery, of_floats, |expr, ()| canonical(expr))?);
    Ok(Expr::InSubquery(InSubquery {
        expr: Box::new(canonical(*within.expr)),
        subquery: Subquery {
            subquery,
            outer_ref_columns,
            spans,
        },
        negated: within.negated,
    }))
}
