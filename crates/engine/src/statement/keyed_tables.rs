//! `CREATE TABLE … PRIMARY KEY`, `ALTER TABLE`, `DROP TABLE` and `TRUNCATE` of tables with a primary key.
//!
//! They take effect at once, and are no part of a transaction.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_schema::{Field, Schema};
use datafusion::sql::sqlparser::ast::Expr;
use halocline_keyed::{KeyedError, KeyedTable, KeyedTables, TableDefinition};
use halocline_sql::EngineError;
use halocline_sql::parse::{Alter, Alteration};
use halocline_sql::table_spec::TableSpec;
use halocline_values::storable::{storable_schema, storable_type};

use super::alter::taken;
use super::defaults::default_of;
use super::run::StatementRun;

impl StatementRun<'_> {
    /// Creates a table with a primary key.
    pub(super) async fn create_keyed(
        &self,
        spec: TableSpec,
        definition: TableDefinition,
    ) -> Result<String, EngineError> {
        self.session.slot().must_be_idle("CREATE TABLE … PRIMARY KEY")?;
        if self.session.peek(self.engine)?.has_table(&spec.name) {
            return self.name_is_taken(&spec);
        }
        let cancel = self.cancel_flag();
        self.blocking(move |session, engine| {
            let tables = engine.stores.tables(session.lock_wait(), &cancel)?;
            create(&tables, &spec, definition)
        })
        .await
    }

    /// Returns the message, or the error, for a table that is there with the other kind of storage, which is
    /// not replaced.
    pub(super) fn name_is_taken(&self, spec: &TableSpec) -> Result<String, EngineError> {
        match (spec.if_not_exists, spec.or_replace) {
            (true, _) => Ok(spec.is_there()),
            (false, true) => Err(EngineError::Exists {
                kind: "table",
                name: spec.name.clone(),
                instead: "it differs in having a primary key: drop it first",
            }),
            (false, false) => Err(spec.exists()),
        }
    }

    /// Changes the definition of a table with a primary key.
    pub(super) async fn alter_keyed(
        &self,
        tables: Arc<KeyedTables>,
        altered: Alter,
    ) -> Result<String, EngineError> {
        self.session
            .slot()
            .must_be_idle("ALTER TABLE of a table with a primary key")?;
        let catalog = self.session.peek(self.engine)?;
        let zone = self.session.time_zone();
        self.blocking(move |_, _| alter(&tables, (&altered, zone), |name| catalog.has_table(name)))
            .await
    }

    /// Divides names into tables with a primary key and others.
    pub(super) async fn split_keyed(&self, names: Vec<String>) -> Result<KeyedAndOthers, EngineError> {
        let (mut keyed, mut others) = (Vec::new(), Vec::new());
        for name in names {
            match self.keyed_table(&name).await? {
                Some((_, table)) => keyed.push(table),
                None => others.push(name),
            }
        }
        Ok((keyed, others))
    }

    /// Takes all rows of tables with a primary key away, and returns their names.
    pub(super) async fn truncate_keyed(
        &self,
        tables: Vec<Arc<KeyedTable>>,
    ) -> Result<Vec<String>, EngineError> {
        if tables.is_empty() {
            return Ok(Vec::new());
        }
        self.session
            .slot()
            .must_be_idle("TRUNCATE of a table with a primary key")?;
        let cancel = self.cancel_flag();
        self.blocking(move |session, engine| {
            let mut names = Vec::new();
            for table in tables {
                let wait = session.lock_wait();
                engine.stores.tables(wait, &cancel)?.truncate(table.name())?;
                names.push(table.name().to_owned());
            }
            Ok(names)
        })
        .await
    }
}

/// Tables with a primary key, and names of others.
type KeyedAndOthers = (Vec<Arc<KeyedTable>>, Vec<String>);

/// Returns the definition of a table with a primary key; its defaults are read in a time zone.
///
/// # Errors
/// A column cannot be stored; the key names no column; a default is no value of its column.
pub(super) fn define(
    spec: &TableSpec,
    schema: &Schema,
    (defaults, zone): (&[Option<Expr>], Option<Tz>),
    key: &[String],
) -> Result<TableDefinition, EngineError> {
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let mut definition = TableDefinition::new(&spec.name, &storable_schema(schema), &key)?;
    for (at, default) in defaults.iter().enumerate() {
        if let Some(expr) = default {
            let value = default_of(&spec.name, definition.schema().field(at), expr, zone)?;
            definition.set_default(at, value);
        }
    }
    Ok(definition)
}

/// Creates a table with a primary key, and returns a message.
///
/// # Errors
/// There is one of this name that must not be replaced; the stores cannot be written.
pub(super) fn create(
    tables: &KeyedTables,
    spec: &TableSpec,
    definition: TableDefinition,
) -> Result<String, EngineError> {
    match (
        tables.table(&spec.name).is_some(),
        spec.or_replace,
        spec.if_not_exists,
    ) {
        (true, false, true) => return Ok(spec.is_there()),
        (true, false, false) => return Err(spec.exists()),
        (true, true, _) | (false, ..) => {}
    }
    tables.publish(tables.prepare(definition)?, spec.or_replace)?;
    Ok(format!("table {}: 0 rows", spec.name))
}

/// Changes the definition of a table, and returns a message.
///
/// # Errors
/// No such column; a name is taken, as `is_taken` tells of tables of other kinds; a default does not fit.
pub(super) fn alter(
    tables: &KeyedTables,
    (alter, zone): (&Alter, Option<Tz>),
    is_taken: impl Fn(&str) -> bool,
) -> Result<String, EngineError> {
    let name = alter.table.as_str();
    let table = tables.table(name).ok_or_else(|| KeyedError::NoTable {
        name: name.to_owned(),
    })?;
    let schema = table.schema();
    match &alter.what {
        Alteration::AddColumn {
            field,
            default,
            if_not_exists,
        } => {
            if schema.index_of(field.name()).is_ok() {
                return match if_not_exists {
                    true => Ok(format!("table {name} has column {} already", field.name())),
                    false => Err(taken("column", field.name())),
                };
            }
            let initial = match default {
                Some(expr) => Some(default_of(name, field, expr, zone)?),
                None if !field.is_nullable() && !table.store().is_empty() => {
                    return Err(EngineError::Default {
                        table: name.to_owned(),
                        column: field.name().clone(),
                        reason: "is missing, but the column is NOT NULL and there are rows; add DEFAULT"
                            .into(),
                    });
                }
                None => None,
            };
            let field = Field::new(
                field.name(),
                storable_type(field.data_type()),
                field.is_nullable(),
            );
            tables.alter(name, |definition| definition.add_column(&field, initial))?;
            Ok(format!("table {name}: column {} added", field.name()))
        }
        Alteration::Rename(to) => {
            if is_taken(to) {
                return Err(taken("table", to));
            }
            tables.rename(name, to)?;
            Ok(format!("table {name} is {to} now"))
        }
        Alteration::RenameColumn { from, to } => {
            let at = schema
                .index_of(from)
                .map_err(|_| EngineError::no_column(name, schema, from))?;
            if schema.index_of(to).is_ok() {
                return Err(taken("column", to));
            }
            tables.alter(name, |definition| {
                definition.rename_column(at, to);
                Ok(())
            })?;
            Ok(format!("table {name}: column {from} is {to} now"))
        }
        Alteration::Cluster(_) => Err(EngineError::Unsupported {
            what: "CLUSTER BY of a table with a primary key".into(),
            instead: "its rows are in the order of the key".into(),
        }),
    }
}
