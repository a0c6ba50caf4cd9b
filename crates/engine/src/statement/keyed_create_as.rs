//! `CREATE TABLE … PRIMARY KEY … AS`.
//!
//! The rows are written to the store of a table that nobody finds until all of them are there: a statement
//! that fails or is interrupted leaves no table.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::timezone::Tz;
use arrow_schema::{Schema, SchemaRef};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{self, Query};
use futures::StreamExt;
use halocline_keyed::{KeyedError, KeyedTables, UnpublishedTable};
use halocline_store::WriteBatch;

use super::create_table::{TableSpec, nullable};
use super::keyed_changes::ONE_ROW;
use super::keyed_tables::define;
use super::parse::KeyedColumns;
use super::row_errors::{KeyedRowErrors, RowNames};
use super::run::StatementRun;
use crate::EngineError;
use crate::names::stored_schema;
use crate::storable::storable_schema;
use crate::write::BatchFitter;

/// Bytes of rows that are made durable together.
const WRITE_BYTES: usize = 4 << 20;

impl StatementRun<'_> {
    /// Creates a table with a primary key and the rows of a query.
    pub(super) async fn create_keyed_as(
        &self,
        spec: TableSpec,
        columns: KeyedColumns,
        query: Box<Query>,
    ) -> Result<String, EngineError> {
        self.session.slot().must_be_idle("CREATE TABLE … PRIMARY KEY")?;
        if self.session.peek(self.engine)?.has_table(&spec.name) {
            return self.name_is_taken(&spec);
        }
        let tables = self.blocking(|_, engine| engine.stores.tables()).await?;
        match tables.table(&spec.name) {
            Some(_) if spec.if_not_exists => return Ok(spec.is_there()),
            Some(_) if !spec.or_replace => return Err(spec.exists()),
            _ => {}
        }
        let (catalog, view) = self.session.versions(self.engine, None)?;
        let query = Parsed::Statement(Box::new(ast::Statement::Query(query)));
        let mut rows = self.session.rows(&catalog, view, query).await?;
        let schema = columns_of(&spec, &columns, &stored_schema(rows.schema()))?;
        let definition = define(
            &spec,
            &schema,
            (&columns.defaults, self.session.time_zone()),
            &columns.key,
        )?;
        let mut filling = self
            .blocking(move |session, _| {
                let filling = Filling::new(&tables, tables.prepare(definition)?);
                Ok(filling.in_zone(session.time_zone()))
            })
            .await?;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            filling = self
                .blocking(move |_, _| filling.add(&batch).map(|()| filling))
                .await?;
        }
        self.blocking(move |_, _| filling.publish(&spec)).await
    }
}

/// Returns the columns of the table: those listed, else those of the query.
fn columns_of(spec: &TableSpec, listed: &KeyedColumns, rows: &Schema) -> Result<SchemaRef, EngineError> {
    let Some(schema) = &listed.schema else {
        return Ok(nullable(&storable_schema(rows)));
    };
    let (listed, found) = (schema.fields().len(), rows.fields().len());
    match listed == found {
        true => Ok(Arc::clone(schema)),
        false => Err(EngineError::Query(format!(
            "CREATE TABLE {}: the query has {found} columns, but {listed} are listed; list all in their order, or only \
             PRIMARY KEY (…)",
            spec.name
        ))),
    }
}

/// A table that is being filled.
struct Filling {
    tables: Arc<KeyedTables>,
    table: UnpublishedTable,
    fitter: BatchFitter,
    statement: String,
    rows: u64,
}

impl Filling {
    fn new(tables: &Arc<KeyedTables>, table: UnpublishedTable) -> Self {
        let schema = table.table().schema();
        let statement = format!("CREATE TABLE {}", table.table().name());
        let all = (0..schema.fields().len()).map(Some).collect();
        Self {
            tables: Arc::clone(tables),
            fitter: BatchFitter::new(statement.as_str(), schema, all),
            table,
            statement,
            rows: 0,
        }
    }

    /// Reads timestamps without time zone in `zone` instead of UTC.
    fn in_zone(self, zone: Option<Tz>) -> Self {
        Self {
            fitter: self.fitter.in_zone(zone),
            ..self
        }
    }

    /// Adds rows of the query.
    ///
    /// # Errors
    /// A value does not fit; a key is NULL or there already; a row is too long; the store cannot be written.
    fn add(&mut self, batch: &RecordBatch) -> Result<(), EngineError> {
        let (table, names) = (self.table.table(), RowNames::From(self.rows + 1));
        let errors = KeyedRowErrors::new(table, self.statement.as_str());
        let batch = errors.fit(&mut self.fitter, batch, names)?;
        let (mut writes, mut keys, mut bytes) = (WriteBatch::new(), BTreeSet::new(), 0);
        for (at, row) in errors.encode(&batch, names)?.into_iter().enumerate() {
            if keys.contains(&row.key) || table.store().contains_key(&row.key)? {
                return Err(errors.duplicate(&batch, at, names, ONE_ROW));
            }
            writes.put(table.store(), &row.key, &row.value)?;
            bytes += row.key.len() + row.value.len();
            keys.insert(row.key);
            if bytes >= WRITE_BYTES {
                self.tables.stores().write(std::mem::take(&mut writes))?;
                keys.clear();
                bytes = 0;
            }
        }
        self.tables.stores().write(writes)?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Makes it a table of the pool, and returns a message.
    ///
    /// # Errors
    /// There is one of this name that must not be replaced; the stores cannot be written.
    fn publish(self, spec: &TableSpec) -> Result<String, EngineError> {
        match self.tables.publish(self.table, spec.or_replace) {
            Ok(_) => Ok(format!("table {}: {} rows", spec.name, self.rows)),
            Err(KeyedError::Exists { .. }) if spec.if_not_exists => Ok(spec.is_there()),
            Err(KeyedError::Exists { .. }) => Err(spec.exists()),
            Err(error) => Err(error.into()),
        }
    }
}
