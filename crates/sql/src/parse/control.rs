//! `BEGIN`, `COMMIT`, `ROLLBACK` and `VACUUM` as parsed.

use datafusion::sql::sqlparser::ast::{self, TransactionAccessMode, TransactionMode, VacuumStatement};

use super::{Statement, object_name, refuse};
use crate::EngineError;

/// Reads the statement.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn read(statement: &ast::Statement) -> Result<Statement, EngineError> {
    match statement {
        ast::Statement::StartTransaction {
            modes,
            modifier,
            statements,
            exception,
            ..
        } => {
            if modifier.is_some() || !statements.is_empty() || exception.is_some() {
                return refuse(
                    "this form of BEGIN",
                    "write BEGIN alone, then the statements one by one",
                );
            }
            if modes.contains(&TransactionMode::AccessMode(TransactionAccessMode::ReadOnly)) {
                let instead =
                    "each query sees one version of the database; several are the same one within BEGIN";
                return refuse("a transaction that only reads", instead);
            }
            Ok(Statement::Begin)
        }
        ast::Statement::Commit { chain, modifier, .. } => match *chain || modifier.is_some() {
            true => refuse("this form of COMMIT", "write COMMIT alone, then BEGIN"),
            false => Ok(Statement::Commit),
        },
        ast::Statement::Rollback { chain, savepoint } => match *chain || savepoint.is_some() {
            true => refuse(
                "ROLLBACK TO or AND CHAIN",
                "a statement that fails takes back only itself; ROLLBACK alone takes back the transaction",
            ),
            false => Ok(Statement::Rollback),
        },
        ast::Statement::Vacuum(VacuumStatement {
            full,
            sort_only: false,
            delete_only: false,
            reindex: false,
            recluster: false,
            table_name,
            threshold: None,
            boost: false,
        }) => Ok(Statement::Vacuum {
            table: table_name.as_ref().map(object_name).transpose()?,
            full: *full,
        }),
        _ => refuse(
            "an option of VACUUM",
            "write VACUUM, VACUUM table or VACUUM FULL table",
        ),
    }
}
