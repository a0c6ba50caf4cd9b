//! Options for opening a database and for building an index.

use std::path::PathBuf;
use std::time::Duration;

use halocline_emulator::EmulatedSpec;

use crate::settings::Compaction;

/// Options for opening a database.
#[non_exhaustive]
#[derive(Debug, Clone, Default)]
pub struct DatabaseOptions {
    /// Open for reading only; a file that may not be written is opened so in any case.
    pub read_only: bool,
    /// Allow statements to write files (`COPY … TO`) although `read_only` is set; they are refused
    /// otherwise. Temporary files of queries are written in any case.
    pub allow_writing_files: bool,
    /// On a page-cache file, make every published change survive power loss (an msync at each fence), not
    /// only the death of the process.
    pub strict: bool,
    /// Treat a file that cannot be mapped synchronously as persistent memory anyway (tests on tmpfs).
    pub assume_dax: bool,
    /// Threads a query may use, 1,024 at most, and one for each 16 MiB of `memory`; by default all.
    pub threads: Option<usize>,
    /// DRAM to use for imports, index builds, compaction and queries together, in bytes; by default a
    /// quarter of the machine's, where control groups (containers) and `ulimit -v` may leave less than it has.
    /// At least 32 MiB. What does not fit is spilled: by queries to temporary files, by all
    /// else to the pool. A query that cannot spill fails. Less than 1 GiB makes the C library's
    /// allocator keep little of what is freed, in the whole process.
    ///
    /// `SET halocline.memory` changes it.
    pub memory: Option<usize>,
    /// The directory for temporary files of queries; by default that of the pool, or the system's for a pool
    /// in memory and where no file can be made beside the pool. The files have no name there, and are gone
    /// when the query or the process ends.
    pub temp_directory: Option<PathBuf>,
    /// Time that a writing statement waits for another writer, of this or another process, before it fails;
    /// by default 5 seconds. `SET halocline.lock_wait` changes it for a session.
    pub lock_wait: Option<Duration>,
    /// Merges segments in the background if set to `Auto`. Off by default, so that a library starts no
    /// threads unasked. `SET halocline.compaction` changes it.
    pub compaction: Compaction,
    /// DRAM for the copies of all placed indexes together, in bytes, beside `memory`; `Some(0)` puts nothing
    /// in DRAM. By default half of `memory` where that is given, else a quarter of the machine's DRAM.
    /// `SET halocline.dram_budget` changes it.
    pub dram_budget: Option<u64>,
    /// Treat the pool as if it lay on this emulated medium: what is read and written is charged to it. For
    /// experiments; not for `Database::create_on` and
    /// `Database::open_on`, which are given a medium.
    pub medium: Option<EmulatedSpec>,
}

impl DatabaseOptions {
    /// Sets [`read_only`](Self::read_only).
    #[must_use]
    pub fn with_read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Sets [`allow_writing_files`](Self::allow_writing_files).
    #[must_use]
    pub fn with_allow_writing_files(self, allow_writing_files: bool) -> Self {
        Self {
            allow_writing_files,
            ..self
        }
    }

    /// Sets [`strict`](Self::strict).
    #[must_use]
    pub fn with_strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Sets [`assume_dax`](Self::assume_dax).
    #[must_use]
    pub fn with_assume_dax(self, assume_dax: bool) -> Self {
        Self { assume_dax, ..self }
    }

    /// Sets [`threads`](Self::threads).
    #[must_use]
    pub fn with_threads(self, threads: Option<usize>) -> Self {
        Self { threads, ..self }
    }

    /// Sets [`memory`](Self::memory).
    #[must_use]
    pub fn with_memory(self, memory: Option<usize>) -> Self {
        Self { memory, ..self }
    }

    /// Sets [`temp_directory`](Self::temp_directory).
    #[must_use]
    pub fn with_temp_directory(self, temp_directory: Option<PathBuf>) -> Self {
        Self {
            temp_directory,
            ..self
        }
    }

    /// Sets [`lock_wait`](Self::lock_wait).
    #[must_use]
    pub fn with_lock_wait(self, lock_wait: Option<Duration>) -> Self {
        Self { lock_wait, ..self }
    }

    /// Sets [`compaction`](Self::compaction).
    #[must_use]
    pub fn with_compaction(self, compaction: Compaction) -> Self {
        Self { compaction, ..self }
    }

    /// Sets [`dram_budget`](Self::dram_budget).
    #[must_use]
    pub fn with_dram_budget(self, dram_budget: Option<u64>) -> Self {
        Self { dram_budget, ..self }
    }

    /// Sets [`medium`](Self::medium).
    #[must_use]
    pub fn with_medium(self, medium: Option<EmulatedSpec>) -> Self {
        Self { medium, ..self }
    }
}
