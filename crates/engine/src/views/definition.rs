//! The definition of a view, and its record in the pool: JSON with a version, protected by the checksum of
//! the directory that it is part of.

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::resolve::resolve_table_references;
use halocline_sql::EngineError;
use halocline_sql::names::stored_plan;
use halocline_sql::parse::parse_tree;
use halocline_sql::stack::StackSize;
use serde::{Deserialize, Serialize};

use crate::ddl::{quoted_name, quoted_names};

/// The version of the record.
const VERSION: u32 = 1;

/// The definition of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ViewDefinition {
    /// Names of its columns; empty if they are those of the query.
    pub(crate) columns: Vec<String>,
    /// The text of its query.
    pub(crate) query: String,
}

/// A definition as stored.
#[derive(Serialize, Deserialize)]
struct ViewRecord {
    v: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    query: String,
}

/// The part of a record that every version has.
#[derive(Deserialize)]
struct RecordVersion {
    v: u32,
}

impl ViewDefinition {
    /// Returns the record of the definition.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EngineError> {
        let record = ViewRecord {
            v: VERSION,
            columns: self.columns.clone(),
            query: self.query.clone(),
        };
        serde_json::to_vec(&record).map_err(|error| EngineError::Query(error.to_string()))
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(crate) fn decode(record: &[u8]) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("its definition cannot be read: {error}");
        let RecordVersion { v } = serde_json::from_slice(record).map_err(wrong)?;
        if v > VERSION {
            return Err(format!(
                "its definition has version {v}, and this program knows versions up to {VERSION}; use a newer one"
            ));
        }
        let ViewRecord { columns, query, .. } = serde_json::from_slice(record).map_err(wrong)?;
        Ok(Self { columns, query })
    }

    /// Returns the syntax tree of the query.
    ///
    /// # Errors
    /// The text is no query.
    pub(crate) fn parse(&self) -> Result<Parsed, EngineError> {
        StackSize::for_text(&self.query).call(|| parse_tree(&self.query))
    }

    /// Returns a plan of the query with the columns of the view, whose names are distinct.
    ///
    /// # Errors
    /// The query has more or fewer columns than the view names.
    pub(crate) fn named(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = stored_plan(Arc::new(plan))?;
        if self.columns.is_empty() {
            return Ok(Arc::unwrap_or_clone(plan));
        }
        let columns = plan.schema().columns();
        if columns.len() != self.columns.len() {
            return Err(DataFusionError::Plan(format!(
                "its query has {}, and it names {}",
                counted(columns.len()),
                self.columns.len()
            )));
        }
        let renamed = columns.into_iter().zip(&self.columns);
        let renamed: Vec<_> = renamed.map(|(column, name)| col(column).alias(name)).collect();
        LogicalPlanBuilder::new_from_arc(plan).project(renamed)?.build()
    }

    /// Returns the statement that creates the view, without a semicolon.
    pub(crate) fn statement(&self, name: &str, temporary: bool) -> String {
        let kind = if temporary { "TEMP VIEW" } else { "VIEW" };
        let columns = match self.columns.as_slice() {
            [] => String::new(),
            columns => format!(" ({})", quoted_names(columns)),
        };
        format!("CREATE {kind} {}{columns} AS\n{}", quoted_name(name), self.query)
    }
}

/// Returns the tables and views that a query names.
///
/// # Errors
/// A name has too many parts.
pub(super) fn references(query: &Parsed) -> Result<Vec<TableReference>> {
    resolve_table_references(query, true).map(|(references, _)| references)
}

fn counted(columns: usize) -> String {
    match columns {
        1 => "1 column".to_owned(),
        columns => format!("{columns} columns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let definition = ViewDefinition {
            columns: vec!["a".into(), "B c".into()],
            query: "SELECT 1, '\"x\"' -- two\n".into(),
        };
        let record = definition.encode().unwrap();
        assert_eq!(ViewDefinition::decode(&record), Ok(definition));
        let plain = br#"{"v":1,"query":"SELECT 1","more":[]}"#;
        assert_eq!(ViewDefinition::decode(plain).unwrap().query, "SELECT 1");
    }

    #[test]
    fn records_of_newer_versions_and_damaged_ones_are_refused() {
        let newer = ViewDefinition::decode(br#"{"v":2,"query":{"text":"SELECT 1"}}"#);
        assert!(newer.unwrap_err().contains("version 2"));
        for record in [&b"{}"[..], b"", b"\xff", br#"{"v":1}"#] {
            assert!(ViewDefinition::decode(record).is_err());
        }
    }
}
