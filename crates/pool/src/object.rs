//! The parts of an object: its kind, [`ObjectKind`], and references to its extents, [`ExtentRef`].

use std::fmt;
use std::ops::Range;

use crate::layout::{BLOCK, DATA_START, blocks};
use crate::sums;

/// The kind of an object. The pool interprets only logs and slabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKind(pub u32);

impl ObjectKind {
    /// A table: columns in extents.
    pub const TABLE: ObjectKind = ObjectKind(1);
    /// An index on a table.
    pub const INDEX: ObjectKind = ObjectKind(2);
    /// A log: one extent that is appended to, created by [`Txn::put_log`](crate::Txn::put_log).
    pub const LOG: ObjectKind = ObjectKind(3);
    /// A slab: extents of nodes that are changed in place, created by
    /// [`Pool::create_slab`](crate::Pool::create_slab).
    pub const SLAB: ObjectKind = ObjectKind(4);

    /// Changes to key-value stores that were committed with the generation.
    pub const BATCH: ObjectKind = ObjectKind(5);
    /// A definition without data, which is its metadata: a view.
    pub const DEFINITION: ObjectKind = ObjectKind(6);

    /// Returns true if its extents change while they are published.
    pub(crate) fn is_mutable(self) -> bool {
        self == ObjectKind::LOG || self == ObjectKind::SLAB
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ObjectKind::TABLE => f.write_str("table"),
            ObjectKind::INDEX => f.write_str("index"),
            ObjectKind::LOG => f.write_str("log"),
            ObjectKind::SLAB => f.write_str("slab"),
            ObjectKind::BATCH => f.write_str("batch"),
            ObjectKind::DEFINITION => f.write_str("definition"),
            ObjectKind(other) => write!(f, "object of kind {other}"),
        }
    }
}

/// The location and checksum of immutable bytes in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtentRef {
    /// Offset of the first byte from the start of the pool, a multiple of 4 KiB.
    pub offset: u64,
    /// Length in bytes. The extent occupies whole blocks of 4 KiB, and none if it is empty.
    pub len: u64,
    /// xxh3-64 of the bytes; for a log, the number that its chain of records starts from; for a slab, 0.
    pub checksum: u64,
    /// True if checksums of its blocks follow it, in blocks of their own.
    pub sums: bool,
}

impl ExtentRef {
    /// Creates a reference to an extent without block checksums.
    pub(crate) fn plain(offset: u64, len: u64, checksum: u64) -> ExtentRef {
        ExtentRef {
            offset,
            len,
            checksum,
            sums: false,
        }
    }

    /// Returns the range of blocks that the extent occupies, including those of its checksums.
    pub(crate) fn space(&self) -> Range<u64> {
        let sums = if self.sums { sums::space_of(self.len) } else { 0 };
        self.offset..self.offset + blocks(self.len) + sums
    }
}

/// Returns true if an extent's blocks lie in the data of a pool of this length.
pub(crate) fn in_bounds(offset: u64, len: u64, file_len: u64) -> bool {
    let end = len
        .checked_next_multiple_of(BLOCK)
        .and_then(|space| offset.checked_add(space));
    offset >= DATA_START && offset.is_multiple_of(BLOCK) && end.is_some_and(|end| end <= file_len)
}
