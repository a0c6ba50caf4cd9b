//! Errors of this crate.

use halocline_columns::ColumnsError;

/// An error of a join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A table could not be read.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// Two rows of a dimension have the same key: every match would count twice.
    #[error("two rows of a dimension have the key {key}: this join takes dimensions of unique keys alone")]
    DuplicateKey {
        /// The key.
        key: i64,
    },
    /// The columns of a dimension's keys have more combinations of values than 63 bits can number.
    #[error(
        "the {columns} columns of a key range over more combinations than 63 bits can number; join by fewer of them"
    )]
    KeyTooWide {
        /// Number of columns of the key.
        columns: usize,
    },
    /// There are more groups than the limit.
    #[error("{groups} groups are more than the {most} that a star join keeps; join and group in two steps")]
    TooManyGroups {
        /// The number of possible groups.
        groups: u128,
        /// The limit.
        most: u64,
    },
    /// The memory limit leaves too little for the groups.
    #[error(
        "the groups of an aggregate need {bytes} bytes more than the memory limit allows; raise --memory"
    )]
    Memory {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// A value that is aggregated is outside of its type.
    #[error(
        "{operation} is not a value of type {data_type}; cast to decimal(38, 0) or double where values are that large"
    )]
    Overflow {
        /// The operation with its operands.
        operation: String,
        /// The type, as a SQL user writes it.
        data_type: &'static str,
    },
    /// The caller cancelled the join.
    #[error("the join was interrupted")]
    Interrupted,
}

/// The result type of this crate.
pub type JoinResult<T> = Result<T, JoinError>;
