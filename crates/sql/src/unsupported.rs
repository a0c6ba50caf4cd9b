//! Statements that are understood but not offered, and what to do instead.

use datafusion::sql::sqlparser::ast::Statement;

use crate::EngineError;

/// Returns the error for a statement that is not offered.
pub fn unsupported(statement: &Statement) -> EngineError {
    let (what, instead) = match statement {
        Statement::Merge(_) => ("MERGE", "use UPDATE, INSERT and DELETE, within BEGIN and COMMIT"),
        Statement::CreateView(_) => (
            "this form of CREATE VIEW",
            "write CREATE [OR REPLACE] [TEMP] VIEW [IF NOT EXISTS] name [(columns)] AS query",
        ),
        Statement::Analyze(_) => ("ANALYZE", "statistics are kept with every table"),
        Statement::CreateSchema { .. } => ("CREATE SCHEMA", "a pool has one schema, halocline.public"),
        Statement::CreateDatabase { .. } => (
            "CREATE DATABASE",
            "make a pool by opening a file that is not there",
        ),
        other => {
            let text = other.to_string();
            let words = text
                .split_whitespace()
                .take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()));
            let what: Vec<&str> = words.take(1).collect();
            let what = what
                .first()
                .map_or_else(|| "this statement".to_string(), |_| what.join(" "));
            let instead = "see the manual for the statements there are";
            return EngineError::Unsupported {
                what,
                instead: instead.into(),
            };
        }
    };
    EngineError::Unsupported {
        what: what.into(),
        instead: instead.into(),
    }
}
