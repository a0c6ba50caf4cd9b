//! Errors of tables with a primary key.

use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType};
use halocline_store::StoreError;

/// Result of an operation on tables with a primary key.
pub type Result<T, E = KeyedError> = std::result::Result<T, E>;

/// A failure of an operation on tables with a primary key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyedError {
    /// The store of a table could not be read or written.
    #[error("table {table}: {source}")]
    Store {
        /// The table.
        table: String,
        /// The error of the store.
        source: StoreError,
    },
    /// The list of tables could not be read or written.
    #[error("the list of tables with a primary key: {0}")]
    List(StoreError),
    /// A type that these tables do not store.
    #[error(
        "table {table}, column {column}: a table with a primary key does not store {data_type}; cast it, or leave out \
         PRIMARY KEY"
    )]
    Type {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A primary key without columns, or with one that the table does not have or that occurs twice.
    #[error("table {table}: PRIMARY KEY ({columns}) {reason}")]
    Key {
        /// The table.
        table: String,
        /// The columns named.
        columns: String,
        /// The reason, with a hint on what to do.
        reason: &'static str,
    },
    /// Two columns have the same name.
    #[error("table {table}: there are two columns named {column}; rename one")]
    Column {
        /// The table.
        table: String,
        /// The name.
        column: String,
    },
    /// The key columns of a row take too many bytes.
    #[error(
        "table {table}, row {row}: its primary key takes {bytes} bytes, and at most {most} are possible; use a shorter key"
    )]
    KeyTooLong {
        /// The table.
        table: String,
        /// The row among those written, from 1.
        row: u64,
        /// Bytes of its key, encoded.
        bytes: usize,
        /// Bytes that a key may have.
        most: usize,
    },
    /// The other columns of a row take too many bytes.
    #[error(
        "table {table}, row {row}: its columns besides the primary key take {bytes} bytes, and at most {most} are possible; \
         split the row, or keep large values elsewhere"
    )]
    RowTooLong {
        /// The table.
        table: String,
        /// The row among those written, from 1.
        row: u64,
        /// Bytes of its value, encoded.
        bytes: usize,
        /// Bytes that a value may have.
        most: usize,
    },
    /// NULL in a key column.
    #[error("table {table}, row {row}, column {column}: is NULL, but belongs to the primary key")]
    NullKey {
        /// The table.
        table: String,
        /// The row among those written, from 1.
        row: u64,
        /// The column.
        column: String,
    },
    /// A pair of a table's store is no row, or its definition none.
    #[error(
        "table {table}: {what} cannot be read; if another program has written to the store {store}, delete what it wrote, else \
         restore a backup"
    )]
    Damaged {
        /// The table.
        table: String,
        /// Its store.
        store: String,
        /// The damaged part.
        what: String,
    },
    /// A newer version has written the definition of a table.
    #[error("table {table} was created by a newer version of Halocline; use that one")]
    NewerFormat {
        /// The table.
        table: String,
    },
    /// A table was changed, or another one took its place, while a statement read or loaded its rows.
    #[error("table {table} was changed meanwhile; run the statement again")]
    Changed {
        /// The table.
        table: String,
    },
    /// A row that a statement adds has the key of another one.
    #[error("table {table}: two rows have the key '{}'", key.escape_ascii())]
    DuplicateRow {
        /// The table.
        table: String,
        /// The key, encoded.
        key: Vec<u8>,
        /// The number that the row was given.
        number: u64,
        /// True if the statement adds the other one as well.
        by_statement: bool,
    },
    /// Two rows have the same values in the columns of a unique constraint.
    #[error("table {table}: two rows have the same {columns}, which the constraint '{name}' forbids")]
    NotUnique {
        /// The table.
        table: String,
        /// The constraint.
        name: String,
        /// Its columns.
        columns: String,
        /// The values, as arrays of one value.
        values: Vec<ArrayRef>,
    },
    /// The columns of a unique constraint take too many bytes in a row.
    #[error(
        "table {table}: the columns of the constraint '{name}' take {bytes} bytes in a row, and at most {most} are possible; \
         use shorter values, or drop the constraint"
    )]
    UniqueTooLong {
        /// The table.
        table: String,
        /// The constraint.
        name: String,
        /// Bytes of the columns, encoded.
        bytes: usize,
        /// Bytes that they may have.
        most: usize,
    },
    /// A statement gives a row several new values.
    #[error("table {table}: the row with the key '{}' has several new values", key.escape_ascii())]
    UpdatedTwice {
        /// The table.
        table: String,
        /// The key of the row, encoded.
        key: Vec<u8>,
    },
    /// The statement was interrupted.
    #[error("table {table}: the statement was interrupted")]
    Cancelled {
        /// The table.
        table: String,
    },
    /// The name is taken.
    #[error("table '{name}' exists already; drop it first, or choose another name")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no such table.
    #[error("there is no table '{name}' with a primary key")]
    NoTable {
        /// The name.
        name: String,
    },
    /// Arrow refused columns.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}
