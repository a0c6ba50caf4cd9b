//! The kinds of memory and their common sizes: [`MediumKind`], [`LINE`], [`PAGE`], [`HOLE`].

use std::fmt;

/// Bytes of a cache line: the unit of a flush, and the scope in which stores stay in order.
pub const LINE: u64 = 64;

/// Bytes of a page, to which lengths of media are rounded up.
pub const PAGE: u64 = 4096;

/// Alignment and size unit of holes, in bytes. The kernel may manage a file in pieces of this size, and
/// allocates the blocks of a whole piece when any page of it is written.
pub const HOLE: u64 = 2 << 20;

/// The kind of a medium, which determines the meaning of a fence. `Display` is for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediumKind {
    /// Anonymous memory of this process, lost when it ends.
    Dram,
    /// A file on a DAX file system, mapped with `MAP_SYNC`: a fence is durable.
    Dax,
    /// A file mapped through the page cache that is *treated* as DAX: flushes are issued, and a fence counts
    /// as durable although it is not. For measurements on DRAM-backed files; its display name says so.
    AssumedDax,
    /// A file mapped through the page cache.
    PageCache {
        /// True to make each fence an `msync`. Otherwise a fence orders stores, which survive the end of the
        /// process; power loss is survived up to the last [`Medium::sync`](crate::Medium::sync).
        strict: bool,
    },
    /// Memory that records every store, for crash tests. Behaves like DAX.
    Tracked,
}

impl MediumKind {
    /// Returns the memory's own unit of access in bytes: 256 for DAX (that of Optane), a page for a
    /// page-cache file, otherwise a line.
    pub fn unit(self) -> u64 {
        match self {
            MediumKind::Dax => 256,
            MediumKind::PageCache { .. } => PAGE,
            MediumKind::Dram | MediumKind::AssumedDax | MediumKind::Tracked => LINE,
        }
    }
}

impl fmt::Display for MediumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MediumKind::Dram => "DRAM",
            MediumKind::Dax => "DAX file",
            MediumKind::AssumedDax => "page-cache file assumed to be DAX (benchmarks only, not durable)",
            MediumKind::PageCache { strict: false } => "page-cache file (default durability)",
            MediumKind::PageCache { strict: true } => "page-cache file (strict durability)",
            MediumKind::Tracked => "tracked memory (crash tests)",
        })
    }
}
