//! `PREPARE`, `EXECUTE` and `DEALLOCATE` as parsed.

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;

use super::{Statement, identifier, object_name, refuse};
use crate::EngineError;
use crate::sql_types::data_type;

/// Reads `PREPARE`; `None` for any other statement. The parameters of the statement in it have no values yet.
///
/// # Errors
/// It declares a type that does not exist.
pub(super) fn prepare(statement: &Parsed) -> Result<Option<Statement>, EngineError> {
    match statement {
        Parsed::Statement(inner) if matches!(**inner, ast::Statement::Prepare { .. }) => {
            read(inner).map(Some)
        }
        _ => Ok(None),
    }
}

/// Reads the statement.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn read(statement: &ast::Statement) -> Result<Statement, EngineError> {
    match statement {
        ast::Statement::Prepare {
            name,
            data_types,
            statement,
        } => {
            let name = identifier(name);
            let wrong = |reason| EngineError::Query(format!("PREPARE {name}: {reason}"));
            let types = data_types.iter().map(|sql| data_type(sql).map_err(wrong));
            let types: Vec<_> = types.collect::<Result<_, _>>()?;
            Ok(Statement::Prepare {
                types: (!types.is_empty()).then_some(types),
                statement: Parsed::Statement(statement.clone()),
                name,
            })
        }
        ast::Statement::Execute {
            name: Some(name),
            parameters,
            has_parentheses: _,
            immediate: false,
            into,
            using,
            output: false,
            default: false,
        } if into.is_empty() && using.is_empty() => Ok(Statement::Execute {
            name: object_name(name)?,
            arguments: parameters.clone(),
        }),
        ast::Statement::Deallocate { name, prepare: _ } => {
            let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            Ok(Statement::Deallocate {
                name: (!is_all).then(|| identifier(name)),
            })
        }
        _ => refuse("this form of EXECUTE", "write EXECUTE name (value, …)"),
    }
}
