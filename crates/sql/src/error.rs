//! Errors of the engine, with texts for its users.

use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::{ArrowError, Schema};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use halocline_columns::ColumnsError;
use halocline_elf::ElfError;
use halocline_import::ImportError;
use halocline_joins::JoinError;
use halocline_keyed::KeyedError;
use halocline_ordered::TreeError;
use halocline_pool::PoolError;
use halocline_store::StoreError;

use crate::hint::no_function;

/// Any failure of the engine. `Display` is the text for users, with a hint on what to do next where there is
/// one.
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
    /// An ordered tree could not be created, opened, read or written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The key-value stores could not be opened, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A table with a primary key could not be created, read or written.
    #[error(transparent)]
    Keyed(Box<KeyedError>),
    /// An input file of an import is not what it should be.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The statement could not be parsed, planned or run.
    #[error("{0}")]
    Query(String),
    /// DataFusion could not parse, plan or run the statement.
    #[error("{text}")]
    DataFusion {
        /// DataFusion's text, without its prefixes.
        text: String,
        /// Its error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The parameters of a statement and the values given for them do not match.
    #[error("parameter {name}: {reason}")]
    Parameter {
        /// The parameter, as it is written in the statement.
        name: String,
        /// The reason, with a hint on what to do.
        reason: String,
    },
    /// The statement is understood but not offered.
    #[error("{what} is not supported; {instead}")]
    Unsupported {
        /// The statement or option, as the user wrote it in short.
        what: String,
        /// A hint on what to do instead.
        instead: String,
    },
    /// The statement nests too deeply to be planned or run safely.
    #[error("{what} has more than {limit} levels; {instead}")]
    TooDeep {
        /// The part of the statement.
        what: &'static str,
        /// The number of levels allowed.
        limit: usize,
        /// A hint on what to do instead.
        instead: &'static str,
    },
    /// No such table.
    #[error("there is no table '{name}' in the pool; {known}")]
    NoTable {
        /// The requested name.
        name: String,
        /// A phrase that lists the existing tables.
        known: String,
    },
    /// No such index.
    #[error("there is no index '{name}' in the pool; {known}")]
    NoIndex {
        /// The requested name.
        name: String,
        /// A phrase that lists the existing indexes.
        known: String,
    },
    /// No such view.
    #[error("there is no view '{name}' in the pool; {known}")]
    NoView {
        /// The requested name.
        name: String,
        /// A phrase that lists the existing views.
        known: String,
    },
    /// No such macro.
    #[error("there is no macro '{name}' in the pool; {known}")]
    NoMacro {
        /// The requested name.
        name: String,
        /// A phrase that lists the existing macros.
        known: String,
    },
    /// A statement that needs a table names a view.
    #[error(
        "'{name}' is a view, which has no rows of its own; change the tables that it reads, or drop it with DROP VIEW"
    )]
    IsView {
        /// The view.
        name: String,
    },
    /// A statement that needs a view names a table.
    #[error("'{name}' is a table, not a view; drop it with DROP TABLE")]
    IsTable {
        /// The table.
        name: String,
    },
    /// The query of a view cannot be used.
    #[error("view {name}: {reason}; replace it with CREATE OR REPLACE VIEW, or drop it")]
    View {
        /// The view.
        name: String,
        /// The reason.
        reason: String,
    },
    /// No such prepared statement.
    #[error("the session has no prepared statement '{name}'; {known}")]
    NoPreparedStatement {
        /// The requested name.
        name: String,
        /// A phrase that lists the existing ones.
        known: String,
    },
    /// No such column.
    #[error("table '{table}' has no column '{name}'; its columns are {known}")]
    NoColumn {
        /// The table.
        table: String,
        /// The requested name.
        name: String,
        /// The existing columns, separated by commas.
        known: String,
    },
    /// The name is taken.
    #[error("{kind} '{name}' exists already; {instead}")]
    Exists {
        /// `table`, `view`, `macro`, `function` or `index`.
        kind: &'static str,
        /// The name.
        name: String,
        /// A hint on what to do instead.
        instead: &'static str,
    },
    /// A statement that writes met a pool opened for reading.
    #[error("{what} writes, but the pool is open read-only; open it for writing (or make the file writable)")]
    ReadOnly {
        /// The statement.
        what: String,
    },
    /// A statement that writes files met a session that may not.
    #[error(
        "{what} writes files, which a session that was opened read-only does not; allow it with --allow-writing-files \
         (`DatabaseOptions::allow_writing_files`)"
    )]
    MayNotWriteFiles {
        /// The statement.
        what: &'static str,
    },
    /// The file to write is a pool.
    #[error("{} is a Halocline pool, which no statement replaces by other data; name another file", path.display())]
    PoolAsOutput {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}{instead}", path.display())]
    CannotWrite {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// A hint on what to do about it; empty if nothing is known.
        instead: &'static str,
    },
    /// A query cannot write or read its temporary files.
    #[error(
        "{SPILL}{}: {source}; make room there (or raise the limit `ulimit -f`), name another directory \
         (--temp-directory), or give the query more DRAM (--memory), so that it need not spill",
        directory.display()
    )]
    Spill {
        /// The directory of temporary files.
        directory: PathBuf,
        /// The system's answer.
        source: io::Error,
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
        /// The reason, and what to do about it.
        reason: String,
    },
    /// A row for which the condition of a constraint is false.
    #[error(
        "{statement}, row {row}: violates the constraint '{name}', CHECK ({condition}); its values are {values}"
    )]
    Check {
        /// The statement in short.
        statement: String,
        /// The row among those of the statement, from 1.
        row: u64,
        /// The name of the constraint.
        name: Box<str>,
        /// Its condition.
        condition: Box<str>,
        /// The values of the row, each after its column.
        values: Box<str>,
    },
    /// Two rows would have the same values in the columns of a unique constraint.
    #[error(
        "{statement}: violates the constraint '{name}', UNIQUE ({columns}): there is a row with ({values}) already; {instead}"
    )]
    NotUnique {
        /// The statement in short.
        statement: String,
        /// The name of the constraint.
        name: Box<str>,
        /// Its columns.
        columns: Box<str>,
        /// The values of both rows.
        values: Box<str>,
        /// A hint on what to do instead.
        instead: &'static str,
    },
    /// An integer outside of its type.
    #[error(
        "{operation} is not a value of type {data_type}; cast to decimal(38, 0) or double where values are that large"
    )]
    Overflow {
        /// The operation with its operands, or the sum.
        operation: String,
        /// The type, as a SQL user writes it.
        data_type: String,
    },
    /// A default that its column cannot have.
    #[error("table {table}, column {column}: its default {reason}")]
    Default {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The reason, and what to do about it.
        reason: String,
    },
    /// The log of small changes holds a record that cannot be used.
    #[error("a record of the log cannot be used: {reason}")]
    Log {
        /// The reason.
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
    /// A statement that writes all tables anew has left damaged ones as they are.
    #[error("damaged tables were left as they are: {skipped}. What was done: {done}. Run `halocline check`")]
    LeftDamaged {
        /// What was done for the other tables.
        done: String,
        /// The damaged tables, each with its damage.
        skipped: String,
    },
    /// Another writer has published between the first read of a transaction and its first write.
    #[error(
        "another writer has changed the pool since the open transaction began to read, so that it can no longer write; \
         ROLLBACK, then begin again"
    )]
    ChangedSinceRead,
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
    /// Two rows would have the same primary key.
    #[error("{statement}{}: there is a row with the primary key ({key}) already; {instead}", row_text(*row))]
    DuplicateKey {
        /// The statement in short.
        statement: String,
        /// The row among those that the statement adds, from 1; `None` for an UPDATE.
        row: Option<u64>,
        /// The values of the key columns.
        key: String,
        /// A hint on what to do instead.
        instead: &'static str,
    },
    /// A row that a table with a primary key does not take.
    #[error("{statement}{}, primary key ({key}){}: {reason}", row_text(*row), column_text(column.as_deref()))]
    Row {
        /// The statement in short.
        statement: String,
        /// The row among those that the statement adds, from 1; `None` for an UPDATE.
        row: Option<u64>,
        /// The values of its key columns; for an UPDATE those before it.
        key: Box<str>,
        /// The column, if it is about one.
        column: Option<Box<str>>,
        /// The reason, and what to do about it.
        reason: String,
    },
    /// Other transactions changed what a statement depends on, each time it was run.
    #[error("{statement}: other transactions changed the same rows {attempts} times in a row; run it again")]
    TooManyConflicts {
        /// The statement in short.
        statement: String,
        /// Number of times it was run.
        attempts: u32,
    },
    /// An object of a transaction was used after the end of the transaction.
    #[error("the transaction has ended; ask again")]
    TransactionOver,
    /// The caller cancelled the operation; the pool is unchanged.
    #[error("cancelled; the pool is as it was")]
    Cancelled,
}

impl EngineError {
    /// Returns the error for a column that a table lacks.
    #[doc(hidden)]
    pub fn no_column(table: &str, schema: &Schema, name: &str) -> Self {
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

impl EngineError {
    /// Returns true if the file system of the pool is full, or a limit of file sizes is reached.
    pub fn is_full(&self) -> bool {
        let pool = |error: &PoolError| matches!(error, PoolError::DiskFull { .. });
        match self {
            Self::Pool(error)
            | Self::Columns(ColumnsError::Pool(error))
            | Self::Elf(ElfError::Pool(error) | ElfError::Columns(ColumnsError::Pool(error)))
            | Self::Store(StoreError::Pool(error)) => pool(error),
            Self::Elf(ElfError::Write(source)) => {
                let column = source.downcast_ref::<ColumnsError>();
                let of_column =
                    column.is_some_and(|error| matches!(error, ColumnsError::Pool(error) if pool(error)));
                of_column || source.downcast_ref::<PoolError>().is_some_and(pool)
            }
            _ => false,
        }
    }

    /// Returns true if bytes of one object of the pool are damaged, so that others can be used all the same.
    #[doc(hidden)]
    pub fn is_damage(&self) -> bool {
        let pool = |error: &PoolError| {
            matches!(
                error,
                PoolError::ChecksumMismatch { .. }
                    | PoolError::NoSuchExtent { .. }
                    | PoolError::NotANode { .. }
            )
        };
        let columns = |error: &ColumnsError| match error {
            ColumnsError::Damaged { .. } => true,
            ColumnsError::Pool(error) => pool(error),
            _ => false,
        };
        match self {
            Self::Pool(error) => pool(error),
            Self::Columns(error) => columns(error),
            Self::Elf(ElfError::Damaged { .. } | ElfError::DamagedMeta { .. }) => true,
            Self::Elf(ElfError::Pool(error)) => pool(error),
            Self::Elf(ElfError::Columns(error)) => columns(error),
            _ => false,
        }
    }
}
/// Recursion limit of the parser, its default.
const PARSER_LEVELS: usize = 50;

/// Returns a phrase for error texts that lists the existing names.
pub fn known_names(kind: &str, names: &[String]) -> String {
    match names {
        [] => format!("it has no {kind} yet"),
        names if names.len() <= 12 => format!("it has {}", names.join(", ")),
        names => format!("it has {}, … ({} in all)", names[..12].join(", "), names.len()),
    }
}

fn row_text(row: Option<u64>) -> String {
    row.map_or_else(String::new, |row| format!(", row {row}"))
}

fn column_text(column: Option<&str>) -> String {
    column.map_or_else(String::new, |column| format!(", column {column}"))
}

impl From<KeyedError> for EngineError {
    fn from(error: KeyedError) -> Self {
        match error {
            KeyedError::Store {
                source: StoreError::Cancelled,
                ..
            } => Self::Cancelled,
            other => Self::Keyed(Box::new(other)),
        }
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

impl From<ArrowError> for EngineError {
    fn from(error: ArrowError) -> Self {
        from_datafusion(error.into())
    }
}

/// Finds our own error inside DataFusion's wrappers, or strips the wrappers' prefixes.
fn from_datafusion(error: DataFusionError) -> EngineError {
    use DataFusionError as E;
    if !matches!(error, E::External(_) | E::Context(..) | E::Diagnostic(..)) {
        if let Some(spill) = of_spill(&error) {
            return spill;
        }
        if let E::ResourcesExhausted(text) = error.find_root() {
            let text = format!(
                "the query needs more DRAM than the database may use; give it more (--memory): {text}"
            );
            let source = Box::new(error);
            return EngineError::DataFusion { text, source };
        }
    }
    let text = match error {
        E::External(inner) => match inner.downcast::<EngineError>() {
            Ok(own) => return *own,
            Err(other) => match other.downcast::<DataFusionError>() {
                Ok(wrapped) => return from_datafusion(*wrapped),
                Err(source) => {
                    let text = source.to_string();
                    return EngineError::DataFusion { text, source };
                }
            },
        },
        E::Context(_, inner) | E::Diagnostic(_, inner) => return from_datafusion(*inner),
        E::SQL(inner, _) if matches!(*inner, ParserError::RecursionLimitExceeded) => {
            return EngineError::TooDeep {
                what: "the statement",
                limit: PARSER_LEVELS,
                instead: "use fewer parentheses, functions and subqueries within each other",
            };
        }
        E::ArrowError(ref inner, _) => match &**inner {
            ArrowError::ArithmeticOverflow(text) => {
                let operation = text.strip_prefix("Overflow happened on: ").unwrap_or(text);
                format!(
                    "{operation} is not a value of its type; cast to decimal(38, 0) or double where values are that large"
                )
            }
            other => plain_text(&other.to_string()),
        },
        ref other => plain_text(&other.strip_backtrace()),
    };
    let source = Box::new(error);
    EngineError::DataFusion { text, source }
}

/// The beginning of errors about temporary files, by which they are recognised: what wraps them on their way
/// through DataFusion and Arrow keeps only their text.
const SPILL: &str = "cannot use temporary files in ";

/// Returns an error about a temporary file in a directory, for DataFusion.
pub fn spill_error(directory: &Path, source: &io::Error) -> io::Error {
    io::Error::new(source.kind(), format!("{SPILL}{}: {source}", directory.display()))
}

/// Returns the error of [`spill_error`], if that is the cause.
fn of_spill(error: &DataFusionError) -> Option<EngineError> {
    let text = error.to_string();
    let (directory, source) = text.split_once(SPILL)?.1.split_once(": ")?;
    Some(EngineError::Spill {
        directory: directory.into(),
        source: io::Error::other(source.to_owned()),
    })
}

/// Removes the categories DataFusion and Arrow put before a message.
fn plain_text(text: &str) -> String {
    const PREFIXES: [&str; 14] = [
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
        "Io error: ",
        "IO error: ",
    ];
    let mut text = text.trim();
    while let Some(rest) = PREFIXES.iter().find_map(|p| text.strip_prefix(p)) {
        text = rest.strip_suffix("\")").unwrap_or(rest);
    }
    no_function(text).unwrap_or_else(|| text.to_string())
}

/// Wraps an error of the engine for its way through DataFusion.
pub fn external(error: impl Into<EngineError>) -> DataFusionError {
    DataFusionError::External(Box::new(error.into()))
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
    fn full_directories_of_temporary_files_are_named() {
        let full = || spill_error(Path::new("/tmp/x"), &io::Error::from_raw_os_error(28));
        let wrapped = io::Error::other(DataFusionError::IoError(full()));
        for error in [
            DataFusionError::IoError(full()),
            ArrowError::IoError(full().to_string(), full()).into(),
            ArrowError::IoError(wrapped.to_string(), wrapped).into(),
        ] {
            let text = EngineError::from(error).to_string();
            assert!(
                text.starts_with("cannot use temporary files in /tmp/x: No space left"),
                "{text}"
            );
            assert!(text.contains("--temp-directory"), "{text}");
        }
        let other = DataFusionError::IoError(io::ErrorKind::NotFound.into());
        assert!(matches!(EngineError::from(other), EngineError::DataFusion { .. }));
    }

    #[test]
    fn own_errors_survive_the_way_through_datafusion() {
        let own = EngineError::Cancelled;
        let error =
            DataFusionError::Context("while".into(), Box::new(DataFusionError::External(Box::new(own))));
        assert!(matches!(EngineError::from(error), EngineError::Cancelled));
    }
}
