//! Errors of this crate.

use halocline_columns::ColumnsError;

/// What a join can fail with.
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
    /// There are more groups than an aggregate keeps.
    #[error("{groups} groups are more than the {most} that a star join keeps; join and group in two steps")]
    TooManyGroups {
        /// As many as there may be.
        groups: u128,
        /// As many as are allowed.
        most: usize,
    },
    /// The caller wanted it to end.
    #[error("the join was interrupted")]
    Interrupted,
}

/// Of this crate.
pub type Result<T, E = JoinError> = std::result::Result<T, E>;
