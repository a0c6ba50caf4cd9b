//! `DELETE` and `UPDATE`: a query finds the addresses of the rows (and their new values), which then are deleted (and
//! inserted again).

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Expr;
use futures::StreamExt;
use roaring::RoaringBitmap;

use super::parse::{Delete, Update};
use crate::EngineError;
use crate::catalog::{ADDRESSED, OpenTable};
use crate::delta::Change;
use crate::plan::ADDRESS;
use crate::rules::Mistake;
use crate::transaction::Transaction;
use crate::write::{Fit, Stored, inserts, is_default, store};

/// The query for the addresses of the rows that a DELETE means.
pub(crate) fn deleted_rows(delete: &Delete) -> String {
    addresses(&delete.table, &delete.alias, "", delete.selection.as_ref())
}

/// The query for the addresses of the rows that an UPDATE means, and their new values; and which column of it each column
/// of the table comes from, none if it takes its default.
///
/// # Errors
/// A column that the table does not have.
pub(crate) fn updated_rows(
    update: &Update,
    open: &OpenTable,
) -> Result<(String, Vec<Option<usize>>), EngineError> {
    let schema = open.table.schema();
    for (column, _) in &update.assignments {
        if schema.index_of(column).is_err() {
            return Err(EngineError::no_column(&update.table, schema, column));
        }
    }
    let (mut values, mut from, mut number) = (String::new(), Vec::new(), 0);
    for field in schema.fields() {
        let assigned = update
            .assignments
            .iter()
            .find(|(column, _)| column == field.name());
        let value = match assigned {
            Some((_, expr)) if is_default(expr) => {
                from.push(None);
                continue;
            }
            Some((_, expr)) => format!("({expr})"),
            None => format!("{}.{}", quoted(&update.alias), quoted(field.name())),
        };
        number += 1;
        from.push(Some(number));
        values += &format!(", {value} AS {}", quoted(&format!("value {number}")));
    }
    let query = addresses(&update.table, &update.alias, &values, update.selection.as_ref());
    Ok((query, from))
}

fn addresses(table: &str, alias: &str, values: &str, selection: Option<&Expr>) -> String {
    let (source, alias) = (quoted(&format!("{ADDRESSED}{table}")), quoted(alias));
    let filter = selection.map(|expr| format!(" WHERE {expr}")).unwrap_or_default();
    format!(
        "SELECT {alias}.{}{values} FROM {source} AS {alias}{filter}",
        quoted(ADDRESS)
    )
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An error about such a query, without the column that nobody has asked for.
pub(crate) fn without_address(error: EngineError, alias: &str) -> EngineError {
    match error {
        EngineError::Query(text) => {
            let bare = text
                .replace(&format!(", {alias}.\"{ADDRESS}\""), "")
                .replace(&format!(", {}.\"{ADDRESS}\"", quoted(alias)), "");
            EngineError::Query(bare)
        }
        other => other,
    }
}

/// Deletes the rows that a query gives the addresses of; gives their number.
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

/// Deletes all rows of a table; gives their number.
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
        changes.push(Change::Delete(segment.id(), rows));
    }
    if let Some(delta) = &open.delta {
        let mut rows = RoaringBitmap::new();
        rows.insert_range(0..delta.rows() as u32);
        changes.push(Change::DeleteAdded(rows - delta.gone()));
    }
    let count = open.live_rows();
    transaction.apply(open, changes, count)?;
    Ok(count)
}

/// Deletes the rows that a query gives the addresses of, and inserts the values it gives with them, `from` its columns;
/// gives their number.
///
/// # Errors
/// The query fails, or a value does not fit.
pub(crate) async fn update_rows(
    transaction: &mut Transaction,
    open: &OpenTable,
    from: Vec<Option<usize>>,
    rows: SendableRecordBatchStream,
) -> Result<u64, EngineError> {
    let mut gone = Addresses::default();
    let fit = Fit::new(format!("UPDATE {}", open.table.name()), open.table.schema(), from)
        .with_defaults(&open.table);
    let stored = store(transaction, open, fit, rows, |batch| gone.add(batch)).await?;
    let count = gone.count;
    let mut changes = gone.into_deletions(open);
    if transaction.shared().rules.broken(Mistake::HalfUpdate) {
        changes.clear();
    }
    if let Stored::Few(batches, _) = stored {
        changes.extend(inserts(batches));
    }
    transaction.apply(open, changes, count)?;
    Ok(count)
}

/// Addresses of rows, by their place: a segment by its position, or behind all segments the delta.
#[derive(Default)]
struct Addresses {
    places: BTreeMap<usize, RoaringBitmap>,
    count: u64,
}

impl Addresses {
    /// Takes in the first column of a batch.
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

    fn into_deletions(self, open: &OpenTable) -> Vec<Change> {
        let segments = open.table.segments();
        let change = |(place, rows): (usize, RoaringBitmap)| match segments.get(place) {
            Some(segment) => Change::Delete(segment.id(), rows),
            None => Change::DeleteAdded(rows),
        };
        self.places.into_iter().map(change).collect()
    }
}
