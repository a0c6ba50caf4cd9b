//! Definitions of new tables with a primary key.

use arrow_array::timezone::Tz;
use arrow_schema::Schema;
use datafusion::sql::sqlparser::ast::Expr;
use halocline_catalog::write::RowRules;
use halocline_columns::TableRule;
use halocline_keyed::{KeyedTables, TableDefinition};
use halocline_sql::EngineError;
use halocline_sql::table_spec::TableSpec;
use halocline_values::storable::storable_schema;

use super::defaults::default_of;

/// Returns the definition of a table with a primary key; its defaults are read in a time zone.
///
/// # Errors
/// A column cannot be stored; the key names no column; a default is no value of its column; a condition of
/// a rule cannot be planned.
pub(super) fn define(
    spec: &TableSpec,
    schema: &Schema,
    (defaults, zone): (&[Option<Expr>], Option<Tz>),
    key: &[String],
    rules: &[TableRule],
) -> Result<TableDefinition, EngineError> {
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let mut definition = TableDefinition::new(&spec.name, &storable_schema(schema), &key)?;
    for (at, default) in defaults.iter().enumerate() {
        if let Some(expr) = default {
            let value = default_of(&spec.name, definition.schema().field(at), expr, zone)?;
            definition.set_default(at, Some(value));
        }
    }
    RowRules::plan(&spec.name, definition.schema(), rules)?;
    for rule in rules {
        if let TableRule::Unique { columns, .. } = rule {
            for column in columns {
                let at = definition.schema().index_of(column);
                at.map_err(|_| EngineError::no_column(&spec.name, definition.schema(), column))?;
            }
        }
    }
    definition.set_rules(rules.to_vec());
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
