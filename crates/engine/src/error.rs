//! What can go wrong above the pool, in words for the person at the keyboard.

use arrow_schema::Schema;
use datafusion::error::DataFusionError;
use halocline_columns::ColumnsError;
use halocline_elf::ElfError;
use halocline_joins::JoinError;
use halocline_pool::PoolError;

use crate::import::ImportError;

/// Any failure of the engine. `Display` gives the text to show a user; it says what to do next where that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The pool file: locked, full, damaged, foreign, newer …
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A stored table could not be read or written.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// An index could not be built or read.
    #[error(transparent)]
    Elf(ElfError),
    /// A star join could not be run.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// An input file of an import is not what it should be.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The query could not be parsed, planned or run; the text is DataFusion's, without its prefixes.
    #[error("{0}")]
    Query(String),
    /// The statement is understood but not offered.
    #[error("{what} is not supported; {instead}")]
    Unsupported {
        /// The statement or option, as the user wrote it in short.
        what: String,
        /// What to do instead.
        instead: String,
    },
    /// No such table.
    #[error("there is no table '{name}' in the pool; {known}")]
    NoTable {
        /// The name that was asked for.
        name: String,
        /// A phrase naming the tables there are.
        known: String,
    },
    /// No such index.
    #[error("there is no index '{name}' in the pool; {known}")]
    NoIndex {
        /// The name that was asked for.
        name: String,
        /// A phrase naming the indexes there are.
        known: String,
    },
    /// No such column.
    #[error("table '{table}' has no column '{name}'; its columns are {known}")]
    NoColumn {
        /// The table.
        table: String,
        /// The name that was asked for.
        name: String,
        /// The columns there are, separated by commas.
        known: String,
    },
    /// The name is taken.
    #[error("{kind} '{name}' exists already; {instead}")]
    Exists {
        /// `table` or `index`.
        kind: &'static str,
        /// The name.
        name: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// A statement that writes met a pool opened for reading.
    #[error("{what} writes, but the pool is open read-only; open it for writing (or make the file writable)")]
    ReadOnly {
        /// The statement.
        what: String,
    },
    /// A value that does not fit the column it is for.
    #[error("{statement}, row {row}, column {column}: {reason}")]
    Value {
        /// The statement in short.
        statement: String,
        /// The row among those of the statement, from 1.
        row: u64,
        /// The column.
        column: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A default that its column cannot have.
    #[error("table {table}, column {column}: its default {reason}")]
    Default {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The log of small changes holds a record that cannot be used.
    #[error("a record of the log cannot be used: {reason}")]
    Log {
        /// What is wrong.
        reason: String,
    },
    /// The statement cannot run inside of a transaction.
    #[error("{what} is not possible while a transaction is open; COMMIT or ROLLBACK first")]
    InTransaction {
        /// The statement.
        what: &'static str,
    },
    /// COMMIT or ROLLBACK without BEGIN.
    #[error("{what}: no transaction is open; BEGIN opens one")]
    NoTransaction {
        /// The statement.
        what: &'static str,
    },
    /// Another statement of the same transaction has not ended.
    #[error(
        "a statement of the open transaction is still running; wait for it, or use a session of its own for what runs beside it"
    )]
    TransactionBusy,
    /// A statement of the transaction was interrupted.
    #[error(
        "the open transaction was given up when one of its statements was interrupted, and nothing of it is stored; ROLLBACK, then \
         begin again"
    )]
    TransactionLost,
    /// What belongs to a transaction was asked for after its end.
    #[error("the transaction has ended; ask again")]
    TransactionOver,
    /// The caller asked for the end; the pool is as it was before.
    #[error("cancelled; the pool is as it was")]
    Cancelled,
}

impl EngineError {
    /// A table has no such column.
    pub(crate) fn no_column(table: &str, schema: &Schema, name: &str) -> Self {
        let known: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        Self::NoColumn {
            table: table.to_string(),
            name: name.to_string(),
            known: known.join(", "),
        }
    }
}

/// A phrase for error texts: which names there are.
pub(crate) fn known_names(kind: &str, names: &[String]) -> String {
    match names {
        [] => format!("it has no {kind} yet"),
        names if names.len() <= 12 => format!("it has {}", names.join(", ")),
        names => format!("it has {}, … ({} in all)", names[..12].join(", "), names.len()),
    }
}

impl From<ElfError> for EngineError {
    fn from(error: ElfError) -> Self {
        match error {
            ElfError::Cancelled => Self::Cancelled,
            other => Self::Elf(other),
        }
    }
}

impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> Self {
        from_datafusion(error)
    }
}

/// Finds our own error inside DataFusion's wrappers, or strips the wrappers' prefixes.
fn from_datafusion(error: DataFusionError) -> EngineError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<EngineError>() {
            Ok(own) => *own,
            Err(other) => match other.downcast::<DataFusionError>() {
                Ok(wrapped) => from_datafusion(*wrapped),
                Err(other) => EngineError::Query(other.to_string()),
            },
        },
        DataFusionError::Context(_, inner) => from_datafusion(*inner),
        DataFusionError::Diagnostic(_, inner) => from_datafusion(*inner),
        DataFusionError::ResourcesExhausted(text) => EngineError::Query(format!(
            "the query needs more DRAM than the database may use; give it more (--memory): {text}"
        )),
        DataFusionError::ArrowError(inner, _) => EngineError::Query(plain_text(&inner.to_string())),
        other => EngineError::Query(plain_text(&other.strip_backtrace())),
    }
}

/// Removes the categories DataFusion and Arrow put before a message.
fn plain_text(text: &str) -> String {
    const PREFIXES: [&str; 12] = [
        "Error during planning: ",
        "SQL error: ",
        "Execution error: ",
        "Schema error: ",
        "Arrow error: ",
        "This feature is not implemented: ",
        "External error: ",
        "type_coercion\ncaused by\n",
        "Invalid or Unsupported Configuration: ",
        "ParserError(\"",
        "Parquet error: ",
        "Object Store error: ",
    ];
    let mut text = text.trim();
    while let Some(rest) = PREFIXES.iter().find_map(|p| text.strip_prefix(p)) {
        text = rest.strip_suffix("\")").unwrap_or(rest);
    }
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_wrappers_are_removed() {
        let error = DataFusionError::Plan("no such thing".into());
        assert_eq!(EngineError::from(error).to_string(), "no such thing");
        assert_eq!(
            plain_text("SQL error: ParserError(\"Expected: x\")"),
            "Expected: x"
        );
    }

    #[test]
    fn own_errors_survive_the_way_through_datafusion() {
        let own = EngineError::Cancelled;
        let error =
            DataFusionError::Context("while".into(), Box::new(DataFusionError::External(Box::new(own))));
        assert!(matches!(EngineError::from(error), EngineError::Cancelled));
    }
}
