//! Opening a database with options that are named one by one: [`DatabaseBuilder`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use halocline_emulator::EmulatedSpec;

use crate::{Compaction, Database, DatabaseOptions, EngineError};

/// Options for a database, and where it is. Made by [`Database::builder`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use halocline_engine::Database;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("p");
/// let db = Database::builder(&path).memory(256 << 20).threads(2).create()?;
/// # drop(db);
/// let reader = Database::builder(&path).read_only(true).open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is opened before `open` or `create`"]
pub struct DatabaseBuilder {
    path: PathBuf,
    options: DatabaseOptions,
}

impl Database {
    /// Returns a builder for the pool at `path`.
    pub fn builder(path: impl AsRef<Path>) -> DatabaseBuilder {
        DatabaseBuilder {
            path: path.as_ref().to_owned(),
            options: DatabaseOptions::default(),
        }
    }
}

impl DatabaseBuilder {
    /// Sets whether it is opened for reading only: [`DatabaseOptions::read_only`].
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.options.read_only = read_only;
        self
    }

    /// Sets whether each published change survives power loss on a page-cache file:
    /// [`DatabaseOptions::strict`].
    pub fn strict(mut self, strict: bool) -> Self {
        self.options.strict = strict;
        self
    }

    /// Sets the number of threads of a query: [`DatabaseOptions::threads`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = Some(threads);
        self
    }

    /// Sets the DRAM for statements in bytes: [`DatabaseOptions::memory`].
    pub fn memory(mut self, bytes: usize) -> Self {
        self.options.memory = Some(bytes);
        self
    }

    /// Sets the directory for temporary files: [`DatabaseOptions::temp_directory`].
    pub fn temp_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.options.temp_directory = Some(directory.into());
        self
    }

    /// Sets the DRAM for copies of indexes in bytes: [`DatabaseOptions::dram_budget`].
    pub fn dram_budget(mut self, bytes: u64) -> Self {
        self.options.dram_budget = Some(bytes);
        self
    }

    /// Sets how long a writing statement waits for another writer: [`DatabaseOptions::lock_wait`].
    pub fn lock_wait(mut self, time: Duration) -> Self {
        self.options.lock_wait = Some(time);
        self
    }

    /// Sets whether segments are merged in the background: [`DatabaseOptions::compaction`].
    pub fn compaction(mut self, compaction: Compaction) -> Self {
        self.options.compaction = compaction;
        self
    }

    /// Sets the emulated medium that the pool is charged to: [`DatabaseOptions::medium`].
    pub fn medium(mut self, medium: EmulatedSpec) -> Self {
        self.options.medium = Some(medium);
        self
    }

    /// Opens the pool.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open(&self) -> Result<Database, EngineError> {
        Database::open(&self.path, &self.options)
    }

    /// Creates the pool and opens it.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub fn create(&self) -> Result<Database, EngineError> {
        Database::create(&self.path, &self.options)
    }
}
