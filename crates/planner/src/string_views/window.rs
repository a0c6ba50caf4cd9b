//! Functions of running windows over strings in place of views.

use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::WindowFunctionDefinition;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::windows::{WindowUDFExpr, create_window_expr};

use super::exec::plain;
use crate::spill_window::has_no_filter;

/// Returns the function with the same results over rows of `strings`, which have strings in place of the
/// views of `views`; `None` if there is none.
pub(super) fn over_strings(
    window: &Arc<dyn WindowExpr>,
    views: &Schema,
    strings: &SchemaRef,
) -> Option<Arc<dyn WindowExpr>> {
    let order = window.order_by().iter().map(|sort| &sort.expr);
    let mut keys = window.partition_by().iter().chain(order);
    // Keys are at most compared as they are.
    if !has_no_filter(&**window) || !keys.all(|key| key.is::<Column>() || !reads_views(key, views)) {
        return None;
    }
    let call = Call::from_window(&**window)?;
    if !call.args.iter().any(|arg| is_about_views(arg, views)) {
        return Some(Arc::clone(window));
    }
    let args = call.args.iter().map(|arg| with_strings(arg, views, strings));
    let changed = create_window_expr(
        &call.function,
        window.name().to_owned(),
        &args.collect::<Result<Vec<_>>>().ok()?,
        window.partition_by(),
        window.order_by(),
        Arc::clone(window.get_window_frame()),
        Arc::clone(strings),
        call.ignore_nulls,
        call.distinct,
        None,
    );
    let changed = changed.ok()?;
    let (before, after) = (window.field().ok()?, changed.field().ok()?);
    let expected = plain(before.data_type()).unwrap_or_else(|| before.data_type().clone());
    (*after.data_type() == expected).then_some(changed)
}

/// The call of a function.
struct Call {
    function: WindowFunctionDefinition,
    args: Vec<Arc<dyn PhysicalExpr>>,
    ignore_nulls: bool,
    distinct: bool,
}

impl Call {
    fn from_window(window: &dyn WindowExpr) -> Option<Self> {
        let of_aggregate = |aggregate: &AggregateFunctionExpr| {
            aggregate.order_bys().is_empty().then(|| Self {
                function: WindowFunctionDefinition::AggregateUDF(Arc::new(aggregate.fun().clone())),
                args: aggregate.expressions(),
                ignore_nulls: aggregate.ignore_nulls(),
                distinct: aggregate.is_distinct(),
            })
        };
        let window = window.as_any();
        if let Some(plain) = window.downcast_ref::<PlainAggregateWindowExpr>() {
            return of_aggregate(plain.get_aggregate_expr());
        }
        if let Some(sliding) = window.downcast_ref::<SlidingAggregateWindowExpr>() {
            return of_aggregate(sliding.get_aggregate_expr());
        }
        let standard = window.downcast_ref::<StandardWindowExpr>()?;
        let function = standard
            .get_standard_func_expr()
            .as_any()
            .downcast_ref::<WindowUDFExpr>()?;
        // DataFusion shows both nowhere else.
        let text = format!("{function:?}");
        let ignore_nulls = text.ends_with("is_reversed: false, ignore_nulls: true }");
        (ignore_nulls || text.ends_with("is_reversed: false, ignore_nulls: false }")).then(|| Self {
            function: WindowFunctionDefinition::WindowUDF(Arc::clone(function.fun())),
            args: function.args().to_vec(),
            ignore_nulls,
            distinct: false,
        })
    }
}

fn reads_views(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let columns = collect_columns(expr);
    let mut types = columns
        .iter()
        .map(|column| schema.field(column.index()).data_type());
    types.any(|data_type| plain(data_type).is_some())
}

/// Returns true for an argument that reads views, or is one.
fn is_about_views(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let is_view = |data_type: DataType| plain(&data_type).is_some();
    reads_views(expr, schema) || expr.data_type(schema).is_ok_and(is_view)
}

/// Returns an argument over strings. What is computed from a view is computed from a view of the string.
fn with_strings(
    expr: &Arc<dyn PhysicalExpr>,
    views: &Schema,
    strings: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let data_type = expr.data_type(views)?;
    let wanted = plain(&data_type).unwrap_or_else(|| data_type.clone());
    if expr.is::<Column>() && expr.data_type(strings)? == wanted {
        return Ok(Arc::clone(expr));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Ok(Arc::new(Literal::new(literal.value().cast_to(&wanted)?)));
    }
    let over_views = Arc::clone(expr).transform_up(|expr| {
        let view = expr.downcast_ref::<Column>().map(|column| column.index());
        let view = view.map(|at| views.field(at).data_type());
        Ok(match view {
            Some(view) if plain(view).is_some() => {
                Transformed::yes(Arc::new(CastExpr::new(expr, view.clone(), None)) as Arc<dyn PhysicalExpr>)
            }
            _ => Transformed::no(expr),
        })
    });
    let over_views = over_views.data()?;
    Ok(if wanted == data_type {
        over_views
    } else {
        Arc::new(CastExpr::new(over_views, wanted, None))
    })
}
