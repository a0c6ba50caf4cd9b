//! `Database`: a pool with SQL.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::import::{ImportOptions, ImportProgress, ImportReport};
use crate::info::{CheckProgress, CheckReport, IndexInfo, Info};
use crate::{EngineError, QueryResult};

/// How a database is opened.
#[derive(Debug, Clone, Default)]
pub struct DatabaseOptions {
    /// Open for reading only; a file that may not be written is opened so in any case.
    pub read_only: bool,
    /// On a page-cache file: every published change survives power loss (an msync at each fence), not only the death
    /// of the process.
    pub strict: bool,
    /// Take a file that cannot be mapped synchronously for persistent memory all the same (tests on tmpfs).
    pub assume_dax: bool,
    /// Threads a query may use; by default all.
    pub threads: Option<usize>,
    /// DRAM an index build or a sort may use, in bytes; by default a quarter of the machine's.
    pub memory: Option<usize>,
}

/// Layout of an Elf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Ours: packed codes, lists searched with SIMD, several points in flight.
    #[default]
    Packed,
    /// The one of the ICDE'17 paper, as a baseline.
    Published,
}

/// Order of the dimensions of an Elf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Chosen from the data.
    #[default]
    Auto,
    /// As the columns were given.
    Given,
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

/// A pool seen as a SQL catalog. Cheap to clone; clones share settings, [`Database::session`] gives independent ones.
#[derive(Clone)]
pub struct Database {}

impl Database {
    /// Makes a new pool at `path`.
    ///
    /// # Errors
    /// The file exists, or cannot be made.
    pub fn create(path: &Path, options: &DatabaseOptions) -> Result<Self, EngineError> {
        todo!("{path:?} {options:?}")
    }

    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// No such file, not a pool, a newer format, damage.
    pub fn open(path: &Path, options: &DatabaseOptions) -> Result<Self, EngineError> {
        todo!("{path:?} {options:?}")
    }

    /// A pool in DRAM that ends with the process.
    ///
    /// # Errors
    /// No memory.
    pub fn in_memory(options: &DatabaseOptions) -> Result<Self, EngineError> {
        todo!("{options:?}")
    }

    /// Another session on the same pool: its own settings (`SET …`) and external tables.
    pub fn session(&self) -> Self {
        todo!()
    }

    /// Runs one statement. Statements that write have done so on return; rows stream as they are asked for.
    ///
    /// # Errors
    /// The statement cannot be parsed, planned, is not supported, or failed; the pool is then as it was.
    pub async fn sql(&self, text: &str) -> Result<QueryResult, EngineError> {
        todo!("{text}")
    }

    /// Splits a script at its semicolons (not those in quotes or comments).
    ///
    /// # Errors
    /// The text cannot be parsed.
    pub fn split(&self, script: &str) -> Result<Vec<String>, EngineError> {
        todo!("{script}")
    }

    /// Imports files into a new table, all or nothing. Blocks; `progress` is called a few times per second from
    /// this thread; setting `cancel` ends the import with [`EngineError::Cancelled`].
    ///
    /// # Errors
    /// A malformed file names itself and the place; the table exists; the pool cannot be written.
    pub fn import(
        &self,
        table: &str,
        files: &[PathBuf],
        options: &ImportOptions,
        progress: &mut dyn FnMut(&ImportProgress),
        cancel: &AtomicBool,
    ) -> Result<ImportReport, EngineError> {
        let _ = (table, files, options, progress, cancel);
        todo!()
    }

    /// Builds an Elf over columns of a table. Blocks.
    ///
    /// # Errors
    /// No such table or column, the name is taken, the pool cannot be written.
    pub fn create_index(&self, spec: &IndexSpec) -> Result<IndexInfo, EngineError> {
        todo!("{spec:?}")
    }

    /// Drops a table (with its indexes) or an index of that name.
    ///
    /// # Errors
    /// There is neither; the pool cannot be written.
    pub fn drop(&self, name: &str) -> Result<String, EngineError> {
        todo!("{name}")
    }

    /// What is in the pool.
    ///
    /// # Errors
    /// An object cannot be read.
    pub fn info(&self) -> Result<Info, EngineError> {
        todo!()
    }

    /// Verifies every checksum and invariant; reads everything.
    ///
    /// # Errors
    /// The pool cannot be read at all; what is wrong inside it is in the report.
    pub fn check(&self, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<CheckReport, EngineError> {
        let _ = progress;
        todo!()
    }

    /// Makes all that was published survive power loss.
    ///
    /// # Errors
    /// The medium reports a failure.
    pub fn sync(&self) -> Result<(), EngineError> {
        todo!()
    }
}
