//! `Database`: a pool with SQL.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use datafusion::common::ScalarValue;
use halocline_catalog::CatalogCache;
use halocline_catalog::background::Background;
use halocline_catalog::context::{EngineContext, index_options};
use halocline_catalog::memory::MemoryBudget;
use halocline_catalog::options::DatabaseOptions;
use halocline_catalog::placements::Placements;
use halocline_catalog::query_memory::QueryMemory;
use halocline_catalog::scrub::{DamageLog, Scrub};
use halocline_catalog::spill_files::SpillFiles;
use halocline_catalog::stores::OpenStores;
use halocline_catalog::tiers::PoolMemory;
use halocline_catalog::tuning::Tuning;
use halocline_elf::PlaceOptions;
use halocline_emulator::{Device, EmulatedSpec};
use halocline_import::{ImportOptions, ImportProgress, ImportReport};
use halocline_media::{Dram, Medium, keep_little_heap};
use halocline_pool::{Pool, PoolError};
use halocline_sql::EngineError;
use halocline_sql::cancel::NEVER;
use halocline_sql::index_spec::IndexSpec;
use halocline_sql::placement_spec::PlacementSpec;
use halocline_sql::split;
use halocline_sql::stack::OnLargeStack;

use crate::advise::advice::{IndexAdvice, advise, medium_of};
use crate::advise::indexes::{IndexSetAdvice, IndexSetOptions, WorkloadQuery, advise_indexes};
use crate::compaction_thread;
use crate::info::{DatabaseCheckProgress, DatabaseCheckReport, DatabaseInfo, IndexInfo};
use crate::opening::{check_memory, device, in_dram, pool_options, with_defaults};
use crate::prepared::PlanLookup;
use crate::session::{CacheUse, DatabaseSession, StatementTimes, run_until_current, run_until_settled};
use crate::statement::{
    self, TextRun, build_index, drop_any_tables, drop_indexes, find_table, place_now, rebuild, set_placement,
};
use crate::{CompactOptions, CompactProgress, CompactReport, QueryResult};

/// Budget in bytes below which the allocator is set to return freed memory at once.
const SMALL_MEMORY: usize = 1 << 30;

/// The allocator then keeps one over this of the budget.
const HEAP_BUDGET_DIVISOR: usize = 32;
/// Initial size of a pool in DRAM in bytes.
const DRAM_BYTES: u64 = 1 << 20;

/// A guard that ends the compaction and the scrub with the last handle of a database.
struct BackgroundThreads(Arc<EngineContext>);

impl Drop for BackgroundThreads {
    fn drop(&mut self) {
        self.0.background.end();
        self.0.scrub.end();
    }
}

/// A pool seen as a SQL catalog. Cheap to clone; clones share settings and an open transaction,
/// [`Database::session`] gives independent ones.
#[derive(Clone)]
pub struct Database {
    pub(crate) session: Arc<DatabaseSession>,
    /// Ends the background threads with the last clone, before the pool is closed.
    threads: Arc<BackgroundThreads>,
    device: Option<Arc<Device>>,
    pub(crate) engine: Arc<EngineContext>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.engine.pool.path())
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Creates a pool at `path`.
    ///
    /// # Errors
    /// The file exists, or cannot be made.
    pub fn create(path: &Path, options: &DatabaseOptions) -> Result<Self, EngineError> {
        let pool = Pool::create(path, &pool_options(options)?)?;
        if options.medium.is_some() {
            drop(pool);
            return Self::open(path, options);
        }
        Ok(Self::over(pool, options))
    }

    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// No such file, not a pool, a newer format, damage.
    pub fn open(path: &Path, options: &DatabaseOptions) -> Result<Self, EngineError> {
        match device(options)? {
            None => Ok(Self::over(Pool::open(path, &pool_options(options)?)?, options)),
            Some(device) => Self::open_emulated(path, options, &device),
        }
    }

    /// Opens a pool as [`open`](Self::open) does with a [medium](DatabaseOptions::medium), on an existing
    /// device.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_emulated(
        path: &Path,
        options: &DatabaseOptions,
        device: &Arc<Device>,
    ) -> Result<Self, EngineError> {
        let pool = Pool::open_wrapped(path, &pool_options(options)?, |medium| device.emulate(medium))?;
        let options = options.clone().with_medium(Some(device.spec().clone()));
        Ok(Self {
            device: Some(Arc::clone(device)),
            ..Self::over(pool, &options)
        })
    }

    /// Returns the emulated device of the pool, if the options demand one. It has the counts of accesses, and
    /// the part of real time that the emulation costs ([`Watch`](halocline_emulator::Watch)).
    #[must_use]
    pub fn device(&self) -> Option<&Arc<Device>> {
        self.device.as_ref()
    }

    /// Creates a pool in DRAM, which ends with the process.
    ///
    /// # Errors
    /// No address space or memory.
    pub fn in_memory(options: &DatabaseOptions) -> Result<Self, EngineError> {
        let dram = Medium::from(Dram::new(DRAM_BYTES).map_err(PoolError::from)?);
        let device = device(options)?;
        let medium = match &device {
            None => dram,
            Some(device) => device.emulate(dram),
        };
        Ok(Self {
            device,
            ..Self::create_on(medium, options)?
        })
    }

    /// Copies the pool at `path` to DRAM, on the [medium](DatabaseOptions::medium) of the options. The file
    /// must not be written to meanwhile and is not changed. The copy ends with the process.
    ///
    /// # Errors
    /// No such file, not a pool, no address space or memory.
    pub fn copy_in_memory(path: &Path, options: &DatabaseOptions) -> Result<Self, EngineError> {
        let dram = Medium::from(in_dram(path)?);
        let device = device(options)?;
        let medium = match &device {
            None => dram,
            Some(device) => device.emulate(dram),
        };
        Ok(Self {
            device,
            ..Self::open_on(medium, options)?
        })
    }

    /// Creates a pool on a medium, for example one that records stores for crash tests.
    ///
    /// # Errors
    /// The medium is too small.
    pub fn create_on(medium: impl Into<Medium>, options: &DatabaseOptions) -> Result<Self, EngineError> {
        check_memory(options)?;
        Ok(Self::over(Pool::create_on(medium)?, options))
    }

    /// Opens the pool on a medium.
    ///
    /// # Errors
    /// Not a pool, a newer format, damage.
    pub fn open_on(medium: impl Into<Medium>, options: &DatabaseOptions) -> Result<Self, EngineError> {
        check_memory(options)?;
        Ok(Self::over(Pool::open_on(medium)?, options))
    }

    fn over(pool: Pool, options: &DatabaseOptions) -> Self {
        Self::with_tuning(pool, options, Tuning::default())
    }

    pub(crate) fn with_tuning(pool: Pool, options: &DatabaseOptions, tuning: Tuning) -> Self {
        let options = &with_defaults(options);
        let budget = MemoryBudget::new(options.memory);
        if budget.bytes() < SMALL_MEMORY {
            keep_little_heap((budget.bytes() / HEAP_BUDGET_DIVISOR).max(1 << 20));
        }
        let medium = medium_of(pool.kind(), options.medium.as_ref());
        let memory = PoolMemory::for_pool(&pool, options);
        let copies = options.dram_budget.unwrap_or(u64::MAX);
        let query_memory = Arc::new(QueryMemory::new(budget.of_queries()));
        let placements = Placements::new(memory, &query_memory, copies, medium, index_options(options));
        let placements = Arc::new(placements);
        let stores = Arc::new(OpenStores::new(&pool));
        let spill_files = Arc::new(SpillFiles::new(options.temp_directory.clone(), &pool));
        let engine = EngineContext {
            pool,
            cache: CatalogCache::new(Arc::clone(&placements)),
            rewrites: Mutex::default(),
            options: options.clone(),
            tuning,
            background: Background::new(options.compaction),
            compact: compaction_thread::run,
            scrub: Scrub::default(),
            damage: DamageLog::default(),
            runtime: MemoryBudget::runtime(&query_memory, &spill_files),
            memory: AtomicUsize::new(budget.bytes()),
            query_memory,
            spill_files,
            placements,
            stores,
            threads: Arc::default(),
        };
        let engine = Arc::new(engine);
        Self {
            session: Arc::new(DatabaseSession::new(&engine)),
            threads: Arc::new(BackgroundThreads(Arc::clone(&engine))),
            device: None,
            engine,
        }
    }

    /// Opens another session on the same pool, with its own settings (`SET …`), external tables and
    /// transaction.
    #[must_use]
    pub fn session(&self) -> Self {
        let session = Arc::new(DatabaseSession::new(&self.engine));
        Self {
            threads: Arc::clone(&self.threads),
            device: self.device.clone(),
            engine: Arc::clone(&self.engine),
            session,
        }
    }

    /// Returns true if the session has an open transaction, which its next statement would be part of.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.session.slot().must_be_idle("").is_err()
    }

    /// Runs one statement. Statements that write have done so on return, or, between BEGIN and COMMIT, become
    /// part of the session's transaction; rows are computed as they are polled. Needs a tokio runtime.
    ///
    /// # Errors
    /// The statement cannot be parsed, planned, is not supported, or failed; the pool (or the transaction) is
    /// then as it was.
    pub async fn sql(&self, text: &str) -> Result<QueryResult, EngineError> {
        self.run(text, &[]).await
    }

    /// Runs one statement as [`sql`](Self::sql) does, with values for its parameters `$1`, `$2` and so on.
    /// The values are never read as SQL text. [`params!`](crate::params) makes values of several types.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use halocline_engine::{Database, DatabaseOptions, params};
    /// # let db = Database::in_memory(&DatabaseOptions::default())?;
    /// db.sql("CREATE TABLE stock (item TEXT, pieces INT)").await?;
    /// db.sql_with("INSERT INTO stock VALUES ($1, $2)", params!["6\" nails; DROP TABLE stock", 40])
    ///     .await?;
    /// let rows = db.sql_with("SELECT item FROM stock WHERE pieces < $1", [50]).await?;
    /// assert_eq!(rows.collect().await?[0].num_rows(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`sql`](Self::sql), and [`EngineError::Parameter`]: a parameter has no value, or a value no
    /// parameter.
    pub async fn sql_with<V: Into<ScalarValue>>(
        &self,
        text: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Result<QueryResult, EngineError> {
        let values: Vec<ScalarValue> = values.into_iter().map(Into::into).collect();
        self.run(text, &values).await
    }

    async fn run(&self, text: &str, values: &[ScalarValue]) -> Result<QueryResult, EngineError> {
        let run = || run_until_current(&self.session, || self.run_once(text, values));
        run_until_settled(&self.session, run).await
    }

    async fn run_once(&self, text: &str, values: &[ScalarValue]) -> Result<QueryResult, EngineError> {
        let mut times = StatementTimes::start();
        let lookup = match values {
            [] => self.session.look_up(text),
            _ => PlanLookup::Uncacheable,
        };
        // Plans that are kept are not deep.
        if let PlanLookup::Hit {
            form,
            template,
            values,
        } = &lookup
        {
            times.parsed();
            let mut times = times.clone();
            times.cache = CacheUse::Hit;
            let (session, explains) = (&self.session, form.explains());
            let rows = session
                .run_template(&self.engine, template, values, &mut times, explains)
                .await?;
            if let Some(rows) = rows {
                let rows = if explains { times.add_to(rows) } else { rows };
                return Ok(QueryResult::rows(rows));
            }
        }
        if let PlanLookup::Refused(form) = &lookup {
            let mut times = times.clone();
            let rows = self.session.run_repeated(&self.engine, form, &mut times).await?;
            if let Some(rows) = rows {
                return Ok(QueryResult::rows(rows));
            }
        }
        let stack = self.session.stack_for_text(&self.engine, text);
        let run = async {
            let statement = statement::parse(text, values)?;
            times.parsed();
            let text = TextRun::of_text(stack, lookup, times);
            statement::run(&self.session, &self.engine, statement, text).await
        };
        OnLargeStack::new(stack, run).await
    }

    /// Splits a script at its semicolons (not those in quotes or comments).
    ///
    /// # Errors
    /// A quote or comment does not close.
    pub fn split(&self, script: &str) -> Result<Vec<String>, EngineError> {
        split::split(script)
    }

    /// Imports files into a new table, or into one there is ([`ImportOptions::append`]), all or nothing.
    /// Blocks; `progress` is called after every batch from this thread; setting `cancel` ends the import with
    /// [`EngineError::Cancelled`].
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
        let found = find_table(&self.session, &self.engine, table, cancel)?;
        found.import(&self.session, &self.engine, files, options, progress, cancel)
    }

    /// Inserts a batch whose columns go by name; columns of the table that it lacks take their default. A few
    /// rows become a record of the log, which takes some tens of microseconds and one flush of the medium.
    /// Blocks; returns the number of rows.
    ///
    /// # Errors
    /// No such table or column; a value does not fit; the pool cannot be written.
    pub fn insert(&self, table: &str, batch: &RecordBatch) -> Result<u64, EngineError> {
        let found = find_table(&self.session, &self.engine, table, &NEVER)?;
        found.insert_batch(&self.session, &self.engine, batch)
    }

    /// Builds an Elf index over columns of a table. Blocks.
    ///
    /// # Errors
    /// No such table or column, the name is taken, the pool cannot be written.
    pub fn create_index(&self, spec: &IndexSpec) -> Result<IndexInfo, EngineError> {
        self.session
            .change_large(&self.engine, "CREATE INDEX", &NEVER, |transaction| {
                build_index(transaction, spec, false, false, &NEVER)?;
                crate::info::index_info(&transaction.catalog(), &spec.name)
            })
    }

    /// Decides what of an index is in DRAM from now on, and puts it there (within a transaction: when a query
    /// first uses it after COMMIT). The choice is kept with the index. A volatile index loses what is stored
    /// of it but its definition; one that was volatile is built and stored. Blocks.
    ///
    /// # Errors
    /// No such index; it cannot be placed so; the pool cannot be written.
    pub fn place_index(&self, name: &str, options: &PlaceOptions) -> Result<IndexInfo, EngineError> {
        let placed = PlacementSpec {
            placement: Some(options.placement),
            dram: Some(options.dram),
        };
        let stored = self
            .session
            .change(&self.engine, "ALTER INDEX", &NEVER, |transaction| {
                set_placement(transaction, name, false, placed, &NEVER)?;
                crate::info::index_info(&transaction.catalog(), name)
            })?;
        if self.in_transaction() {
            Ok(stored)
        } else {
            place_now(&self.engine, name, &Arc::default())
        }
    }

    /// Returns the names of the volatile indexes that are being built at the moment. Does not block.
    #[must_use]
    pub fn building(&self) -> Vec<String> {
        self.engine.placements.building()
    }

    /// Predicts what each placement of an index would cost within `dram` bytes, and picks one: for these
    /// statements, which are planned and not run, or, if there are none, for what the index answered lately.
    /// `medium` is what the pool is thought to lie on, its own medium by default; a page-cache file is taken
    /// for DRAM. Times of a medium that is not absolute need this host's DRAM measured, which takes two
    /// seconds once. Needs a tokio runtime.
    ///
    /// # Errors
    /// No such index; a statement cannot be planned; none of them has a condition on the index's columns.
    pub async fn advise(
        &self,
        index: &str,
        statements: &[String],
        dram: u64,
        medium: Option<&EmulatedSpec>,
    ) -> Result<IndexAdvice, EngineError> {
        advise(&self.session, &self.engine, index, statements, dram, medium).await
    }

    /// Proposes a set of indexes for a workload within a space budget, and predicts for each query what it
    /// gains, or why no index pays. The queries are planned and not run; nothing is changed. Indexes are
    /// forecast from a sample of the rows of each table, so the time is bounded. Dropping the future ends the
    /// work. Needs a tokio runtime.
    ///
    /// # Errors
    /// The workload has no query; a weight is not positive; a query cannot be planned, which is named by its
    /// label; a table cannot be read.
    pub async fn advise_indexes(
        &self,
        workload: &[WorkloadQuery],
        options: &IndexSetOptions,
    ) -> Result<IndexSetAdvice, EngineError> {
        advise_indexes(&self.session, &self.engine, workload, options).await
    }

    /// Drops a table with its indexes or, if there is no table of that name, an index. Returns a message.
    ///
    /// # Errors
    /// Neither exists; the pool cannot be written.
    pub fn drop(&self, name: &str) -> Result<String, EngineError> {
        let catalog = self.session.peek(&self.engine)?;
        if !catalog.has_table(name) && catalog.has_index(name) {
            self.drop_index(name)
        } else {
            self.drop_table(name)
        }
    }

    /// Drops a table with its indexes. Returns a message.
    ///
    /// # Errors
    /// There is no such table; the pool cannot be written.
    pub fn drop_table(&self, name: &str) -> Result<String, EngineError> {
        drop_any_tables(&self.session, &self.engine, &[name.to_owned()], false, &NEVER)
    }

    /// Drops an index. Returns a message.
    ///
    /// # Errors
    /// There is no such index; the pool cannot be written.
    pub fn drop_index(&self, name: &str) -> Result<String, EngineError> {
        let names = [name.to_owned()];
        self.session
            .change(&self.engine, "DROP INDEX", &NEVER, |transaction| {
                drop_indexes(transaction, &names, false)
            })
    }

    /// Rebuilds an index from its definition, for example a damaged one. Reads no data of the old index.
    ///
    /// # Errors
    /// There is none of this name; its table is damaged; the pool cannot be written.
    pub fn rebuild_index(&self, name: &str) -> Result<(), EngineError> {
        self.session
            .change_large(&self.engine, "REINDEX", &NEVER, |transaction| {
                rebuild(transaction, name, &NEVER)
            })
    }

    /// Merges segments of a table, or of all, where that is worth it, and drops deleted rows from them:
    /// queries on many segments are slower. Fine beside readers; other writers get their turn after each
    /// merge. Blocks; `progress` is called now and then; setting `cancel` ends it with
    /// [`EngineError::Cancelled`], what was merged before stays. The space is used again by later writes;
    /// `VACUUM` returns it to the file system.
    ///
    /// # Errors
    /// No such table; a transaction is open; the pool cannot be written.
    pub fn compact(
        &self,
        table: Option<&str>,
        options: &CompactOptions,
        progress: &mut (dyn FnMut(&CompactProgress) + Send),
        cancel: &AtomicBool,
    ) -> Result<CompactReport, EngineError> {
        self.session.slot().must_be_idle("compaction")?;
        let wait = self.session.lock_wait();
        statement::compact(&self.engine, table, options, progress, wait, cancel)
    }

    /// Describes the contents of the pool.
    ///
    /// # Errors
    /// A table cannot be read.
    pub fn info(&self) -> Result<DatabaseInfo, EngineError> {
        crate::info::info(&self.engine)
    }

    /// Verifies all checksums and invariants. Reads the whole pool.
    ///
    /// # Errors
    /// The pool cannot be read at all; damage inside it is part of the report.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(DatabaseCheckProgress<'_>),
    ) -> Result<DatabaseCheckReport, EngineError> {
        crate::check::check(&self.engine, progress)
    }

    /// Makes all published changes survive power loss.
    ///
    /// # Errors
    /// The medium reports a failure.
    pub fn sync(&self) -> Result<(), EngineError> {
        Ok(self.engine.pool.sync()?)
    }
}
