//! `count(*)` of a table, whose rows are counted already.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, EmptyRelation, Expr, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use halocline_scan::plan::PoolTable;

/// Replaces an aggregate that only counts all rows of a table of the pool by their number.
///
/// DataFusion does the same in a physical plan. Here nothing is left that would have to be optimised.
#[derive(Debug)]
pub struct CountRule;

impl OptimizerRule for CountRule {
    fn name(&self) -> &'static str {
        "count_all_rows"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else {
            return Ok(Transformed::no(plan));
        };
        match counted(aggregate) {
            Some(rows) => rows_as_plan(aggregate, rows).map(Transformed::yes),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// Returns the number of rows if all that the aggregate computes is their number.
fn counted(aggregate: &Aggregate) -> Option<i64> {
    let LogicalPlan::TableScan(scan) = &*aggregate.input else {
        return None;
    };
    let is_whole = scan.filters.is_empty() && scan.fetch.is_none();
    if !is_whole || !aggregate.group_expr.is_empty() || !aggregate.aggr_expr.iter().all(counts_rows) {
        return None;
    }
    let provider = source_as_provider(&scan.source).ok()?;
    i64::try_from(provider.downcast_ref::<PoolTable>()?.rows()).ok()
}

/// Returns true for `count(*)` and `count` of another constant that is not NULL.
fn counts_rows(expr: &Expr) -> bool {
    let expr = match expr {
        Expr::Alias(alias) => &alias.expr,
        other => other,
    };
    let Expr::AggregateFunction(function) = expr else {
        return false;
    };
    let params = &function.params;
    let of_constant = matches!(params.args.as_slice(), [Expr::Literal(value, _)] if !value.is_null());
    let is_plain = !params.distinct && params.filter.is_none() && params.order_by.is_empty();
    function.func.name() == "count" && of_constant && is_plain
}

/// Returns a plan of one row with the number in each column of the aggregate.
fn rows_as_plan(aggregate: &Aggregate, rows: i64) -> Result<LogicalPlan> {
    let column = |name: &String| Expr::Literal(ScalarValue::Int64(Some(rows)), None).alias(name);
    let columns = aggregate.schema.fields().iter().map(|field| column(field.name()));
    let one_row = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    });
    let projection = Projection::try_new(columns.collect(), Arc::new(one_row))?;
    Ok(LogicalPlan::Projection(projection))
}
