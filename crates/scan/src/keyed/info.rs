//! What tables with a primary key are, for people and programs: [`KeyedTableInfo`].

use arrow_cast::display::array_value_to_string;
use arrow_schema::Field;
use halocline_catalog::context::EngineContext;
use halocline_columns::{TableRule, TableRules};
use halocline_keyed::KeyedTable;
use halocline_sql::EngineError;
use halocline_values::sql_name;
use serde::Serialize;

/// A table with a primary key.
#[derive(Debug, Clone, Serialize)]
pub struct KeyedTableInfo {
    /// Its name.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Bytes of its keys and rows; the log and the tree around them take more.
    pub bytes: u64,
    /// Names of the columns of its primary key, in the order of the key.
    pub primary_key: Vec<String>,
    /// Columns in their order.
    pub columns: Vec<KeyedColumnInfo>,
    /// Rules that its rows obey besides the primary key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<TableRule>,
}

/// A column of a table with a primary key.
#[derive(Debug, Clone, Serialize)]
pub struct KeyedColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type as a SQL user writes it.
    pub r#type: String,
    /// True if it may be NULL.
    pub nullable: bool,
    /// The value it takes where a statement gives none, as text; `None` for NULL.
    pub default: Option<String>,
}

/// Describes the tables with a primary key, by name.
///
/// # Errors
/// The stores cannot be opened.
pub fn keyed_infos(engine: &EngineContext) -> Result<Vec<KeyedTableInfo>, EngineError> {
    let Some(tables) = engine.stores.existing_tables()? else {
        return Ok(Vec::new());
    };
    let names = tables.names().into_iter();
    Ok(names
        .filter_map(|name| tables.table(&name))
        .map(|table| keyed_info(&table))
        .collect())
}

fn keyed_info(table: &KeyedTable) -> KeyedTableInfo {
    let (definition, fields) = (table.definition(), table.schema().fields());
    let columns = fields.iter().enumerate().map(|(index, field)| KeyedColumnInfo {
        name: field.name().clone(),
        r#type: type_of(field, definition.rules()),
        nullable: field.is_nullable(),
        default: (definition.default_value(index)).and_then(|value| array_value_to_string(value, 0).ok()),
    });
    let key = definition.key().iter();
    KeyedTableInfo {
        name: table.name().to_owned(),
        rows: table.store().len(),
        bytes: table.store().bytes(),
        primary_key: key.map(|column| fields[*column].name().clone()).collect(),
        columns: columns.collect(),
        rules: definition.rules().rules().to_vec(),
    }
}

/// Returns the type of a column as a SQL user writes it, with the most characters of a text.
pub fn type_of(field: &Field, rules: &TableRules) -> String {
    let name = sql_name(field.data_type());
    match rules.length_of(field.name()) {
        Some(characters) => format!("{name}({characters})"),
        None => name,
    }
}

/// Returns true if there is a table with a primary key of this name; false also if that cannot be read.
pub fn is_keyed(engine: &EngineContext, name: &str) -> bool {
    let tables = engine.stores.existing_tables().ok().flatten();
    tables.is_some_and(|tables| tables.table(name).is_some())
}
