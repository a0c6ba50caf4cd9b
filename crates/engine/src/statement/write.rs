//! `CREATE TABLE … AS`: the plan's batches stream into a table writer on a thread of its own.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use halocline_columns::{TableOptions, TableStats, TableWriter};
use halocline_pool::{Pool, PoolError, Txn};
use tokio::sync::mpsc;

use crate::EngineError;
use crate::catalog::{CatalogCache, index_object, table_object};
use crate::database::Shared;
use crate::storable::{storable_schema, to_schema};

/// Batches between the query and the writer.
const QUEUE: usize = 4;

/// A table to be made.
#[derive(Debug, Clone)]
pub(crate) struct CreateTable {
    /// Its name.
    pub(crate) name: String,
    /// Indexes of the table it replaces, which go with it.
    pub(crate) replaced_indexes: Vec<String>,
}

/// Takes the writer's lock.
///
/// # Errors
/// Another writer has it; the pool is open for reading only.
pub(crate) fn begin(shared: &Shared, what: &str) -> Result<Txn, EngineError> {
    // A kept snapshot would keep the space that earlier statements freed.
    CatalogCache::forget(&shared.cache);
    match Pool::begin(&shared.pool) {
        Err(PoolError::ReadOnly { .. }) => Err(EngineError::ReadOnly {
            what: what.to_string(),
        }),
        begun => Ok(begun?),
    }
}

/// Runs the stream into a new table and publishes it.
///
/// # Errors
/// The query fails, or the table cannot be written; then nothing has changed.
pub(crate) async fn create_table_as(
    txn: Txn,
    table: CreateTable,
    mut rows: SendableRecordBatchStream,
) -> Result<TableStats, EngineError> {
    let schema = nullable(&storable_schema(&rows.schema()));
    let (sender, receiver) = mpsc::channel::<RecordBatch>(QUEUE);
    let (done, finished) = tokio::sync::oneshot::channel::<()>();
    let to = Arc::clone(&schema);
    let writer = tokio::task::spawn_blocking(move || write(txn, &table, to, receiver, finished));
    let fed = feed(&mut rows, &schema, &sender).await;
    if fed.is_ok() {
        // Without this word the writer takes the end of the batches for a failed query, and publishes nothing.
        let _ = done.send(());
    }
    drop(sender);
    // Also after a failure: the lock is free again when the statement returns.
    let written = writer.await;
    fed?;
    match written {
        Ok(result) => result,
        Err(error) => Err(EngineError::Query(format!("the table writer failed: {error}"))),
    }
}

/// Sends all rows to the writer, or until the writer has failed, which it will tell itself.
async fn feed(
    rows: &mut SendableRecordBatchStream,
    schema: &SchemaRef,
    sender: &mpsc::Sender<RecordBatch>,
) -> Result<(), EngineError> {
    while let Some(batch) = rows.next().await {
        let batch = to_schema(&batch?, schema).map_err(|e| EngineError::Query(e.to_string()))?;
        if sender.send(batch).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn write(
    txn: Txn,
    table: &CreateTable,
    schema: SchemaRef,
    mut batches: mpsc::Receiver<RecordBatch>,
    mut finished: tokio::sync::oneshot::Receiver<()>,
) -> Result<TableStats, EngineError> {
    let mut writer = TableWriter::new(&txn, &table.name, schema, TableOptions::default())?;
    while let Some(batch) = batches.blocking_recv() {
        writer.write(&batch)?;
    }
    if finished.try_recv().is_err() {
        return Err(EngineError::Cancelled);
    }
    let stats = writer.finish()?;
    for index in &table.replaced_indexes {
        txn.remove(&index_object(index))?;
    }
    txn.commit()?;
    Ok(stats)
}

/// Every column may be NULL: a query does not promise otherwise for later rows.
fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema
        .fields()
        .iter()
        .map(|field| Field::clone(field).with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Is there a table of this name in the transaction's state.
pub(crate) fn has_table(txn: &Txn, name: &str) -> bool {
    txn.get(&table_object(name)).is_some()
}
