//! `CREATE TABLE … PRIMARY KEY … AS`.
//!
//! The rows are [loaded](super::keyed_load): a statement that fails or is interrupted leaves no table.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;
use halocline_catalog::context::EngineContext;
use halocline_catalog::write::BatchFitter;
use halocline_keyed::{KeyedError, KeyedTables, UnpublishedTable};
use halocline_sql::EngineError;
use halocline_sql::names::stored_schema;
use halocline_sql::table_spec::TableSpec;
use halocline_values::storable::storable_schema;

use super::keyed_definition::define;
use super::keyed_load::{TableLoad, load_rows};
use super::plain_create::nullable;
use super::run::StatementRun;
use super::table_changes::NewTableAs;
use crate::session::DatabaseSession;

impl StatementRun<'_> {
    /// Creates a table with a primary key and the rows of a query, and returns a message. No table of another
    /// kind has its name, and no transaction is open.
    ///
    /// # Errors
    /// There is a table of this name that must not be replaced; the query fails; a row does not fit.
    pub(super) async fn create_keyed_as(&self, table: NewTableAs) -> Result<String, EngineError> {
        let NewTableAs {
            spec,
            schema: listed,
            defaults,
            key,
            rules,
            query,
        } = table;
        let cancel = self.cancel_flag();
        let open = move |session: &DatabaseSession, engine: &Arc<EngineContext>| {
            engine.stores.tables(session.lock_wait(), &cancel)
        };
        let tables = self.blocking(open).await?;
        match tables.table(&spec.name) {
            Some(_) if spec.if_not_exists => return Ok(spec.is_there()),
            Some(_) if !spec.or_replace => return Err(spec.exists()),
            _ => {}
        }
        // Reserved before the query starts, which might otherwise take all of the memory.
        let share = self.engine.writer_share();
        let (catalog, view) = self.session.versions(self.engine, None)?;
        let query = Parsed::Statement(Box::new(ast::Statement::Query(query)));
        let rows = self.session.rows(&catalog, view, query).await?;
        let schema = columns_of(&spec, listed, &stored_schema(rows.schema()))?;
        let definition = define(
            &spec,
            &schema,
            (&defaults, self.session.time_zone()),
            &key,
            &rules,
        )?;
        let of = Arc::clone(&tables);
        let load = self
            .blocking(move |session, engine| {
                let (statement, schema) =
                    (format!("CREATE TABLE {}", definition.name()), definition.schema());
                let all = (0..schema.fields().len()).map(Some).collect();
                let fitter = BatchFitter::new(statement.as_str(), schema, all)
                    .in_zone(session.time_zone())
                    .with_rules(definition.name(), definition.rules());
                TableLoad::begin(engine, &of, definition, (statement, fitter), share)
            })
            .await?;
        let (loaded, count) = load_rows(load, Vec::new(), rows, self.cancel_flag()).await?;
        self.blocking(move |_, _| publish(&tables, &spec, loaded, count))
            .await
    }
}

/// Makes a loaded table one of the pool, and returns a message.
///
/// # Errors
/// There is one of this name that must not be replaced; the stores cannot be written.
fn publish(
    tables: &KeyedTables,
    spec: &TableSpec,
    loaded: UnpublishedTable,
    rows: u64,
) -> Result<String, EngineError> {
    match tables.publish(loaded, spec.or_replace) {
        Ok(_) => Ok(format!("table {}: {rows} rows", spec.name)),
        Err(KeyedError::Exists { .. }) if spec.if_not_exists => Ok(spec.is_there()),
        Err(KeyedError::Exists { .. }) => Err(spec.exists()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the columns of the table: those listed, else those of the query.
///
/// # Errors
/// As many columns must be listed as the query has.
fn columns_of(spec: &TableSpec, listed: Option<SchemaRef>, rows: &Schema) -> Result<SchemaRef, EngineError> {
    let Some(schema) = listed else {
        return Ok(nullable(&storable_schema(rows)));
    };
    let (listed, found) = (schema.fields().len(), rows.fields().len());
    if listed == found {
        Ok(schema)
    } else {
        Err(EngineError::Query(format!(
            "CREATE TABLE {}: the query has {found} columns, but {listed} are listed; list all in their order, or only \
             PRIMARY KEY (…)",
            spec.name
        )))
    }
}
