//! The kinds of memory and the sizes that they share: [`MediumKind`], [`LINE`], [`PAGE`], [`HOLE`].

use std::fmt;

/// Bytes of a cache line: what one flush writes back, and the scope in which stores stay in order.
pub const LINE: u64 = 64;

/// Bytes of a page: lengths of media are rounded up to it.
pub const PAGE: u64 = 4096;

/// Holes start and end at multiples of this: the kernel may keep so much of a file in one piece, and asks for blocks for
/// all of it when any page of it is stored to.
pub const HOLE: u64 = 2 << 20;

/// What a medium is, and with it what a fence on it means. `Display` is for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediumKind {
    /// Anonymous memory of this process: gone when it ends.
    Dram,
    /// A file on a DAX file system, mapped with `MAP_SYNC`: a fence is durable.
    Dax,
    /// A file mapped through the page cache that is *treated* as DAX: a flush is issued, a fence counted as
    /// durable although it is not. For measurements on DRAM-backed files; says so wherever it is displayed.
    AssumedDax,
    /// A file mapped through the page cache.
    PageCache {
        /// Whether each fence is an `msync`. If not, a fence orders stores and survives the end of the
        /// process; power loss is survived up to the last [`Medium::sync`](crate::Medium::sync).
        strict: bool,
    },
    /// Memory that records every store, for crash tests; behaves as DAX.
    Tracked,
}

impl MediumKind {
    /// Bytes of the memory's own unit of access: 256 for DAX (that of Optane), a page for a page-cache file,
    /// else a line.
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
