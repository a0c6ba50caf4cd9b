//! Errors of tables, and what to do about them.

use arrow_schema::{ArrowError, DataType};
use halocline_pool::PoolError;

/// An error of this crate. Every message names the column (and row or chunk) it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// The table's schema holds a type that cannot be stored.
    #[error(
        "column `{column}` has type {data_type}, which tables cannot store; cast it to an integer, float, decimal (up to 128 bits), date, time, timestamp, duration, boolean, string or binary type"
    )]
    UnsupportedType {
        /// Column name.
        column: String,
        /// Its Arrow type.
        data_type: DataType,
    },
    /// A NULL for a column declared NOT NULL.
    #[error("column `{column}`, row {row}: NULL in a NOT NULL column")]
    NullInNotNull {
        /// Column name.
        column: String,
        /// Row in the table, counted from 0.
        row: u64,
    },
    /// A batch does not have the table's columns.
    #[error("a batch of {got} columns was written to a table of {expected}")]
    ColumnCount {
        /// Columns of the table.
        expected: usize,
        /// Columns of the batch.
        got: usize,
    },
    /// Two columns of one table have the same name.
    #[error("column `{column}` appears twice; rename one of them")]
    DuplicateColumn {
        /// The name.
        column: String,
    },
    /// An array or value of another type than the column's.
    #[error("column `{column}` holds {expected}, not {got}; cast the value first")]
    TypeMismatch {
        /// Column name, or what the values are for.
        column: String,
        /// Type of the column.
        expected: DataType,
        /// Type of the value.
        got: DataType,
    },
    /// A value or code that the column's code space does not contain.
    #[error("{what} is not in the code space of the column (codes 0..={max_code})")]
    OutsideDomain {
        /// The value or code.
        what: String,
        /// Largest code.
        max_code: u64,
    },
    /// An operation on codes was asked of a column that has none.
    #[error(
        "column `{column}` has no codes (its strings, or decimals of more than 64 bits, are stored as they are, or it spans all 64 bits beside NULLs); filter its values instead"
    )]
    NoCodes {
        /// Column name.
        column: String,
    },
    /// Rows beyond the end were asked for.
    #[error("rows {start}..{end} were asked of a segment of {rows}")]
    RowsOutOfRange {
        /// First row asked for.
        start: u64,
        /// End of the rows asked for.
        end: u64,
        /// Rows there are.
        rows: u64,
    },
    /// There is no table of this name.
    #[error("there is no table `{name}` in this pool; `halocline info` lists its tables")]
    NoSuchTable {
        /// Table name.
        name: String,
    },
    /// The table has no column of this name.
    #[error("table `{table}` has no column `{column}`; `halocline info {table}` lists its columns")]
    NoSuchColumn {
        /// Table name.
        table: String,
        /// The column asked for.
        column: String,
    },
    /// The table has no segment of this id.
    #[error(
        "table `{table}` has no segment {segment}: it was replaced or all its rows were deleted; open the table again"
    )]
    NoSuchSegment {
        /// Table name.
        table: String,
        /// The segment asked for.
        segment: u64,
    },
    /// A row that a segment does not have.
    #[error("table `{table}`, segment {segment} has {rows} rows, none of number {row}; open the table again")]
    NoSuchRow {
        /// Table name.
        table: String,
        /// Segment id.
        segment: u64,
        /// The row asked for.
        row: u64,
        /// Rows there are.
        rows: u64,
    },
    /// A table of this name is there already.
    #[error("there is a table `{name}` already; choose another name, or drop it first")]
    TableExists {
        /// Table name.
        name: String,
    },
    /// A merge was asked to end.
    #[error("merging segments of table `{table}` was cancelled; nothing was changed")]
    Cancelled {
        /// Table name.
        table: String,
    },
    /// Ranking the strings of a column was asked to end.
    #[error("ranking the strings of column `{column}` was cancelled; nothing was changed")]
    RankingCancelled {
        /// Column name.
        column: String,
    },
    /// A new NOT NULL column of a table with rows needs a value for them.
    #[error(
        "column `{column}` is NOT NULL, and table `{table}` has {rows} rows that need a value; give a default, or let it be NULL"
    )]
    DefaultNeeded {
        /// Table name.
        table: String,
        /// The new column.
        column: String,
        /// Rows of the table.
        rows: u64,
    },
    /// The table was written by a newer program.
    #[error("table `{name}` has format version {version}, this program reads up to {supported}; update it")]
    NewerFormat {
        /// Table name.
        name: String,
        /// Version found.
        version: u32,
        /// Newest version this program reads.
        supported: u32,
    },
    /// Stored bytes contradict the format.
    #[error(
        "damaged table data at {place}: {what}; run `halocline check` for the extent, and restore or import the table again"
    )]
    Damaged {
        /// Table, column and chunk.
        place: String,
        /// The fault.
        what: String,
    },
    /// More than the format can hold.
    #[error("{what}; split the table")]
    TooLarge {
        /// The part that is too large.
        what: String,
    },
    /// The pool refused.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Arrow refused; a defect of this program unless the data is damaged.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// Result of this crate.
pub type Result<T, E = ColumnsError> = std::result::Result<T, E>;

/// Creates a [`ColumnsError::Damaged`] for stored bytes.
pub(crate) fn damaged(place: impl Into<String>, what: impl Into<String>) -> ColumnsError {
    ColumnsError::Damaged {
        place: place.into(),
        what: what.into(),
    }
}
