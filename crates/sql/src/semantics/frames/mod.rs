//! Frames of windows that are evaluated from their rows: those with `EXCLUDE`, which the parser and
//! DataFusion do not know, and sliding ones that DataFusion evaluates wrongly or not at all.
//!
//! A rule puts our window function in place of the call. The standard (SQL:2011, 7.15) and PostgreSQL have
//! `EXCLUDE` for aggregates, `first_value`, `last_value` and `nth_value`; other functions have no frame, and
//! stay.

mod blocks;
mod evaluator;
mod filtered;
mod function;
mod marker;
mod sliding;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition, WindowUDF};
use datafusion::optimizer::AnalyzerRule;

use self::function::OverFrames;
use self::marker::exclusion_of;

pub use self::function::aggregate_over_frames;
pub use self::marker::Exclusion;
pub(super) use self::marker::{is_marker, markers};

/// Puts functions over the rows of frames in place of those that need them.
#[derive(Debug)]
pub struct EvaluateFrames;

impl AnalyzerRule for EvaluateFrames {
    fn name(&self) -> &'static str {
        "evaluate_frames"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let LogicalPlan::Window(window) = &plan else {
                return Ok(Transformed::no(plan));
            };
            let (names, schema) = (NamePreserver::new(&plan), Arc::clone(window.input.schema()));
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| over_frames(expr, &schema))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        });
        rewritten.data()
    }
}

/// Rewrites the call of a function over a window, if it needs the rows of the frame.
fn over_frames(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let by = &mut call.params.partition_by;
    let exclusion = by.iter().find_map(exclusion_of);
    by.retain(|expr| exclusion_of(expr).is_none());
    if let WindowFunctionDefinition::AggregateUDF(function) = &call.fun {
        filtered::move_into_argument(function, &mut call.params)?;
    }
    let needs_rows = match &call.fun {
        _ if exclusion.is_some() => true,
        WindowFunctionDefinition::AggregateUDF(function) => {
            sliding::needs_rows(function, &call.params, schema)
        }
        WindowFunctionDefinition::WindowUDF(_) => false,
    };
    if needs_rows {
        replace(&mut call, exclusion);
    }
    let call = Expr::WindowFunction(call);
    Ok(Transformed::yes(call))
}

/// Replaces the function of a call, unless it has no frame.
fn replace(call: &mut WindowFunction, exclusion: Option<Exclusion>) {
    let params = &mut call.params;
    // DataFusion passes neither to a window function.
    let (filter, distinct) = (params.filter.take(), std::mem::take(&mut params.distinct));
    let frame = &params.window_frame;
    let function = OverFrames::for_function(&call.fun, frame, exclusion, filter.is_some(), distinct);
    match function {
        Some(function) => {
            params.args.extend(filter.map(|filter| *filter));
            let function = WindowUDF::new_from_impl(function);
            call.fun = WindowFunctionDefinition::WindowUDF(Arc::new(function));
        }
        None => (params.filter, params.distinct) = (filter, distinct),
    }
}
