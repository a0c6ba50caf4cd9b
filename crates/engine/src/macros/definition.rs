//! The definition of a macro, and its record in the pool: JSON with a version, protected by the checksum of
//! the directory that it is part of.

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{self, DataType, Expr, SelectItem, SetExpr};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use halocline_sql::EngineError;
use halocline_sql::parse::parse_tree;
use halocline_sql::stack::StackSize;
use halocline_sql::syntax::{SqlDialect, query_of, select_of};
use serde::{Deserialize, Serialize};

use crate::ddl::quoted_name;

/// The version of the record.
const VERSION: u32 = 1;

/// A parameter of a macro.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MacroParameter {
    /// Its name.
    pub(crate) name: String,
    /// The text of the type that its argument is cast to; as it is without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data_type: Option<String>,
    /// The text of its default; it must be given without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<String>,
}

/// The definition of a macro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MacroDefinition {
    /// Its parameters in their order; those with a default come last.
    pub(crate) parameters: Vec<MacroParameter>,
    /// The text of the type that the expression is cast to; as it is without one.
    pub(crate) returns: Option<String>,
    /// The text of its expression.
    pub(crate) body: String,
}

/// A definition as stored.
#[derive(Serialize, Deserialize)]
struct MacroRecord {
    v: u32,
    parameters: Vec<MacroParameter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    returns: Option<String>,
    body: String,
}

/// The part of a record that every version has.
#[derive(Deserialize)]
struct RecordVersion {
    v: u32,
}

impl MacroDefinition {
    /// Returns the record of the definition.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EngineError> {
        let record = MacroRecord {
            v: VERSION,
            parameters: self.parameters.clone(),
            returns: self.returns.clone(),
            body: self.body.clone(),
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
        let MacroRecord {
            parameters,
            returns,
            body,
            ..
        } = serde_json::from_slice(record).map_err(wrong)?;
        Ok(Self {
            parameters,
            returns,
            body,
        })
    }

    /// Returns the statement that creates the macro, without a semicolon.
    pub(crate) fn statement(&self, name: &str) -> String {
        let parameter = |parameter: &MacroParameter| {
            let mut text = quoted_name(&parameter.name);
            if let Some(data_type) = &parameter.data_type {
                text += &format!(" {data_type}");
            }
            if let Some(default) = &parameter.default {
                text += &format!(" := {default}");
            }
            text
        };
        let parameters: Vec<String> = self.parameters.iter().map(parameter).collect();
        let returns = match &self.returns {
            Some(data_type) => format!(" RETURNS {data_type}"),
            None => String::new(),
        };
        let (name, parameters) = (quoted_name(name), parameters.join(", "));
        format!("CREATE MACRO {name}({parameters}){returns} AS {}", self.body)
    }
}

/// Returns the syntax tree of the text of an expression.
///
/// # Errors
/// It is none, or several.
pub(crate) fn parse_expression(text: &str) -> Result<Expr, EngineError> {
    let no_expression = || EngineError::Query(format!("'{text}' is not an expression"));
    let select = format!("SELECT {text}");
    StackSize::for_text(&select).call(|| {
        let Parsed::Statement(statement) = parse_tree(&select)? else {
            return Err(no_expression());
        };
        let ast::Statement::Query(query) = *statement else {
            return Err(no_expression());
        };
        let SetExpr::Select(select) = &*query.body else {
            return Err(no_expression());
        };
        let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice() else {
            return Err(no_expression());
        };
        // Nothing may follow the expression.
        let alone = query_of(SetExpr::Select(Box::new(select_of(
            vec![SelectItem::UnnamedExpr(expr.clone())],
            Vec::new(),
        ))));
        if alone == *query {
            Ok(expr.clone())
        } else {
            Err(no_expression())
        }
    })
}

/// Returns the syntax tree of the text of a type.
///
/// # Errors
/// It is none.
pub(super) fn parse_type(text: &str) -> Result<DataType, EngineError> {
    let wrong = |error: ParserError| EngineError::from(DataFusionError::from(error));
    let mut parser = Parser::new(&SqlDialect).try_with_sql(text).map_err(wrong)?;
    let data_type = parser.parse_data_type().map_err(wrong)?;
    parser.expect_token(&Token::EOF).map_err(wrong)?;
    Ok(data_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let definition = MacroDefinition {
            parameters: vec![
                MacroParameter {
                    name: "x".into(),
                    data_type: Some("INT".into()),
                    default: None,
                },
                MacroParameter {
                    name: "Y".into(),
                    data_type: None,
                    default: Some("'a'".into()),
                },
            ],
            returns: Some("DECIMAL(10,2)".into()),
            body: "x + 1".into(),
        };
        let record = definition.encode().unwrap();
        assert_eq!(MacroDefinition::decode(&record), Ok(definition.clone()));
        assert_eq!(
            definition.statement("m"),
            "CREATE MACRO m(x INT, \"Y\" := 'a') RETURNS DECIMAL(10,2) AS x + 1"
        );
        assert!(
            MacroDefinition::decode(br#"{"v":2}"#)
                .unwrap_err()
                .contains("version 2")
        );
        assert!(MacroDefinition::decode(b"[]").is_err());
    }

    #[test]
    fn expressions_stand_alone() {
        for text in ["1", "x + (SELECT max(a) FROM t)", "CASE WHEN x > 0 THEN 'a' END"] {
            assert!(parse_expression(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "1, 2",
            "1 AS a",
            "1 FROM t",
            "*",
            "1 LIMIT 2",
            "DISTINCT 1",
            "1 UNION SELECT 2",
            "1; SELECT 2",
        ] {
            assert!(parse_expression(text).is_err(), "{text}");
        }
        assert!(parse_type("decimal(10, 2)").is_ok() && parse_type("int, int").is_err());
    }
}
