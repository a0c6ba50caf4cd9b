//! `CREATE TABLE`, with a column list and with `AS`.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Expr;
use futures::StreamExt;
use halocline_columns::{TableEncoding, TableProperties, create_table, set_default};

use super::defaults::default_of;
use super::drop::drop_table;
use super::kept_indexes::KeptIndexes;
use crate::EngineError;
use crate::names::stored_schema;
use crate::storable::{storable_schema, to_schema};
use crate::transaction::Transaction;
use crate::write::TableWriteTask;

/// The definition of a table to create.
#[derive(Debug, Clone)]
pub(crate) struct TableSpec {
    /// Its name.
    pub(crate) name: String,
    /// Do nothing if the table exists.
    pub(crate) if_not_exists: bool,
    /// Replace an existing table.
    pub(crate) or_replace: bool,
    /// Clustering columns.
    pub(crate) cluster: Option<Vec<String>>,
    /// Encoding of its values.
    pub(crate) encoding: TableEncoding,
}

impl TableSpec {
    /// Returns true if the table must be created, and false if an existing one suffices.
    ///
    /// # Errors
    /// The table exists and must not be replaced.
    pub(crate) fn is_needed(&self, transaction: &mut Transaction) -> Result<bool, EngineError> {
        if !transaction.catalog().has_table(&self.name) || self.or_replace {
            return Ok(true);
        }
        if self.if_not_exists {
            return Ok(false);
        }
        Err(self.exists())
    }

    /// Returns the error for an existing table.
    pub(crate) fn exists(&self) -> EngineError {
        EngineError::Exists {
            kind: "table",
            name: self.name.clone(),
            instead: "drop it first, choose another name, or use CREATE OR REPLACE TABLE",
        }
    }

    /// Returns the message for an existing table.
    pub(crate) fn is_there(&self) -> String {
        format!("table {} is there already", self.name)
    }

    /// Creates the table without rows in place of an existing one. Returns the indexes of that table, which
    /// [`rebuild`](KeptIndexes::rebuild) builds again.
    ///
    /// # Errors
    /// A column cannot be stored, or its name stands twice; a clustering column is none.
    pub(crate) fn make(
        &self,
        transaction: &mut Transaction,
        schema: &Schema,
    ) -> Result<KeptIndexes, EngineError> {
        let mut kept = KeptIndexes::default();
        if transaction.catalog().has_table(&self.name) {
            kept = KeptIndexes::of(transaction, &self.name);
            drop_table(transaction, &self.name)?;
        }
        let properties = TableProperties {
            cluster: self.cluster.clone(),
            encoding: self.encoding,
        };
        create_table(
            transaction.txn(),
            &self.name,
            &storable_schema(schema),
            &properties,
        )?;
        transaction.changed([]);
        Ok(kept)
    }

    /// Sets the defaults of the columns once the table is created; see [`default_of`].
    ///
    /// # Errors
    /// A default is no value of its column.
    pub(crate) fn set_defaults(
        &self,
        transaction: &mut Transaction,
        schema: &Schema,
        defaults: &[Option<Expr>],
        zone: Option<Tz>,
    ) -> Result<(), EngineError> {
        for (field, default) in schema.fields().iter().zip(defaults) {
            if let Some(expr) = default {
                let value = default_of(&self.name, field, expr, zone)?;
                set_default(transaction.txn(), &self.name, field.name(), Some(&value))?;
            }
        }
        transaction.changed([]);
        Ok(())
    }

    /// Creates the table and writes the rows to it. Returns their number, and the indexes of the table that
    /// it replaces.
    ///
    /// # Errors
    /// The query fails, or the table cannot be written.
    pub(crate) async fn fill(
        &self,
        transaction: &mut Transaction,
        mut rows: SendableRecordBatchStream,
    ) -> Result<(u64, KeptIndexes), EngineError> {
        let schema = nullable(&storable_schema(&stored_schema(rows.schema())));
        let kept = self.make(transaction, &schema)?;
        let share = transaction.engine().writer_share();
        let writing = TableWriteTask::start(transaction.txn(), &self.name, share);
        let fed = feed(&mut rows, &schema, &writing).await;
        let stats = writing.finish(fed).await?;
        transaction.changed([]);
        Ok((stats.rows, kept))
    }
}

/// Sends all rows to the writer, or until the writer has failed; its error is returned when it is finished.
async fn feed(
    rows: &mut SendableRecordBatchStream,
    schema: &SchemaRef,
    writing: &TableWriteTask,
) -> Result<(), EngineError> {
    while let Some(batch) = rows.next().await {
        let batch = to_schema(&batch?, schema)?;
        if !writing.send(batch).await {
            break;
        }
    }
    Ok(())
}

/// Makes every column nullable, because a query does not guarantee the absence of NULL in later rows.
pub(super) fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema
        .fields()
        .iter()
        .map(|field| Field::clone(field).with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
