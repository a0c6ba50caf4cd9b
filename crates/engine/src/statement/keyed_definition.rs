//! Definitions of tables with a primary key: made by `CREATE TABLE`, changed by `ALTER TABLE`.

use arrow_array::timezone::Tz;
use arrow_schema::{Field, Schema};
use datafusion::sql::sqlparser::ast::Expr;
use halocline_keyed::{KeyedTables, TableDefinition};
use halocline_sql::EngineError;
use halocline_sql::table_spec::TableSpec;
use halocline_values::storable::{storable_schema, storable_type};

use super::defaults::default_of;
use super::table_changes::{Alter, Alteration, column_is_there, taken};

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
pub(super) fn create_keyed(
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

/// Changes the definition of a table, and returns a message. `is_taken` is true if a table of another kind
/// has the new name of the table.
///
/// # Errors
/// No such column; a name is taken; a default does not fit.
pub(super) fn alter_keyed(
    tables: &KeyedTables,
    (alter, zone): (&Alter, Option<Tz>),
    is_taken: bool,
) -> Result<String, EngineError> {
    let name = alter.table.as_str();
    let table = tables.existing(name)?;
    let schema = table.schema();
    match &alter.what {
        Alteration::AddColumn {
            field,
            default,
            if_not_exists,
        } => {
            if let Some(message) = column_is_there(name, schema, field, *if_not_exists)? {
                return Ok(message);
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
            if is_taken {
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
