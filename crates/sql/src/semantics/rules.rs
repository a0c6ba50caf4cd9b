//! The two passes over the logical plan, before and after DataFusion coerces types.
//!
//! Before: where decimals meet floats they become floats. DataFusion would make both decimals of 15 digits
//! after the point, which few floats are. After: integer arithmetic is checked, and comparisons of floats
//! know one zero.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, Cast, InList, InSubquery, ScalarFunction, SetComparison,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    TryCast, Union,
};
use datafusion::optimizer::AnalyzerRule;
use halocline_values::times::is_time;

use super::arithmetic::{arithmetic, checked, negated};
use super::equal_floats::equal_floats;
use super::extremes;
use super::floats::{self, canonical, canonical_argument, is_float};
use super::guards;
use super::kept;
use super::lists;
use super::meeting_times;
use super::numbers::float_literal;
use super::ordered_aggregates;
use super::sets;
use super::sort_keys;
use super::values;
use super::{cast, decimal_arithmetic, time_comparisons};

/// Functions that return one of their arguments.
const RETURNING_ARGUMENT: [&str; 6] = ["coalesce", "nvl", "ifnull", "greatest", "least", "nullif"];

/// The pass before the coercion of types.
#[derive(Debug)]
pub struct BeforeCoercion;

/// The pass after it.
#[derive(Debug)]
pub struct AfterCoercion;

impl AnalyzerRule for BeforeCoercion {
    fn name(&self) -> &'static str {
        "decimals_meet_floats"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = config.execution.time_zone.as_deref();
        let before = |expr: Expr, schema: &DFSchema| before(expr, schema, zone);
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Union(union) => union_of(union).map(Transformed::yes),
            LogicalPlan::Join(join) if sets::is_set_operation(&join) => {
                sets::set_operation(join).map(Transformed::yes)
            }
            LogicalPlan::Values(values) => {
                let plan = LogicalPlan::Values(values::with_floats(values)?);
                each_expression(plan, before)
            }
            LogicalPlan::Join(join) => each_expression(LogicalPlan::Join(unified_keys(join, zone)), before),
            other => each_expression(other, before),
        });
        rewritten.data()
    }
}

impl AnalyzerRule for AfterCoercion {
    fn name(&self) -> &'static str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = config.execution.time_zone.as_deref();
        let after = |expr: Expr, schema: &DFSchema| after(expr, schema, zone);
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let plan = each_expression(plan, after)?.data;
            guards::guarded(equal_floats(plan)?).map(Transformed::yes)
        });
        rewritten.data()
    }
}

/// Rewrites the expressions of a plan's root, whose names stay.
pub(super) fn each_expression(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let of_table = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&of_table);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    // Types may have changed further down.
    rewritten.map_data(LogicalPlan::recompute_schema)
}

pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(
        op,
        O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom
    )
}

/// Returns the type of floats that expressions of these types meet in; `None` unless there are floats and
/// decimals among them.
pub(super) fn meeting<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let decimals = types.clone().any(DataType::is_decimal);
    let mut floats = types.filter(|data_type| is_float(data_type));
    let first = floats.next().filter(|_| decimals)?;
    // Floats of 16 bits are too small for what decimals hold.
    let narrow = *first != DataType::Float64 && floats.all(|other| *other != DataType::Float64);
    Some(if narrow {
        DataType::Float32
    } else {
        DataType::Float64
    })
}

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

/// Returns the type of an expression; that of NULL if it has none, which the type coercion reports as an
/// error.
pub(super) fn type_of(expr: &Expr, schema: &DFSchema) -> DataType {
    expr.get_type(schema).unwrap_or(DataType::Null)
}

/// Returns the type of floats that expressions meet in, if they do.
fn meet<'a>(exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    let types: Vec<DataType> = exprs.map(|expr| type_of(expr, schema)).collect();
    meeting(types.iter())
}

fn before(expr: Expr, schema: &DFSchema, zone: Option<&str>) -> Result<Transformed<Expr>> {
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

/// Returns true for functions of which the result depends on the time zone of an argument.
fn shows_clock(name: &str) -> bool {
    matches!(
        name,
        "date_part" | "date_trunc" | "date_bin" | "to_char" | "strftime" | "to_date"
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

/// Returns a join whose keys are times of one type.
fn unified_keys(mut join: Join, zone: Option<&str>) -> Join {
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
fn union_of(union: Union) -> Result<LogicalPlan> {
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

/// Replaces some columns of a plan by expressions of the same name, which `of` returns by position.
pub(super) fn project<T>(
    input: &Arc<LogicalPlan>,
    of: impl Fn(usize) -> Option<T>,
    make: impl Fn(Expr, &T) -> Expr,
) -> Result<LogicalPlan> {
    let columns = input.schema().columns();
    if (0..columns.len()).all(|at| of(at).is_none()) {
        return Ok((**input).clone());
    }
    let exprs = columns.into_iter().enumerate().map(|(at, column)| match of(at) {
        Some(to) => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            make(Expr::Column(column), &to).alias_qualified(relation, name)
        }
        None => Expr::Column(column),
    });
    let exprs: Vec<Expr> = exprs.collect();
    LogicalPlanBuilder::from((**input).clone())
        .project(exprs)?
        .build()
}

fn after(expr: Expr, schema: &DFSchema, zone: Option<&str>) -> Result<Transformed<Expr>> {
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
