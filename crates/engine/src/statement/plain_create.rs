//! `CREATE TABLE` of tables without a primary key, with a list of columns and with `AS`.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Expr;
use futures::StreamExt;
use halocline_catalog::transaction::Transaction;
use halocline_catalog::write::{RowRules, TableWriteTask};
use halocline_columns::{TableProperties, TableRule, create_table, set_default, set_rules};
use halocline_sql::EngineError;
use halocline_sql::names::stored_schema;
use halocline_sql::table_spec::TableSpec;
use halocline_values::storable::{storable_schema, to_schema};

use super::defaults::default_of;
use super::kept_indexes::KeptIndexes;
use super::plain_drop::drop_table;
use super::table_kind::taken_by_view;

/// Returns true if the table must be created, and false if an existing one suffices.
///
/// # Errors
/// The table exists and must not be replaced; a view has its name.
pub(crate) fn is_needed(spec: &TableSpec, transaction: &mut Transaction) -> Result<bool, EngineError> {
    let catalog = transaction.catalog();
    if !catalog.has_table(&spec.name) {
        return if catalog.has_view(&spec.name) {
            Err(taken_by_view(&spec.name))
        } else {
            Ok(true)
        };
    }
    if spec.or_replace {
        return Ok(true);
    }
    if spec.if_not_exists {
        return Ok(false);
    }
    Err(spec.exists())
}

/// Creates the table without rows in place of an existing one. Returns the indexes of that table, which
/// [`rebuild`](KeptIndexes::rebuild) builds again.
///
/// # Errors
/// A column cannot be stored, or its name stands twice; a clustering column is none.
pub(crate) fn make(
    spec: &TableSpec,
    transaction: &mut Transaction,
    schema: &Schema,
) -> Result<KeptIndexes, EngineError> {
    let mut kept = KeptIndexes::default();
    if transaction.catalog().has_table(&spec.name) {
        kept = KeptIndexes::read(transaction, &spec.name);
        drop_table(transaction, &spec.name)?;
    }
    let properties = TableProperties {
        cluster: spec.cluster.clone(),
        encoding: spec.encoding,
    };
    create_table(
        transaction.txn(),
        &spec.name,
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
    spec: &TableSpec,
    transaction: &mut Transaction,
    schema: &Schema,
    defaults: &[Option<Expr>],
    zone: Option<Tz>,
) -> Result<(), EngineError> {
    for (field, default) in schema.fields().iter().zip(defaults) {
        if let Some(expr) = default {
            let value = default_of(&spec.name, field, expr, zone)?;
            set_default(transaction.txn(), &spec.name, field.name(), Some(&value))?;
        }
    }
    transaction.changed([]);
    Ok(())
}

/// Sets the rules that the rows obey once the table is created.
///
/// # Errors
/// A condition cannot be planned.
pub(crate) fn set_row_rules(
    spec: &TableSpec,
    transaction: &mut Transaction,
    rules: &[TableRule],
) -> Result<(), EngineError> {
    if !rules.is_empty() {
        let open = transaction.catalog().objects().table(&spec.name)?;
        RowRules::plan(&spec.name, open.table.schema(), rules)?;
        set_rules(transaction.txn(), &spec.name, rules)?;
        transaction.changed([]);
    }
    Ok(())
}

/// Creates the table and writes the rows to it. Returns their number, and the indexes of the table that
/// it replaces.
///
/// # Errors
/// The query fails, or the table cannot be written.
pub(crate) async fn fill(
    spec: &TableSpec,
    transaction: &mut Transaction,
    mut rows: SendableRecordBatchStream,
) -> Result<(u64, KeptIndexes), EngineError> {
    let schema = nullable(&storable_schema(&stored_schema(rows.schema())));
    let kept = make(spec, transaction, &schema)?;
    let share = transaction.engine().writer_share();
    let writing = TableWriteTask::start(transaction.txn(), &spec.name, share);
    let fed = feed(&mut rows, &schema, &writing).await;
    let stats = writing.finish(fed).await?;
    transaction.changed([]);
    Ok((stats.rows, kept))
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
