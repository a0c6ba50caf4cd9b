//! Makes a plan of a template: a table in place of the detached one, values in place of parameters, and the
//! conditions in the scan as far as the table takes them.
//!
//! Parameters are in filters only. A filter that is left empty takes with it the columns that only it has
//! read.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    EmptyRelation, Expr, Filter, LogicalPlan, Projection, TableProviderFilterPushDown, TableScan,
    TableScanBuilder, TableSource,
};
use halocline_sql::semantics::{refine_bound, simplified};

/// The table, values and options that a template is bound to.
pub(super) struct Binding<'a> {
    pub(super) source: Arc<dyn TableSource>,
    pub(super) values: &'a [ScalarValue],
    pub(super) options: &'a Arc<ConfigOptions>,
}

impl Binding<'_> {
    /// Returns the plan for these values.
    ///
    /// # Errors
    /// An expression cannot be evaluated for them.
    pub(super) fn plan(&self, template: &LogicalPlan) -> Result<LogicalPlan> {
        Ok(match template {
            LogicalPlan::TableScan(scan) => LogicalPlan::TableScan(self.scan(scan)),
            LogicalPlan::Filter(filter) => self.filter(filter)?,
            LogicalPlan::Projection(projection) => narrowed(projection, self.plan(&projection.input)?)?,
            other => {
                let bound = other
                    .clone()
                    .map_children(|child| self.plan(&child).map(Transformed::yes));
                bound.data()?
            }
        })
    }

    fn scan(&self, scan: &TableScan) -> TableScan {
        let mut bound = scan.clone();
        bound.source = Arc::clone(&self.source);
        bound
    }

    fn filter(&self, filter: &Filter) -> Result<LogicalPlan> {
        let input = self.plan(&filter.input)?;
        let predicate = filter
            .predicate
            .clone()
            .transform_up(|expr| self.value(expr))
            .data()?;
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(input.schema()))
            .with_config_options(Arc::clone(self.options))
            .build();
        let predicate = simplified(refine_bound(predicate)?, context)?;
        match (&predicate, input) {
            (Expr::Literal(ScalarValue::Boolean(Some(true)), _), input) => Ok(input),
            (Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _), input) => {
                Ok(LogicalPlan::EmptyRelation(EmptyRelation {
                    produce_one_row: false,
                    schema: Arc::clone(input.schema()),
                }))
            }
            (_, LogicalPlan::TableScan(scan)) => self.push_down(predicate, scan),
            (_, input) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)),
        }
    }

    /// Returns the value of a parameter; other expressions as they are.
    fn value(&self, expr: Expr) -> Result<Transformed<Expr>> {
        let Expr::Placeholder(Placeholder { id, .. }) = &expr else {
            return Ok(Transformed::no(expr));
        };
        let number = id
            .strip_prefix('$')
            .and_then(|number| number.parse::<usize>().ok());
        match number.and_then(|number| self.values.get(number.checked_sub(1)?)) {
            Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
            None => Err(DataFusionError::Plan(format!("parameter {id} has no value"))),
        }
    }

    /// Gives the scan the conditions that the table takes; the others are left above it.
    fn push_down(&self, predicate: Expr, mut scan: TableScan) -> Result<LogicalPlan> {
        let conditions = split_conjunction_owned(predicate);
        let taken = self
            .source
            .supports_filters_pushdown(&conditions.iter().collect::<Vec<_>>())?;
        let mut left = Vec::new();
        for (condition, taken) in conditions.into_iter().zip(taken) {
            match taken {
                TableProviderFilterPushDown::Exact => scan.filters.push(condition),
                TableProviderFilterPushDown::Inexact => {
                    scan.filters.push(condition.clone());
                    left.push(condition);
                }
                TableProviderFilterPushDown::Unsupported => left.push(condition),
            }
        }
        let scan = LogicalPlan::TableScan(scan);
        match conjunction(left) {
            Some(left) => Ok(LogicalPlan::Filter(Filter::try_new(left, Arc::new(scan))?)),
            None => Ok(scan),
        }
    }
}

/// Returns a projection over its input, whose scan reads no more columns than needed; the scan alone if the
/// projection is of columns.
fn narrowed(projection: &Projection, input: LogicalPlan) -> Result<LogicalPlan> {
    let over = |input: LogicalPlan| {
        let mut projection = projection.clone();
        projection.input = Arc::new(input);
        LogicalPlan::Projection(projection)
    };
    match input {
        LogicalPlan::TableScan(scan) => {
            let columns = columns_of(projection, &scan);
            let is_plain = columns.is_some();
            let scan = match columns {
                Some(columns) => TableScanBuilder::from(scan)
                    .with_projection(Some(columns))
                    .build()?,
                None => reading(scan, projection.expr.iter())?,
            };
            let is_same = is_plain && scan.projected_schema == projection.schema;
            let scan = LogicalPlan::TableScan(scan);
            Ok(if is_same { scan } else { over(scan) })
        }
        LogicalPlan::Filter(Filter { predicate, input, .. }) => match Arc::unwrap_or_clone(input) {
            LogicalPlan::TableScan(scan) => {
                let scan = reading(scan, projection.expr.iter().chain([&predicate]))?;
                let scan = Arc::new(LogicalPlan::TableScan(scan));
                Ok(over(LogicalPlan::Filter(Filter::try_new(predicate, scan)?)))
            }
            input => Ok(over(LogicalPlan::Filter(Filter::try_new(
                predicate,
                Arc::new(input),
            )?))),
        },
        input => Ok(over(input)),
    }
}

/// Returns the positions in the table of the columns of a projection; `None` if it is of other expressions.
fn columns_of(projection: &Projection, scan: &TableScan) -> Option<Vec<usize>> {
    let schema = scan.source.schema();
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => schema.index_of(&column.name).ok(),
        _ => None,
    };
    projection.expr.iter().map(column).collect()
}

/// Returns a scan of the columns in these expressions.
fn reading<'a>(scan: TableScan, expressions: impl Iterator<Item = &'a Expr>) -> Result<TableScan> {
    let schema = scan.source.schema();
    let mut columns = Vec::new();
    for column in expressions.flat_map(Expr::column_refs) {
        columns.push(schema.index_of(&column.name)?);
    }
    columns.sort_unstable();
    columns.dedup();
    TableScanBuilder::from(scan)
        .with_projection(Some(columns))
        .build()
}
