//! Errors. Each message names the object and says what to do next.

use halocline_media::BlockDamage;

/// Errors of building, opening and searching an Elf.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The bytes are not an Elf.
    #[error("not an Elf index: the bytes start with {found:02x?}; was another object opened?")]
    NotAnElf {
        /// The first bytes found (fewer than eight in a shorter buffer).
        found: Vec<u8>,
    },
    /// The index was written by a newer program.
    #[error(
        "the index has format version {found}, this program reads up to {supported}; use a newer halocline"
    )]
    NewerVersion {
        /// Version in the header.
        found: u16,
        /// Newest version this program reads.
        supported: u16,
    },
    /// The bytes contradict themselves.
    #[error(
        "the index is damaged at offset {offset}: {what}; drop and rebuild it (`check` tells what else is damaged)"
    )]
    Damaged {
        /// Offset in the index bytes.
        offset: u64,
        /// The invariant that does not hold.
        what: &'static str,
    },
    /// A block of the index does not match its checksum.
    #[error(
        "the {len} bytes at {offset} of {object} do not match their checksum: the file is damaged; run `halocline check` for all \
         damage, then drop the index and create it again"
    )]
    DamagedBlock {
        /// The index, and which of its extents.
        object: String,
        /// Where the block begins in the extent.
        offset: u64,
        /// Bytes of the block.
        len: u64,
    },
    /// A point or a predicate list of the wrong length.
    #[error(
        "the index has {expected} dimensions, the query gives {found}; give one value or predicate for each"
    )]
    WrongDimensions {
        /// Dimensions of the index.
        expected: usize,
        /// Number of values or predicates in the query.
        found: usize,
    },
    /// A row holds a code above what its dimension promised.
    #[error(
        "row {row} has code {code} in dimension {dim}, above the stated maximum {max}; fix `Rows::max_code`"
    )]
    CodeOutOfRange {
        /// Dimension.
        dim: usize,
        /// Row with the code.
        row: usize,
        /// The code.
        code: u64,
        /// The maximum that `Rows::max_code` returned.
        max: u64,
    },
    /// Too many rows or dimensions for one index.
    #[error(
        "{what} is {found}, one index holds at most {limit}; split the table into segments or index fewer columns"
    )]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// Its size.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// Spilling or writing failed.
    #[error("writing the index failed: {0}")]
    Write(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No index of this name in the pool.
    #[error("there is no index `{name}` in the pool; the names of its objects are in `info`")]
    NoSuchIndex {
        /// The requested name.
        name: String,
    },
    /// An index's metadata cannot be understood.
    #[error("the metadata of index `{name}` is damaged: {reason}; drop and rebuild it")]
    DamagedMeta {
        /// The index.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The table was written anew after the index was built.
    #[error("index `{name}` was built on another version of table `{table}`; drop and rebuild it")]
    Stale {
        /// The index.
        name: String,
        /// Its table.
        table: String,
    },
    /// A column has no codes and cannot be ranked.
    #[error("column `{column}` cannot be indexed: {reason}; leave it out")]
    NotIndexable {
        /// The column.
        column: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no memory for a copy.
    #[error(transparent)]
    Memory(#[from] halocline_media::MediaError),
    /// A placement that this index cannot have.
    #[error("placement `{placement}`: {reason}")]
    Placement {
        /// The placement.
        placement: halocline_cache::Placement,
        /// The reason, and what to do.
        reason: String,
    },
    /// The sample of queries for advice is empty.
    #[error(
        "no query of the sample has a condition on the index's columns; give queries as the index is to answer them"
    )]
    NoQueries,
    /// The pool reported an error.
    #[error(transparent)]
    Pool(#[from] halocline_pool::PoolError),
    /// The table's columns could not be read.
    #[error(transparent)]
    Columns(#[from] halocline_columns::ColumnsError),
    /// The caller cancelled a build.
    #[error("building the index was cancelled; nothing was changed")]
    Cancelled,
    /// The build's threads could not be started.
    #[error("cannot start {threads} build threads: {reason}; build with fewer")]
    Threads {
        /// The requested number of threads.
        threads: usize,
        /// The reason.
        reason: String,
    },
}

impl From<BlockDamage> for ElfError {
    fn from(block: BlockDamage) -> Self {
        let BlockDamage { object, offset, len } = block;
        Self::DamagedBlock { object, offset, len }
    }
}

impl ElfError {
    pub(crate) fn damaged(offset: usize, what: &'static str) -> Self {
        Self::Damaged {
            offset: offset as u64,
            what,
        }
    }
}

/// Result of this crate's functions.
pub type Result<T, E = ElfError> = std::result::Result<T, E>;
