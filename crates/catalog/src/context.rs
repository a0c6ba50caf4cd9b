//! The state that all sessions of an open database share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::execution::runtime_env::RuntimeEnv;
use halocline_columns::TableOptions;
use halocline_elf::IndexOptions;
use halocline_pool::Pool;
use halocline_sql::EngineError;
use halocline_store::Stores;

use crate::background::Background;
use crate::memory::{MemoryBudget, WriterShare};
use crate::options::DatabaseOptions;
use crate::placements::Placements;
use crate::query_memory::QueryMemory;
use crate::scrub::{DamageLog, Scrub};
use crate::settings::LOCK_WAIT;
use crate::spill_files::SpillFiles;
use crate::stores::OpenStores;
use crate::threads::{MAX_THREADS, SelectionThreads};
use crate::tuning::Tuning;
use crate::{Catalog, CatalogCache, Rewrites};

/// The state that all sessions of an open pool share.
pub struct EngineContext {
    /// The pool.
    pub pool: Pool,
    /// The newest version.
    pub cache: CatalogCache,
    /// Versions whose segments were rewritten in the background.
    pub rewrites: Mutex<Rewrites>,
    /// The options that the database was opened with; those that were not given have their defaults.
    pub options: DatabaseOptions,
    /// Thresholds, and the fault that a test has injected.
    pub tuning: Tuning,
    /// State of the background compaction.
    pub background: Background,
    /// Runs on the thread of the background compaction until the database is closed.
    pub compact: fn(&Arc<EngineContext>),
    /// State of the scrub.
    pub scrub: Scrub,
    /// Damage found in the background.
    pub damage: DamageLog,
    /// Bytes of the DRAM budget.
    pub memory: AtomicUsize,
    /// The part of all queries of it.
    pub query_memory: Arc<QueryMemory>,
    /// Temporary files of all queries.
    pub spill_files: Arc<SpillFiles>,
    /// Memory pool, temporary files and object stores of all queries.
    pub runtime: Arc<RuntimeEnv>,
    /// Copies of indexes in DRAM.
    pub placements: Arc<Placements>,
    /// The key-value stores of the pool.
    pub stores: Arc<OpenStores>,
    /// Threads that share large selections through an index.
    pub threads: Arc<SelectionThreads>,
}

impl EngineContext {
    /// Returns the newest version of the database.
    ///
    /// # Errors
    /// The pool or its log cannot be read.
    pub fn catalog(&self) -> Result<Arc<Catalog>, EngineError> {
        self.cache.newest(&self.pool, &self.tuning)
    }

    /// Returns the newest version of the database, and what `pin` returns for the stores if they are open, both
    /// as of one moment: `pin` takes a snapshot, or begins a transaction.
    ///
    /// # Errors
    /// The pool, its log or the stores cannot be read.
    pub fn moment<T>(&self, pin: impl Fn(&Stores) -> T) -> Result<(Arc<Catalog>, Option<T>), EngineError> {
        let _guard = self.stores.moment();
        loop {
            let catalog = self.catalog()?;
            // Of stores that another process writes, a commit is visible later than the generation of which
            // it is a part, but not to a reader that looks then. Other sessions look, too, so that what is
            // pinned may be newer than what was found here: not if the generation is still the same.
            let is_reader = self.stores.renew()?;
            let pinned = self.stores.if_open().as_ref().map(&pin);
            if !is_reader || self.pool.snapshot()?.generation() == catalog.version().0 {
                return Ok((catalog, pinned));
            }
        }
    }

    /// Notes that a version was published, and starts the thread of the background compaction if that is on
    /// and does not run yet.
    pub fn published(self: &Arc<Self>) {
        self.background.published(|| {
            let engine = Arc::clone(self);
            let thread = std::thread::Builder::new().name("compaction".into());
            thread.spawn(move || (engine.compact)(&engine))
        });
    }

    /// Returns the DRAM budget for the copies of all placed indexes; `None` if there is no limit.
    pub fn dram_budget(&self) -> Option<u64> {
        Some(self.placements.budget().limit()).filter(|limit| *limit < u64::MAX)
    }

    /// Sets this budget and places the placed indexes anew within it. Volatile indexes that are dropped are
    /// built by the next queries that can use them.
    ///
    /// # Errors
    /// The pool or its log cannot be read.
    pub fn set_dram_budget(&self, limit: Option<u64>) -> Result<(), EngineError> {
        let catalog = self.catalog()?;
        self.placements.set_limit(limit.unwrap_or(u64::MAX));
        let placed: Vec<_> = catalog.indexes().iter().filter(|index| index.forget()).collect();
        for index in placed {
            let table = index.table.as_ref().map(|name| catalog.table(name)).transpose()?;
            if let Some(table) = table {
                index.place_again(&table.table);
            }
        }
        Ok(())
    }

    /// Returns how long a writing statement waits for another writer unless its session sets another time.
    pub fn lock_wait(&self) -> Duration {
        self.options.lock_wait.unwrap_or(LOCK_WAIT)
    }

    /// Returns the DRAM budget of the database.
    pub fn budget(&self) -> MemoryBudget {
        MemoryBudget::new(Some(self.memory.load(Ordering::Relaxed)))
    }

    /// Returns the threads that a query may have if there is memory for them.
    pub fn query_threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.options.threads.unwrap_or_else(all).clamp(1, MAX_THREADS)
    }

    /// Changes the DRAM budget; what runs keeps what it has.
    pub fn set_memory(&self, bytes: usize) {
        self.memory.store(bytes, Ordering::Relaxed);
        self.query_memory.set_size(self.budget().of_queries());
    }

    /// Returns the options for writing tables.
    pub fn table_options(&self) -> TableOptions {
        let mut options = TableOptions::default();
        options.memory = self.budget().storing();
        options
    }

    /// Reserves memory for a table writer that runs beside the query feeding it.
    pub fn writer_share(&self) -> WriterShare {
        WriterShare::take(self.budget(), &self.runtime.memory_pool)
    }

    /// Returns the options for building indexes.
    pub fn index_options(&self) -> IndexOptions {
        index_options(&self.options)
    }
}

/// Returns the options for building indexes that follow from those of the database.
pub fn index_options(of: &DatabaseOptions) -> IndexOptions {
    let mut options = IndexOptions::default();
    options.threads = of.threads.unwrap_or(options.threads).min(MAX_THREADS);
    options.memory = MemoryBudget::new(of.memory).work();
    options
}
