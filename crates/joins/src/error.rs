//! Errors of this crate.

use std::error::Error;
use std::io;

use arrow_schema::{ArrowError, DataType};
use halocline_columns::ColumnsError;
use halocline_media::MediaError;
use halocline_pool::PoolError;

/// An error of a join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A table could not be read. An error of a pool that spilled rows are written to, and one of the system
    /// that provides no more memory, are [`ColumnsError::Pool`].
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
    /// Arrow could not build or convert an array.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// An input of a join could not be read.
    #[error("cannot read an input of the join: {0}")]
    Source(#[source] Box<dyn Error + Send + Sync>),
    /// The receiver of the joined rows, or the filter of pairs, failed.
    #[error("cannot process the rows of the join: {0}")]
    Sink(#[source] Box<dyn Error + Send + Sync>),
    /// Rows could not be written to spill space or read back.
    #[error(
        "{place}: cannot {operation} {bytes} bytes of a join's rows: {source}; free space there or raise the \
         memory limit"
    )]
    Spill {
        /// The directory or pool.
        place: String,
        /// `write` or `read`.
        operation: &'static str,
        /// Number of bytes.
        bytes: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// Spilled rows were read back changed.
    #[error("{place}: {bytes} bytes of a join's rows at offset {offset} are damaged; check this device")]
    SpillDamaged {
        /// The directory or pool.
        place: String,
        /// Position in the spill space.
        offset: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// Keys of different types are compared.
    #[error("a join compares a key of type {build} with one of type {probe}; cast one of them")]
    KeyTypes {
        /// Type of the key of the build side.
        build: DataType,
        /// Type of the key of the probe side.
        probe: DataType,
    },
    /// A join has no keys, or another number of them on either side.
    #[error("a join takes as many keys on both sides, and at least one; it has {build} and {probe}")]
    KeyCount {
        /// Keys of the build side.
        build: usize,
        /// Keys of the probe side.
        probe: usize,
    },
    /// A column does not exist.
    #[error("a join refers to column {column} of {columns}")]
    NoSuchColumn {
        /// Index of the column.
        column: usize,
        /// Number of columns.
        columns: usize,
    },
    /// A column has a type that joins do not carry.
    #[error("a join cannot carry a column of type {data_type}; leave it out or cast it")]
    UnsupportedType {
        /// The type.
        data_type: DataType,
    },
    /// A value is too long.
    #[error("a value of {bytes} bytes is longer than the {most} bytes that a join carries")]
    ValueTooLong {
        /// Length of the value.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The options of a join contradict each other.
    #[error("{0}")]
    Unsupported(&'static str),
    /// An input that can be read once would have to be read again.
    #[error("this join reads an input several times, which it does not permit; use the hybrid join")]
    ReadOnce,
    /// A join does not fit the memory limit.
    #[error(
        "a join needs {bytes} bytes more than the memory limit of {limit} bytes allows; raise the limit or \
         use a join that spills"
    )]
    JoinMemory {
        /// Bytes that were asked for.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The caller cancelled the join.
    #[error("the join was interrupted")]
    Interrupted,
}

impl From<PoolError> for JoinError {
    fn from(error: PoolError) -> Self {
        Self::Columns(error.into())
    }
}

impl From<MediaError> for JoinError {
    fn from(error: MediaError) -> Self {
        PoolError::from(error).into()
    }
}

/// The result type of this crate.
pub type JoinResult<T> = Result<T, JoinError>;
