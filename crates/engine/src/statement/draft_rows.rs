//! The rows of a table with the columns that an `ALTER TABLE` gives it.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::utils::{find_aggregate_exprs, find_window_exprs};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast;
use halocline_sql::EngineError;

use super::table_draft::{ColumnSource, TableDraft};
use crate::session::StatementPlanner;

/// Plans the query for the rows of a table with the columns of a draft, whose types the values need not have
/// yet. `rows` has the stored columns, by their names.
///
/// # Errors
/// An expression of `USING` cannot be planned, or combines several rows.
pub(super) async fn plan_rows(
    planner: &StatementPlanner,
    rows: Arc<dyn TableProvider>,
    draft: &TableDraft,
) -> Result<LogicalPlan, EngineError> {
    let table = TableReference::bare(draft.table());
    let schema = DFSchema::try_from_qualified_schema(table.clone(), draft.stored())?;
    let using = draft.columns().iter().filter_map(|column| match &column.source {
        ColumnSource::Computed(_, expr) => Some(ast::Expr::clone(expr)),
        ColumnSource::Stored(_) | ColumnSource::Added(_) => None,
    });
    let using = planner.expressions(using.collect(), &schema).await?;
    if let Some(wrong) = find_aggregate_exprs(&using)
        .first()
        .or(find_window_exprs(&using).first())
    {
        let text = format!(
            "{}: {wrong} in USING combines several rows; the new value depends on its row only",
            draft.statement()
        );
        return Err(EngineError::Query(text));
    }
    let mut using = using.into_iter();
    let mut values = Vec::new();
    for (number, column) in draft.columns().iter().enumerate() {
        let value = match &column.source {
            ColumnSource::Stored(at) => {
                let name = draft.stored().field(*at).name();
                Some(Expr::Column(Column::new(Some(table.clone()), name)))
            }
            ColumnSource::Computed(..) => using.next(),
            ColumnSource::Added(value) => {
                let value = match value {
                    Some(value) => ScalarValue::try_from_array(value, 0)?,
                    None => ScalarValue::try_from(column.field.data_type())?,
                };
                Some(Expr::Literal(value, None))
            }
        };
        values.extend(value.map(|value| value.alias(format!("value {}", number + 1))));
    }
    let plan = LogicalPlanBuilder::scan(table, provider_as_source(rows), None)?;
    Ok(plan.project(values)?.build()?)
}
