//! Options for opening a database and for building an index.

use std::time::Duration;

use halocline_elf::{Layout, Order};
use halocline_media::EmulatedSpec;

use crate::Compaction;

/// How a database is opened.
#[derive(Debug, Clone, Default)]
pub struct DatabaseOptions {
    /// Open for reading only; a file that may not be written is opened so in any case.
    pub read_only: bool,
    /// Let statements write files (`COPY … TO`) although `read_only` is set: without this they are refused there.
    /// Temporary files of queries are written in any case.
    pub allow_writing_files: bool,
    /// On a page-cache file: every published change survives power loss (an msync at each fence), not only the death
    /// of the process.
    pub strict: bool,
    /// Take a file that cannot be mapped synchronously for persistent memory all the same (tests on tmpfs).
    pub assume_dax: bool,
    /// Threads a query may use, 1,024 at most, and one for each 16 MiB of `memory`; by default all.
    pub threads: Option<usize>,
    /// DRAM to use for imports, index builds, compaction and queries together, in bytes; by default a quarter of the
    /// machine's. What does not fit is spilled: by queries to temporary files, by all else to the pool. A query that cannot
    /// spill fails. Less than 1 GiB makes the C library's allocator keep little of what is freed, in the whole process.
    pub memory: Option<usize>,
    /// How long a statement that writes waits for another writer, of this process or another, before it fails; by
    /// default 5 seconds. `SET halocline.lock_wait` changes it for a session.
    pub lock_wait: Option<Duration>,
    /// Whether segments are merged in the background; by default they are not, so that a library starts no threads
    /// unasked. `SET halocline.compaction` changes it.
    pub compaction: Compaction,
    /// DRAM for the copies of all placed indexes together, in bytes, beside `memory`; `Some(0)` puts nothing in DRAM. By
    /// default half of `memory` where that is given, else as much as the indexes' placements ask for.
    /// `SET halocline.dram_budget` changes it.
    pub dram_budget: Option<u64>,
    /// Treat the pool as if it lay on this emulated medium: what is read and written is charged to it. For experiments; not
    /// for [`Database::create_on`] and [`Database::open_on`], which are given a medium.
    pub medium: Option<EmulatedSpec>,
}

/// An index to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSpec {
    /// Its name.
    pub name: String,
    /// The table.
    pub table: String,
    /// The columns.
    pub columns: Vec<String>,
    /// Layout of the tree.
    pub layout: Layout,
    /// Order of its dimensions.
    pub order: Order,
}
