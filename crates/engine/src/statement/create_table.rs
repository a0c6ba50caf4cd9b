//! `CREATE TABLE`, with a column list and with `AS`.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Expr;
use futures::StreamExt;
use halocline_columns::{TableEncoding, TableProperties, create_table, set_default};

use super::defaults::default_of;
use super::drop::drop_table;
use super::kept_indexes::KeptIndexes;
use crate::EngineError;
use crate::storable::{storable_schema, to_schema};
use crate::transaction::Transaction;
use crate::write::TableWriteTask;

/// A table to be made.
#[derive(Debug, Clone)]
pub(crate) struct TableSpec {
    /// Its name.
    pub(crate) name: String,
    /// Do nothing if there is one.
    pub(crate) if_not_exists: bool,
    /// Replace the one there is.
    pub(crate) or_replace: bool,
    /// Columns whose order its rows are kept in.
    pub(crate) cluster: Option<Vec<String>>,
    /// How its values are stored.
    pub(crate) encoding: TableEncoding,
}

impl TableSpec {
    /// Whether the table is to be made; false if there is one and that is enough.
    ///
    /// # Errors
    /// There is one, and it is not to be replaced.
    pub(crate) fn is_needed(&self, transaction: &mut Transaction) -> Result<bool, EngineError> {
        if !transaction.catalog().has_table(&self.name) || self.or_replace {
            return Ok(true);
        }
        if self.if_not_exists {
            return Ok(false);
        }
        Err(EngineError::Exists {
            kind: "table",
            name: self.name.clone(),
            instead: "drop it first, choose another name, or use CREATE OR REPLACE TABLE",
        })
    }

    /// What to say when it is not needed.
    pub(crate) fn is_there(&self) -> String {
        format!("table {} is there already", self.name)
    }

    /// Makes the table without rows, in place of the one there is; gives the indexes of that one, which
    /// [`rebuild`](KeptIndexes::rebuild) makes again.
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

    /// Sets the defaults of the columns of the table, once it is made.
    ///
    /// # Errors
    /// One is none that its column can have.
    pub(crate) fn set_defaults(
        &self,
        transaction: &mut Transaction,
        schema: &Schema,
        defaults: &[Option<Expr>],
    ) -> Result<(), EngineError> {
        for (field, default) in schema.fields().iter().zip(defaults) {
            if let Some(expr) = default {
                let value = default_of(&self.name, field, expr)?;
                set_default(transaction.txn(), &self.name, field.name(), Some(&value))?;
            }
        }
        transaction.changed([]);
        Ok(())
    }

    /// Makes the table and runs the rows into it; gives their number, and the indexes of the table that was there.
    ///
    /// # Errors
    /// The query fails, or the table cannot be written.
    pub(crate) async fn fill(
        &self,
        transaction: &mut Transaction,
        mut rows: SendableRecordBatchStream,
    ) -> Result<(u64, KeptIndexes), EngineError> {
        let schema = nullable(&storable_schema(&rows.schema()));
        let kept = self.make(transaction, &schema)?;
        let share = transaction.engine().writer_share();
        let writing = TableWriteTask::start(transaction.txn(), &self.name, share);
        let fed = feed(&mut rows, &schema, &writing).await;
        let stats = writing.finish(fed).await?;
        transaction.changed([]);
        Ok((stats.rows, kept))
    }
}

/// Sends all rows to the writer, or until the writer has failed, which it will tell itself.
async fn feed(
    rows: &mut SendableRecordBatchStream,
    schema: &SchemaRef,
    writing: &TableWriteTask,
) -> Result<(), EngineError> {
    while let Some(batch) = rows.next().await {
        let batch = to_schema(&batch?, schema).map_err(|e| EngineError::Query(e.to_string()))?;
        if !writing.send(batch).await {
            break;
        }
    }
    Ok(())
}

/// Every column may be NULL: a query does not promise otherwise for later rows.
fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema
        .fields()
        .iter()
        .map(|field| Field::clone(field).with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
