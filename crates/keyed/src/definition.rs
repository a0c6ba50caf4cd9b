//! Definitions of tables: columns, key, defaults, rules.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use halocline_columns::{StoredRules, TableRule, TableRules, parse_type, type_name};
use serde::{Deserialize, Serialize};

use crate::column_builder::ColumnBuilder;
use crate::column_values::ColumnValues;
use crate::error::{KeyedError, Result};
use crate::kind::ColumnKind;
use crate::row::{self, RowColumn, RowReader};

/// The newest version of the encoding of definitions: that of tables with rules.
const VERSION: u32 = 2;
/// Version of all others.
const PLAIN: u32 = 1;

/// The definition of a table with a primary key.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDefinition {
    pub(crate) name: String,
    /// Number that names the table's store; 0 until the table is created.
    pub(crate) uid: u64,
    pub(crate) schema: SchemaRef,
    /// Positions of the key columns, in the order of the key.
    pub(crate) key: Vec<usize>,
    /// Of each column, the default of an `INSERT`, as an array of one value.
    pub(crate) defaults: Vec<Option<ArrayRef>>,
    /// Of each column, its value in rows that were written before it was added.
    pub(crate) initial: Vec<Option<ArrayRef>>,
    /// The rules that the rows obey. Replaced whenever the columns change, see [`TableRules::prepared`].
    pub(crate) rules: Arc<TableRules>,
}

/// A definition as it is stored, as JSON. It belongs to the format of the pool.
#[derive(Serialize, Deserialize)]
struct StoredDefinition {
    version: u32,
    uid: u64,
    columns: Vec<StoredColumn>,
    key: Vec<usize>,
    #[serde(default, skip_serializing_if = "StoredRules::is_empty")]
    rules: StoredRules,
}

#[derive(Serialize, Deserialize)]
struct StoredColumn {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    nullable: bool,
    /// A row with this one column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    initial: Option<Vec<u8>>,
}

impl TableDefinition {
    /// Defines a table of this name with the columns of `schema`, of which `key` names the key columns, which
    /// become NOT NULL.
    ///
    /// # Errors
    /// [`KeyedError::Type`], [`KeyedError::Key`], [`KeyedError::Column`].
    pub fn new(name: &str, schema: &Schema, key: &[&str]) -> Result<Self> {
        let wrong = |reason| KeyedError::Key {
            table: name.to_owned(),
            columns: key.join(", "),
            reason,
        };
        if key.is_empty() {
            return Err(wrong("names no column; name one"));
        }
        let mut positions = Vec::new();
        for column in key {
            let position = schema.fields().iter().position(|field| field.name() == column);
            let position = position.ok_or_else(|| wrong("names a column that the table does not have"))?;
            if positions.contains(&position) {
                return Err(wrong("names a column twice; name it once"));
            }
            positions.push(position);
        }
        let mut fields: Vec<Field> = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            check_type(name, field)?;
            if fields.iter().any(|other| other.name() == field.name()) {
                return Err(KeyedError::Column {
                    table: name.to_owned(),
                    column: field.name().clone(),
                });
            }
            let nullable = field.is_nullable() && !positions.contains(&at);
            fields.push(Field::new(field.name(), field.data_type().clone(), nullable));
        }
        Ok(Self {
            name: name.to_owned(),
            uid: 0,
            defaults: vec![None; fields.len()],
            initial: vec![None; fields.len()],
            rules: Arc::default(),
            schema: Arc::new(Schema::new(fields)),
            key: positions,
        })
    }

    /// Sets the default of a column, given by position, as an array of one value of its type; NULL without
    /// it.
    pub fn set_default(&mut self, column: usize, value: Option<ArrayRef>) {
        self.defaults[column] = value;
    }

    /// Lets a column that is given by position be NULL, unless it belongs to the key.
    pub fn set_nullable(&mut self, column: usize) {
        if !self.key.contains(&column) {
            let mut fields = self.schema.fields().to_vec();
            fields[column] = Arc::new(fields[column].as_ref().clone().with_nullable(true));
            self.set_fields(fields);
        }
    }

    /// Sets the rules, in place of those there are. Rows that are there are not looked at.
    pub fn set_rules(&mut self, rules: Vec<TableRule>) {
        self.rules = Arc::new(rules.into());
    }

    fn set_fields(&mut self, fields: Vec<Arc<Field>>) {
        self.schema = Arc::new(Schema::new(fields));
        self.set_rules(self.rules.rules().to_vec());
    }

    /// Adds a column, the last one. In the rows there are, it has the value `initial`, an array of one value;
    /// NULL without it.
    ///
    /// # Errors
    /// [`KeyedError::Type`].
    pub fn add_column(&mut self, field: &Field, initial: Option<ArrayRef>) -> Result<()> {
        check_type(&self.name, field)?;
        let mut fields = self.schema.fields().to_vec();
        fields.push(Arc::new(field.clone()));
        self.set_fields(fields);
        self.defaults.push(initial.clone());
        self.initial.push(initial);
        Ok(())
    }

    /// Renames a column, given by position.
    pub fn rename_column(&mut self, column: usize, name: &str) {
        let mut fields = self.schema.fields().to_vec();
        fields[column] = Arc::new(fields[column].as_ref().clone().with_name(name));
        self.set_fields(fields);
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the positions of the key columns, in the order of the key.
    pub fn key(&self) -> &[usize] {
        &self.key
    }

    /// Returns the default of a column as an array of one value.
    pub fn default_value(&self, column: usize) -> Option<&ArrayRef> {
        self.defaults[column].as_ref()
    }

    /// Returns the rules that the rows obey.
    pub fn rules(&self) -> &Arc<TableRules> {
        &self.rules
    }

    /// Returns the name of the store with the rows.
    pub(crate) fn store_name(&self) -> String {
        store_name(self.uid)
    }

    /// Returns true if there are unique constraints besides the primary key.
    pub(crate) fn has_unique(&self) -> bool {
        let mut rules = self.rules.rules().iter();
        rules.any(|rule| matches!(rule, TableRule::Unique { .. }))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let column = |(at, field): (usize, &Arc<Field>)| StoredColumn {
            name: field.name().clone(),
            // Checked when the definition was made.
            type_name: type_name(field.data_type()).unwrap_or_default(),
            nullable: field.is_nullable(),
            default: self.defaults[at].as_ref().map(value_to_bytes),
            initial: self.initial[at].as_ref().map(value_to_bytes),
        };
        let stored = StoredDefinition {
            // Older programs would write rows that disobey the rules.
            version: if self.rules.is_empty() { PLAIN } else { VERSION },
            uid: self.uid,
            columns: self.schema.fields().iter().enumerate().map(column).collect(),
            key: self.key.clone(),
            rules: StoredRules::encode(self.rules.rules()),
        };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    pub(crate) fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self> {
        let damaged = || KeyedError::Damaged {
            table: name.to_owned(),
            store: DEFINITIONS.to_owned(),
            what: "its definition".to_owned(),
        };
        let stored: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| damaged())?;
        let version = stored.get("version").and_then(serde_json::Value::as_u64);
        let newer = || KeyedError::NewerFormat {
            table: name.to_owned(),
        };
        if version.is_some_and(|version| version > u64::from(VERSION)) {
            return Err(newer());
        }
        let stored: StoredDefinition = serde_json::from_value(stored).map_err(|_| damaged())?;
        let (mut fields, mut defaults, mut initial) = (Vec::new(), Vec::new(), Vec::new());
        for column in &stored.columns {
            let data_type = parse_type(&column.type_name).ok_or_else(damaged)?;
            let value = |bytes: &Option<Vec<u8>>| match bytes {
                Some(bytes) => value_from_bytes(&data_type, bytes).map(Some).ok_or_else(damaged),
                None => Ok(None),
            };
            defaults.push(value(&column.default)?);
            initial.push(value(&column.initial)?);
            fields.push(Field::new(&column.name, data_type, column.nullable));
        }
        let names: Option<Vec<&str>> = stored
            .key
            .iter()
            .map(|at| stored.columns.get(*at).map(|column| column.name.as_str()))
            .collect();
        let mut definition = Self::new(name, &Schema::new(fields), &names.ok_or_else(damaged)?)?;
        (definition.defaults, definition.initial) = (defaults, initial);
        definition.set_rules(stored.rules.decode().ok_or_else(newer)?);
        definition.uid = stored.uid;
        Ok(definition)
    }
}

/// Name of the store with the definitions.
pub(crate) const DEFINITIONS: &str = "sql/tables";

/// How the names of stores with rows begin.
pub(crate) const ROWS: &str = "sql/rows/";

pub(crate) fn store_name(uid: u64) -> String {
    format!("{ROWS}{uid}")
}

fn check_type(table: &str, field: &Field) -> Result<()> {
    let stored = ColumnKind::from_type(field.data_type()).and(type_name(field.data_type()));
    stored.map(|_| ()).ok_or_else(|| KeyedError::Type {
        table: table.to_owned(),
        column: field.name().clone(),
        data_type: field.data_type().clone(),
    })
}

/// Encodes an array of one value as a row of one column.
fn value_to_bytes(array: &ArrayRef) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(kind) = ColumnKind::from_type(array.data_type())
        && let Some(values) = ColumnValues::new(array, kind)
    {
        row::encode([(kind, values.value(0))].into_iter(), &mut bytes);
    }
    bytes
}

fn value_from_bytes(data_type: &DataType, bytes: &[u8]) -> Option<ArrayRef> {
    let kind = ColumnKind::from_type(data_type)?;
    let mut builder = ColumnBuilder::new(data_type, kind);
    match RowReader::new(bytes)?.next(kind)? {
        RowColumn::Value(value) => builder.push(Some(value))?,
        RowColumn::Null => builder.push(None)?,
        RowColumn::Missing => return None,
    }
    builder.finish().ok()
}
