//! `DELETE` and `UPDATE`: a query returns the addresses of the rows (and their new values), which are then
//! deleted (and inserted again).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::UInt64Type;
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::utils::{find_aggregate_exprs, find_window_exprs};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use halocline_catalog::OpenTable;
use halocline_catalog::delta::TableChange;
use halocline_catalog::transaction::Transaction;
use halocline_catalog::tuning::EngineFault;
use halocline_catalog::write::{BatchFitter, StoredRows, WrittenTable, inserts, store};
use halocline_scan::plan::{ADDRESS, PoolTable};
use halocline_sql::EngineError;
use halocline_sql::parse::is_default;
use roaring::RoaringBitmap;

use super::table_changes::{Delete, Update};
use crate::session::StatementPlanner;

/// A table whose rows a statement changes.
pub(crate) struct ChangedTable<'a> {
    /// Its columns.
    pub(crate) columns: &'a dyn WrittenTable,
    /// Its rows: the columns of the table, then [`ADDRESS`].
    pub(crate) rows: Arc<dyn TableProvider>,
}

impl<'a> ChangedTable<'a> {
    /// Returns a table of the pool.
    pub(crate) fn of_pool(open: &'a Arc<OpenTable>) -> Self {
        Self {
            columns: &open.table,
            rows: Arc::new(PoolTable::with_addresses(Arc::clone(open))),
        }
    }
}

/// Plans the query for the addresses of the rows that a DELETE selects.
///
/// # Errors
/// The condition cannot be planned.
pub(crate) async fn plan_delete(
    planner: &StatementPlanner,
    table: ChangedTable<'_>,
    delete: &Delete,
) -> Result<LogicalPlan, EngineError> {
    plan_rows(planner, table, &delete.alias, &[], delete.selection.as_ref()).await
}

/// Plans the query for the addresses of the rows that an UPDATE selects and for their new values. Returns
/// with it, for each column of the table, the column of the query that has its values; `None` where it takes
/// its default.
///
/// # Errors
/// The table lacks a column; an expression cannot be planned.
pub(crate) async fn plan_update(
    planner: &StatementPlanner,
    table: ChangedTable<'_>,
    update: &Update,
) -> Result<(LogicalPlan, Vec<Option<usize>>), EngineError> {
    let schema = table.columns.schema();
    for (column, _) in &update.assignments {
        if schema.index_of(column).is_err() {
            return Err(EngineError::no_column(&update.table, schema, column));
        }
    }
    let (mut values, mut from) = (Vec::new(), Vec::new());
    for field in schema.fields() {
        let mut assignments = update.assignments.iter();
        let value = match assignments.find(|(column, _)| column == field.name()) {
            Some((_, expr)) if is_default(expr) => {
                from.push(None);
                continue;
            }
            Some((_, expr)) => NewValue::Assigned(expr),
            None => NewValue::Unchanged(field.name()),
        };
        values.push(value);
        from.push(Some(values.len()));
    }
    let plan = plan_rows(planner, table, &update.alias, &values, update.selection.as_ref()).await?;
    Ok((plan, from))
}

/// The new value of a column.
enum NewValue<'a> {
    Assigned(&'a ast::Expr),
    /// The value of the column of this name.
    Unchanged(&'a str),
}

/// Plans the query for the addresses of the rows for which `selection` is true, followed by `values`.
async fn plan_rows(
    planner: &StatementPlanner,
    changed: ChangedTable<'_>,
    alias: &str,
    values: &[NewValue<'_>],
    selection: Option<&ast::Expr>,
) -> Result<LogicalPlan, EngineError> {
    let table = TableReference::bare(alias);
    // Without the column of addresses, which expressions must neither see nor name in an error.
    let schema = DFSchema::try_from_qualified_schema(table.clone(), changed.columns.schema())?;
    let assigned = values.iter().filter_map(|value| match value {
        NewValue::Assigned(expr) => Some(*expr),
        NewValue::Unchanged(_) => None,
    });
    let expressions = selection.into_iter().chain(assigned).cloned().collect();
    let expressions = planner.expressions(expressions, &schema).await?;
    if let Some(aggregate) = find_aggregate_exprs(&expressions).first() {
        let text =
            format!("{aggregate} aggregates several rows; compute it in a subquery: (SELECT … FROM …)");
        return Err(EngineError::Query(text));
    }
    let mut expressions = expressions.into_iter();
    let source = provider_as_source(changed.rows);
    let mut rows = LogicalPlanBuilder::scan(table.clone(), source, None)?;
    if let Some(condition) = selection.and_then(|_| expressions.next()) {
        rows = rows.filter(condition)?;
    }
    let column = |name: &str| Expr::Column(Column::new(Some(table.clone()), name));
    let mut columns = vec![column(ADDRESS)];
    for (number, value) in values.iter().enumerate() {
        let value = match value {
            NewValue::Unchanged(name) => Some(column(name)),
            NewValue::Assigned(_) => expressions.next(),
        };
        columns.extend(value.map(|value| value.alias(format!("value {}", number + 1))));
    }
    let windows = find_window_exprs(&columns);
    if !windows.is_empty() {
        rows = LogicalPlanBuilder::from(LogicalPlanBuilder::window_plan(rows.build()?, windows)?);
    }
    Ok(rows.project(columns)?.build()?)
}

/// Deletes the rows whose addresses a query returns, and returns their number.
///
/// # Errors
/// The query fails.
pub(crate) async fn delete_rows(
    transaction: &mut Transaction,
    open: &OpenTable,
    mut rows: SendableRecordBatchStream,
) -> Result<u64, EngineError> {
    let mut gone = Addresses::default();
    while let Some(batch) = rows.next().await {
        gone.add(&batch?)?;
    }
    let count = gone.count;
    transaction.apply(open, gone.into_deletions(open), count)?;
    Ok(count)
}

/// Deletes all rows of a table, and returns their number.
///
/// # Errors
/// The deleted rows of a segment cannot be read.
pub(crate) fn delete_all(transaction: &mut Transaction, open: &OpenTable) -> Result<u64, EngineError> {
    let mut changes = Vec::new();
    for segment in open.table.segments() {
        let mut rows = RoaringBitmap::new();
        rows.insert_range(0..segment.rows() as u32);
        if let Some(deleted) = segment.deletions()? {
            rows -= deleted;
        }
        changes.push(TableChange::Delete(segment.id(), rows));
    }
    if let Some(delta) = &open.delta {
        let mut rows = RoaringBitmap::new();
        rows.insert_range(0..delta.rows() as u32);
        changes.push(TableChange::DeleteAdded(rows - delta.gone()));
    }
    let count = open.live_rows();
    transaction.apply(open, changes, count)?;
    Ok(count)
}

/// Deletes the rows whose addresses a query returns, and inserts the new values from the columns `from` of
/// the query. Timestamps without time zone are read in `zone`; none is UTC. Returns the number of rows.
///
/// # Errors
/// The query fails, or a value does not fit.
pub(crate) async fn update_rows(
    transaction: &mut Transaction,
    open: &OpenTable,
    from: Vec<Option<usize>>,
    rows: SendableRecordBatchStream,
    zone: Option<Tz>,
) -> Result<u64, EngineError> {
    let mut gone = Addresses::default();
    let fit = BatchFitter::new(format!("UPDATE {}", open.table.name()), open.table.schema(), from)
        .with_defaults(&open.table)
        .in_zone(zone);
    let stored = store(transaction, open, fit, rows, |batch| gone.add(batch)).await?;
    let count = gone.count;
    let mut changes = gone.into_deletions(open);
    if transaction.engine().tuning.injected(EngineFault::HalfUpdate) {
        changes.clear();
    }
    if let StoredRows::Few(batches, _) = stored {
        changes.extend(inserts(batches));
    }
    transaction.apply(open, changes, count)?;
    Ok(count)
}

/// Addresses of rows by segment, given by position; the position after the last segment stands for the
/// delta.
#[derive(Default)]
struct Addresses {
    places: BTreeMap<usize, RoaringBitmap>,
    count: u64,
}

impl Addresses {
    /// Adds the addresses in the first column of a batch.
    fn add(&mut self, batch: &RecordBatch) -> Result<(), EngineError> {
        for address in batch.column(0).as_primitive::<UInt64Type>().values() {
            let rows = self.places.entry((address >> 32) as usize).or_default();
            if !rows.insert(*address as u32) {
                let text = "a row has several new values; let each subquery give one value, by an aggregate";
                return Err(EngineError::Query(text.into()));
            }
            self.count += 1;
        }
        Ok(())
    }

    fn into_deletions(self, open: &OpenTable) -> Vec<TableChange> {
        let segments = open.table.segments();
        let change = |(place, rows): (usize, RoaringBitmap)| match segments.get(place) {
            Some(segment) => TableChange::Delete(segment.id(), rows),
            None => TableChange::DeleteAdded(rows),
        };
        self.places.into_iter().map(change).collect()
    }
}
