//! Corrections of DataFusion's defaults that would lose or alter values: literals with a point are decimals,
//! integers do not wrap, zeros are equal whatever their sign.
//!
//! A statement passes through twice: as parsed ([`check`], [`refine`]), and as a logical plan (analyzer
//! rules before and after DataFusion's coercion of types). Names of columns stay what DataFusion makes them.

mod after_coercion;
mod arithmetic;
mod at_time_zone;
mod before_coercion;
mod cast;
mod check;
mod convert_scalar;
mod counted_lists;
mod date_trunc;
mod decimal_arithmetic;
mod decimal_sum;
mod distinct_sum;
mod equal_floats;
mod exact_sum;
mod extremes;
mod far_times;
mod filters;
mod floats;
mod frames;
mod grouping_sets;
mod guards;
mod hoisted_keys;
mod kept;
mod lists;
mod meeting_times;
mod named_windows;
mod numbers;
mod operators;
mod ordered_aggregates;
mod patterns;
mod reading;
mod row_comparisons;
mod rules;
mod sets;
mod shared_keys;
mod simplifier;
mod sort_keys;
mod sum;
mod templates;
mod text_lengths;
mod time_comparisons;
mod to_char;
mod values;

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{AggregateUDF, Expr as LogicalExpr, ScalarUDF};
use datafusion::optimizer::OptimizerRule;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::Expr;

pub use arithmetic::arithmetic;
pub use convert_scalar::convert_scalar;
pub use equal_floats::with_equal_floats;
pub use extremes::{greatest, least};
pub use floats::{
    canonical as canonical_float, comparison as float_comparison, is_canonical, without_sign_of_zero,
};
pub use frames::{EvaluateFrames, Exclusion, aggregate_over_frames};
pub use hoisted_keys::HoistKeys;
pub use rules::{AfterCoercion, BeforeCoercion};
pub use simplifier::simplified;

use crate::EngineError;
use crate::evaluated_once;
use crate::functions::{self, FunctionRewriter};
use crate::names::LabelPlanner;
use crate::row_value::row_value;
use crate::syntax::{visit_mut, walk_mut};

/// The time zone of a session that sets none.
pub const UTC: &str = "+00:00";

type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;

/// Sets the options that the configuration of a session must have.
pub fn configure(options: &mut ConfigOptions) {
    options.sql_parser.parse_float_as_decimal = true;
    options.execution.time_zone = Some(UTC.to_owned());
    // The inputs of a union may be NULL where its plan says that they are not: `coalesce` of a boolean does
    // not show in the physical plan that it is never NULL.
    options.execution.skip_physical_aggregate_schema_check = true;
}

/// Returns optimizer rules with ours in place of those of DataFusion that we correct.
pub fn corrected(rules: Vec<LogicalRule>) -> Vec<LogicalRule> {
    let ours: [LogicalRule; 3] = [
        Arc::new(simplifier::SimplifyKeepingNulls::default()),
        Arc::new(filters::PushDownNormalized::default()),
        Arc::new(shared_keys::ShareSubexpressions::default()),
    ];
    let rules = rules.into_iter();
    let rules = rules.map(|rule| match ours.iter().find(|own| own.name() == rule.name()) {
        Some(own) => Arc::clone(own),
        None => rule,
    });
    rules.collect()
}

/// Returns what plans operators before DataFusion does.
pub fn planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![Arc::new(operators::OperatorPlanner), Arc::new(LabelPlanner)]
}

/// Replaces functions of DataFusion by corrected ones that wrap them, and adds those of [`functions`].
pub fn register(mut state: SessionState) -> SessionState {
    if let Ok(inner) = state.udaf("sum") {
        // Registering fails only for what cannot be replaced.
        let _ = state.register_udaf(Arc::new(AggregateUDF::new_from_impl(sum::CheckedSum::over(
            inner,
        ))));
    }
    for (name, is_max) in [("min", false), ("max", true)] {
        if let Ok(inner) = state.udaf(name) {
            let extreme = extremes::Extreme::over(inner, is_max);
            let _ = state.register_udaf(Arc::new(AggregateUDF::new_from_impl(extreme)));
        }
    }
    if let Ok(inner) = state.udaf("array_agg") {
        let array_agg = Arc::new(AggregateUDF::new_from_impl(counted_lists::CountedLists::over(
            inner,
        )));
        let _ = state.register_udaf(Arc::clone(&array_agg));
        for (name, array_agg) in [("string_agg", None), ("nth_value", Some(array_agg))] {
            if let Ok(inner) = state.udaf(name) {
                let ordered = ordered_aggregates::OrderedAggregate::over(inner, array_agg);
                let _ = state.register_udaf(Arc::new(AggregateUDF::new_from_impl(ordered)));
            }
        }
    }
    if let Ok(inner) = state.udf("date_trunc") {
        let truncate = date_trunc::DateTrunc::over(inner);
        let _ = state.register_udf(Arc::new(ScalarUDF::new_from_impl(truncate)));
    }
    let _ = state.register_udf(row_value());
    for marker in frames::markers() {
        let _ = state.register_udf(Arc::new(marker));
    }
    for name in reading::NAMES {
        if let Ok(inner) = state.udf(name) {
            let read = reading::ReadTime::over(inner);
            let _ = state.register_udf(Arc::new(ScalarUDF::new_from_impl(read)));
        }
    }
    if let Ok(inner) = state.udf("to_char") {
        for function in [
            to_char::ToChar::over(Arc::clone(&inner)),
            to_char::ToChar::strftime(inner),
        ] {
            let _ = state.register_udf(Arc::new(ScalarUDF::new_from_impl(function)));
        }
    }
    let at_time_zone = at_time_zone::AtTimeZone::new();
    let _ = state.register_udf(Arc::new(ScalarUDF::new_from_impl(at_time_zone)));
    functions::register(&mut state);
    state
}

/// Refuses clauses of a statement that planning would drop silently.
///
/// # Errors
/// [`EngineError::Unsupported`], naming the first of them.
pub fn check(statement: &Statement) -> std::result::Result<(), EngineError> {
    match statement {
        Statement::Statement(inner) => check::refuse_dropped(&**inner),
        Statement::Explain(explain) => check(&explain.statement),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => check::refuse_dropped(&**query),
            CopyToSource::Relation(_) => Ok(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => Ok(()),
    }
}

/// Rewrites an expression such that DataFusion reads it as it is meant.
///
/// # Errors
/// It has a comparison that is not supported, or reads files in a way that is not offered.
pub fn refine_expression(expression: &mut Expr) -> std::result::Result<(), EngineError> {
    if let ControlFlow::Break(error) = walk_mut(expression, &mut FunctionRewriter) {
        return Err(error);
    }
    let _ = walk_mut(expression, &mut numbers::NumberRewriter);
    let _ = walk_mut(expression, &mut operators::OperatorRewriter);
    let _ = walk_mut(expression, &mut grouping_sets::GroupingSetRewriter);
    let _ = walk_mut(expression, &mut far_times::TimeRewriter);
    let _ = walk_mut(expression, &mut text_lengths::LengthRewriter);
    match walk_mut(expression, &mut row_comparisons::RowComparisons) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Completes the analysis of an expression whose parameters have been replaced by literals since: what is
/// decided by the value of a literal is as it is in a statement with that literal.
///
/// # Errors
/// The expression cannot be traversed.
pub fn refine_bound(expression: LogicalExpr) -> Result<LogicalExpr> {
    after_coercion::bound(expression)
}

/// Rewrites a statement such that DataFusion reads it as it is meant.
///
/// # Errors
/// It has a comparison that is not supported, names a window that is not defined, or reads files in a way
/// that is not offered.
pub fn refine(statement: &mut Statement) -> std::result::Result<(), EngineError> {
    if let ControlFlow::Break(error) = visit_mut(statement, &mut named_windows::NamedWindows) {
        return Err(error);
    }
    if let ControlFlow::Break(error) = visit_mut(statement, &mut FunctionRewriter) {
        return Err(error);
    }
    let _ = visit_mut(statement, &mut numbers::NumberRewriter);
    let _ = visit_mut(statement, &mut far_times::TimeRewriter);
    let _ = visit_mut(statement, &mut text_lengths::LengthRewriter);
    evaluated_once::mark(statement);
    let _ = visit_mut(statement, &mut operators::OperatorRewriter);
    let _ = visit_mut(statement, &mut grouping_sets::GroupingSetRewriter);
    match visit_mut(statement, &mut row_comparisons::RowComparisons) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}
