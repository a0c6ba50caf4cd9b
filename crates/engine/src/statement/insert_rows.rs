//! `INSERT`: a few rows become small changes, many become segments.

use arrow_array::RecordBatch;
use arrow_array::timezone::Tz;
use arrow_schema::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Expr;
use halocline_catalog::delta::TableChange;
use halocline_catalog::transaction::Transaction;
use halocline_catalog::write::{BatchFitter, StoredRows, WrittenTable, arrange, inserts, literals, store};
use halocline_sql::EngineError;

/// Inserts rows of literals into columns of a table (all, if none is named), and returns their number.
/// Timestamps without time zone are read in `zone`, here and below; none is UTC.
///
/// # Errors
/// No such table or column; a value does not fit.
pub(crate) fn insert_literals(
    transaction: &mut Transaction,
    table: &str,
    columns: &[String],
    rows: &[Vec<Expr>],
    zone: Option<Tz>,
) -> Result<u64, EngineError> {
    // The columns of a table are the same with and without its delta.
    let open = transaction.catalog().objects().table(table)?;
    let (batch, mut fitter) = literal_rows(&open.table, columns, rows, zone)?;
    let batch = fitter.batch(&batch)?;
    transaction.apply(&open, vec![TableChange::Insert(batch)], rows.len() as u64)?;
    Ok(rows.len() as u64)
}

/// Returns rows of literals for columns of a table (all, if none is named) as a batch, and what fits it to
/// the table.
///
/// # Errors
/// No such column; a literal is no value of its type.
pub(crate) fn literal_rows(
    table: &dyn WrittenTable,
    columns: &[String],
    rows: &[Vec<Expr>],
    zone: Option<Tz>,
) -> Result<(RecordBatch, BatchFitter), EngineError> {
    let schema = table.schema();
    let statement = format!("INSERT INTO {}", table.name());
    let from = arrange(table.name(), schema, columns)?;
    let columns = from.iter().enumerate();
    let mut given: Vec<(usize, usize)> = columns
        .filter_map(|(column, at)| Some(((*at)?, column)))
        .collect();
    given.sort_unstable();
    let given = || given.iter().map(|(_, column)| *column);
    let fields: Vec<_> = given().map(|column| schema.fields()[column].clone()).collect();
    let defaults: Vec<_> = given().map(|column| table.default_value(column)).collect();
    let batch = literals(&statement, rows, &fields, Some(&defaults), zone)?;
    let fitter = BatchFitter::new(statement, schema, from)
        .with_defaults(table)
        .in_zone(zone);
    Ok((batch, fitter))
}

/// Returns the fitter for the rows of a query that are inserted into columns of a table.
///
/// # Errors
/// No such column; the numbers of columns and of values differ.
pub(crate) fn query_fitter(
    table: &dyn WrittenTable,
    columns: &[String],
    rows: &SchemaRef,
    zone: Option<Tz>,
) -> Result<BatchFitter, EngineError> {
    let from = arrange(table.name(), table.schema(), columns)?;
    check_count(table.name(), &from, rows)?;
    let statement = format!("INSERT INTO {}", table.name());
    let fitter = BatchFitter::new(statement, table.schema(), from);
    Ok(fitter.with_defaults(table).in_zone(zone))
}

/// Inserts a batch by column names; columns of the table that it lacks take their default. Returns the number
/// of rows.
///
/// # Errors
/// No such table or column; a value does not fit.
pub(crate) fn insert_batch(
    transaction: &mut Transaction,
    table: &str,
    batch: &RecordBatch,
    zone: Option<Tz>,
) -> Result<u64, EngineError> {
    let open = transaction.catalog().objects().table(table)?;
    let fitted = named_rows(&open.table, batch, zone)?;
    let rows = fitted.num_rows() as u64;
    transaction.apply(&open, vec![TableChange::Insert(fitted)], rows)?;
    Ok(rows)
}

/// Returns a batch whose columns go by name with the columns and types of a table; columns that it lacks have
/// their default.
///
/// # Errors
/// No such column; a value does not fit.
pub(crate) fn named_rows(
    table: &dyn WrittenTable,
    batch: &RecordBatch,
    zone: Option<Tz>,
) -> Result<RecordBatch, EngineError> {
    let schema = batch.schema();
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let from = if names.is_empty() {
        vec![None; table.schema().fields().len()]
    } else {
        arrange(table.name(), table.schema(), &names)?
    };
    BatchFitter::new(format!("insert into {}", table.name()), table.schema(), from)
        .with_defaults(table)
        .in_zone(zone)
        .batch(batch)
}

/// Inserts the rows of a query, and returns their number.
///
/// # Errors
/// No such table or column; the numbers of columns and of values differ; the query fails; a value does not
/// fit.
pub(crate) async fn insert_rows(
    transaction: &mut Transaction,
    table: &str,
    columns: &[String],
    rows: SendableRecordBatchStream,
    zone: Option<Tz>,
) -> Result<u64, EngineError> {
    let open = transaction.catalog().objects().table(table)?;
    let fit = query_fitter(&open.table, columns, &rows.schema(), zone)?;
    match store(transaction, &open, fit, rows, |_| Ok(())).await? {
        StoredRows::Few(batches, count) => {
            transaction.apply(&open, inserts(batches), count)?;
            Ok(count)
        }
        StoredRows::Many(count) => Ok(count),
    }
}

fn check_count(table: &str, from: &[Option<usize>], rows: &SchemaRef) -> Result<(), EngineError> {
    let (expected, found) = (from.iter().flatten().count(), rows.fields().len());
    if expected == found {
        return Ok(());
    }
    let text = format!(
        "INSERT INTO {table}: the rows have {found} columns instead of {expected}; name the columns they are for"
    );
    Err(EngineError::Query(text))
}
