//! Parts that the syntax trees of several statements have: names, options, the word DEFAULT.

use datafusion::sql::sqlparser::ast::{self, Expr, Ident, ObjectName, Value};

use crate::EngineError;
use crate::{CATALOG, POOL_SCHEMA, SCHEMA};

/// Returns an identifier as the catalog knows it: lower case unless quoted.
pub fn identifier(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// Returns the last part of a name whose first parts, if any, are the catalog and the schema.
///
/// # Errors
/// The first parts are others.
pub fn object_name(name: &ObjectName) -> Result<String, EngineError> {
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(identifier)
        .collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [name] | [SCHEMA | POOL_SCHEMA, name] | [CATALOG, SCHEMA | POOL_SCHEMA, name] if !name.is_empty() => {
            Ok((*name).to_string())
        }
        _ => Err(EngineError::Unsupported {
            what: format!("the name {name}"),
            instead: format!("a pool has one schema, {CATALOG}.{SCHEMA}: leave it out"),
        }),
    }
}

/// Returns the error for an unsupported statement or option, with a hint on what to do instead.
///
/// # Errors
/// Always.
pub fn refuse<T>(what: impl Into<String>, instead: &str) -> Result<T, EngineError> {
    Err(EngineError::Unsupported {
        what: what.into(),
        instead: instead.into(),
    })
}

/// Reads `key = 'value'`, `key = value` or `key = 12`, in lower case; `None` for any other expression.
pub fn option_of(option: &Expr) -> Option<(String, String)> {
    let Expr::BinaryOp {
        left,
        op: ast::BinaryOperator::Eq,
        right,
    } = option
    else {
        return None;
    };
    let Expr::Identifier(key) = &**left else {
        return None;
    };
    let value = match &**right {
        Expr::Identifier(word) => word.value.clone(),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            Value::Number(number, _) => number.to_string(),
            _ => return None,
        },
        _ => return None,
    };
    Some((key.value.to_lowercase(), value.to_lowercase()))
}

/// Returns true for the word DEFAULT, which the parser reads as a column.
pub fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}
