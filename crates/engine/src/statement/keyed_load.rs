//! Many rows into a new table with a primary key, or in place of one without rows.
//!
//! The rows are loaded into a store that nobody finds until all of them are there: a statement that fails or
//! is interrupted leaves nothing. It takes the memory of a table writer, however many rows there are; those
//! that do not come in the order of the key are sorted in a temporary file.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Query;
use futures::StreamExt;
use halocline_catalog::context::EngineContext;
use halocline_catalog::memory::WriterShare;
use halocline_catalog::write::{BatchFitter, BatchTask, QueuedBatches};
use halocline_import::TemporaryFiles;
use halocline_keyed::{KeyedLoad, KeyedTable, KeyedTables, TableDefinition, UnpublishedTable};
use halocline_sql::EngineError;
use halocline_store::{LoadOptions, StoreTransaction};

use super::keyed_rows::KeyedTarget;
use super::row_errors::{KeyedRowErrors, RowNames};
use super::run::StatementRun;
use super::table_changes::{Insert, InsertSource, OnConflict};

/// Most bytes of DRAM of a load: more makes no merge faster.
const MAX_MEMORY: usize = 256 << 20;

/// A table that is being loaded.
pub(super) struct TableLoad {
    load: KeyedLoad,
    fitter: BatchFitter,
    statement: String,
    /// The memory of the load, and of batches on their way to it.
    share: WriterShare,
}

impl TableLoad {
    /// Begins to load a table. `fitter` brings batches into its columns.
    ///
    /// # Errors
    /// The stores cannot be written.
    pub(super) fn begin(
        engine: &EngineContext,
        tables: &KeyedTables,
        definition: TableDefinition,
        (statement, fitter): (String, BatchFitter),
        share: WriterShare,
    ) -> Result<Self, EngineError> {
        let files = Arc::clone(&engine.spill_files);
        let memory = share.options.memory.min(MAX_MEMORY);
        let options = LoadOptions::new(memory, Arc::new(move || files.file()));
        Ok(Self {
            load: tables.load(definition, options)?,
            fitter,
            statement,
            share,
        })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// A value does not fit; a key is NULL or there already; a row is too long; the pool or a temporary file
    /// cannot be written.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<(), EngineError> {
        let table = Arc::clone(self.load.table());
        let (errors, names) = (self.errors(&table), RowNames::From(self.load.rows() + 1));
        let batch = errors.fit(&mut self.fitter, batch, names)?;
        let added = self.load.add(&batch);
        added.map_err(|error| errors.of_encoding(&batch, names, error))
    }

    fn errors<'a>(&self, table: &'a KeyedTable) -> KeyedRowErrors<'a> {
        KeyedRowErrors::new(table, self.statement.as_str())
    }

    /// Returns the number of rows so far.
    pub(super) fn rows(&self) -> u64 {
        self.load.rows()
    }

    /// Completes the table, which can be published then. Returns it with the number of rows.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn finish(self, cancel: &AtomicBool) -> Result<(UnpublishedTable, u64), EngineError> {
        let table = Arc::clone(self.load.table());
        let (errors, rows) = (self.errors(&table), self.rows());
        let finished = self.load.finish(cancel);
        Ok((finished.map_err(|error| errors.of_load(error))?, rows))
    }
}

/// Loads the rows of a query on a thread of its own. Returns the table, which is not published yet, and the
/// number of its rows. `first` are the batches that the query has returned so far.
///
/// # Errors
/// Those of the query, and of [`TableLoad`].
pub(super) async fn load_rows(
    load: TableLoad,
    first: Vec<RecordBatch>,
    mut rows: SendableRecordBatchStream,
    cancel: Arc<AtomicBool>,
) -> Result<(UnpublishedTable, u64), EngineError> {
    let load_queue = load.share.queue;
    let work = move |mut batches: QueuedBatches| {
        let mut load = load;
        while let Some(batch) = batches.next_batch() {
            load.add(&batch)?;
        }
        batches.complete()?;
        load.finish(&cancel)
    };
    let loading = BatchTask::start("the load", load_queue, work);
    let mut fed = Ok(());
    for batch in first {
        loading.send(batch).await;
    }
    while let Some(batch) = rows.next().await {
        match batch {
            Ok(batch) => {
                if !loading.send(batch).await {
                    break;
                }
            }
            Err(error) => {
                fed = Err(error.into());
                break;
            }
        }
    }
    loading.finish(fed).await
}

/// The rows of a query for a table without rows.
pub(super) enum QueriedRows {
    /// Few rows, fitted to the table, which are not written yet.
    Few(Vec<RecordBatch>),
    /// Number of rows of the table that has taken its place.
    Loaded(u64),
}

/// Returns the query of an `INSERT` whose rows can be loaded: no row that is there matters.
pub(super) fn query_to_load(insert: &Insert) -> Option<&Query> {
    match (&insert.source, &insert.on_conflict) {
        (InsertSource::Query(query), OnConflict::Fail) => Some(query),
        _ => None,
    }
}

/// Returns true if a table has no rows now. Whoever publishes rows in its place looks again.
///
/// # Errors
/// The store cannot be read.
pub(super) fn is_empty(table: &KeyedTable) -> Result<bool, EngineError> {
    let first = table.store().scan::<&[u8]>(..).with_limit(1).next();
    Ok(first.transpose()?.is_none())
}

impl StatementRun<'_> {
    /// Runs the query of an `INSERT` into a table without rows. If it returns many, they are loaded, and
    /// `transaction` is committed, in which the query is run.
    ///
    /// # Errors
    /// The query fails; a row does not fit; the table is changed meanwhile.
    pub(super) async fn load_query(
        &self,
        tables: &Arc<KeyedTables>,
        target: KeyedTarget<'_>,
        (query, columns): (&Query, &[String]),
        transaction: &Arc<Mutex<StoreTransaction>>,
    ) -> Result<QueriedRows, EngineError> {
        // Reserved before the query starts, which might otherwise take all of the memory.
        let share = self.engine.writer_share();
        let (mut rows, mut fit) = target.query(query, columns).await?;
        let statement = format!("INSERT INTO {}", target.table.name());
        let (mut first, mut count) = (Vec::new(), 0);
        while count <= self.engine.tuning.small_rows {
            let Some(batch) = rows.next().await else {
                let errors = KeyedRowErrors::new(target.table, statement);
                let fitted = first.iter().map(|batch| {
                    let names = RowNames::From(fit.rows() + 1);
                    errors.fit(&mut fit, batch, names)
                });
                return fitted.collect::<Result<_, _>>().map(QueriedRows::Few);
            };
            let batch: RecordBatch = batch?;
            count += batch.num_rows() as u64;
            first.push(batch);
        }
        let definition = target.table.definition().clone();
        let (of, fitting) = (Arc::clone(tables), (statement, fit));
        let load = self
            .blocking(move |_, engine| TableLoad::begin(engine, &of, definition, fitting, share))
            .await?;
        let (loaded, count) = load_rows(load, first, rows, self.cancel_flag()).await?;
        let (tables, empty) = (Arc::clone(tables), Arc::clone(target.table));
        let transaction = Arc::clone(transaction);
        self.blocking(move |_, _| {
            let mut held = transaction.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = std::mem::replace(&mut *held, tables.stores().begin());
            tables.publish_in_place_of(loaded, &empty, transaction)?;
            Ok(QueriedRows::Loaded(count))
        })
        .await
    }
}
