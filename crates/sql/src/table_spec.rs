//! The definition of a table, as a statement or an import gives it.

use halocline_columns::TableEncoding;

use crate::EngineError;

/// The definition of a table to create.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// Its name.
    pub name: String,
    /// Do nothing if the table exists.
    pub if_not_exists: bool,
    /// Replace an existing table.
    pub or_replace: bool,
    /// Clustering columns.
    pub cluster: Option<Vec<String>>,
    /// Encoding of its values.
    pub encoding: TableEncoding,
}

impl TableSpec {
    /// Returns the error for an existing table.
    pub fn exists(&self) -> EngineError {
        EngineError::Exists {
            kind: "table",
            name: self.name.clone(),
            instead: "drop it first, choose another name, or use CREATE OR REPLACE TABLE",
        }
    }

    /// Returns the message for an existing table.
    pub fn is_there(&self) -> String {
        format!("table {} is there already", self.name)
    }
}
