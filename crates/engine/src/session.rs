//! A session: settings, external tables, and the way of a statement through DataFusion.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use datafusion::common::config::TableOptions;
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParser, ResetStatement, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{self, Query};

use crate::advise::Recorder;
use crate::background::Background;
use crate::catalog::{
    CATALOG, Catalog, CsvFiles, Externals, FileTables, PoolCatalogList, SCHEMA, external_csv,
};
use crate::config::{IndexMode, LockWait, Settings, Switch, Unit, Verify, write_limit};
use crate::copy_to::OutputFiles;
use crate::database::Shared;
use crate::scrub::Scrub;
use crate::semantics;
use crate::stack;
use crate::star::{StarQueryPlanner, StarRule};
use crate::statement::{AFTER_LARGE, drop_tables, give_back};
use crate::threads::MOST_THREADS;
use crate::transaction::{Held, NEVER, Slot, Transaction};
use crate::{Compaction, EngineError};

/// Settings, external tables and the open transaction. Statements of one session may run at the same time, those of one
/// transaction one after the other.
pub(crate) struct Session {
    /// Holds the settings; its own catalog is never asked.
    context: SessionContext,
    files: Arc<FileTables>,
    externals: Externals,
    slot: Arc<Slot>,
}

impl Session {
    pub(crate) fn new(shared: &Shared) -> Self {
        let mut config = SessionConfig::new()
            .with_information_schema(true)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false)
            .with_option_extension(Settings {
                compaction: shared.options.compaction,
                dram_budget: shared.dram_budget(),
                lock_wait: LockWait(shared.lock_wait()),
                ..Settings::default()
            });
        let emulated = shared.options.medium.as_ref();
        let unit = emulated.map_or_else(|| shared.pool.kind().unit(), |spec| spec.profile.unit);
        config = config
            .with_extension(Arc::clone(&shared.threads))
            .with_extension(Arc::new(Unit(unit)));
        let threads = shared.options.threads.unwrap_or(config.target_partitions());
        config = shared.budget().configure(config, threads.clamp(1, MOST_THREADS));
        semantics::configure(config.options_mut());
        // COPY … TO writes timestamps as SQL prints them and as an import takes them.
        let mut files = TableOptions::default_from_session_config(config.options());
        files.csv.timestamp_format = Some("%Y-%m-%d %H:%M:%S%.f".into());
        let builder = SessionStateBuilder::new()
            .with_table_options(files)
            .with_config(config)
            .with_runtime_env(Arc::clone(&shared.runtime))
            .with_default_features()
            .with_query_planner(Arc::new(StarQueryPlanner))
            .with_optimizer_rule(Arc::new(StarRule));
        let mut state = semantics::register(semantics::with_rules(builder).build());
        // Registering fails only for what must not be replaced.
        let _ = state.register_file_format(Arc::new(CsvFiles::default()), true);
        let context = SessionContext::new_with_state(state);
        let listing = DynamicListTableFactory::default();
        listing.session_store().with_state(context.state_weak_ref());
        let files = Arc::new(FileTables::new(listing));
        Self {
            context,
            files,
            externals: Externals::default(),
            slot: Arc::default(),
        }
    }

    /// What the session's next statement sees.
    ///
    /// # Errors
    /// The pool cannot be read; a statement of the open transaction is running, or was interrupted.
    pub(crate) fn catalog(&self, shared: &Shared) -> Result<Arc<Catalog>, EngineError> {
        match self.slot.catalog(shared)? {
            Some(catalog) => Ok(catalog),
            None => shared.catalog(),
        }
    }

    /// As [`catalog`](Self::catalog), for names that are looked up again by a statement that writes.
    ///
    /// # Errors
    /// As [`catalog`](Self::catalog).
    pub(crate) fn peek(&self, shared: &Shared) -> Result<Arc<Catalog>, EngineError> {
        match self.slot.peek(shared)? {
            Some(catalog) => Ok(catalog),
            None => shared.catalog(),
        }
    }

    /// How long a statement that writes waits for another writer.
    pub(crate) fn lock_wait(&self) -> Duration {
        let state = self.context.state_ref();
        let state = state.read();
        let settings = state.config_options().extensions.get::<Settings>();
        settings.map_or_else(Duration::default, |settings| settings.lock_wait.0)
    }

    /// Runs a change in the open transaction, or else in one of its own. While it waits for another writer, and when it
    /// commits, it hears `cancel`. Blocks.
    ///
    /// # Errors
    /// Those of the change, of begin and commit.
    pub(crate) fn change<T>(
        &self,
        shared: &Arc<Shared>,
        what: &str,
        cancel: &AtomicBool,
        change: impl FnOnce(&mut Transaction) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut held = Held::take(&self.slot, shared, what, self.lock_wait(), cancel)?;
        let result = change(&mut held.transaction);
        held.finish(result, cancel)
    }

    /// As [`change`](Self::change) for one that writes a good deal more than it leaves: outside of a transaction, what
    /// is unused then goes back to the file system.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub(crate) fn change_large<T>(
        &self,
        shared: &Arc<Shared>,
        what: &str,
        cancel: &AtomicBool,
        change: impl FnOnce(&mut Transaction) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let value = self.change(shared, what, cancel, change)?;
        if self.slot.must_be_idle("").is_ok() {
            give_back(shared, AFTER_LARGE);
        }
        Ok(value)
    }

    /// Drops tables with their indexes, all of them or none. External tables of the session are only forgotten. Blocks.
    ///
    /// # Errors
    /// One is not there (unless `if_exists`), or the pool cannot be written.
    pub(crate) fn drop_tables(
        &self,
        shared: &Arc<Shared>,
        names: &[String],
        if_exists: bool,
    ) -> Result<String, EngineError> {
        let catalog = self.peek(shared)?;
        let (mut stored, mut external) = (Vec::new(), Vec::new());
        for name in names {
            match (catalog.has_table(name), self.externals.has(name)) {
                (true, _) => stored.push(name.clone()),
                (false, true) => external.push(name.clone()),
                (false, false) if if_exists => {}
                (false, false) => return Err(catalog.no_table(name)),
            }
        }
        drop(catalog);
        let dropped = match stored.is_empty() && !external.is_empty() {
            true => format!("dropped table {}", external.join(", ")),
            false if stored.is_empty() => "nothing to drop".into(),
            false => self.change(shared, "DROP TABLE", &NEVER, |transaction| {
                drop_tables(transaction, &stored)
            })?,
        };
        for name in &external {
            self.externals.remove(name);
        }
        Ok(dropped)
    }

    /// What one statement plans and runs with; it sees one state of the pool.
    fn at(&self, catalog: Arc<Catalog>) -> SessionState {
        let mut state = self.context.state();
        let (externals, files) = (self.externals.clone(), Arc::clone(&self.files));
        state.register_catalog_list(Arc::new(PoolCatalogList::new(catalog, externals, files)));
        state
    }

    /// Plans a query over a version of the database and starts it.
    ///
    /// # Errors
    /// The query cannot be planned.
    pub(crate) async fn query(
        &self,
        catalog: &Arc<Catalog>,
        query: Box<Query>,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        let statement = Parsed::Statement(Box::new(ast::Statement::Query(query)));
        self.rows(catalog, statement).await
    }

    /// Plans a statement that gives rows and starts it.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) async fn rows(
        &self,
        catalog: &Arc<Catalog>,
        statement: Parsed,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        let state = self.at(Arc::clone(catalog));
        rows(&state, catalog, statement).await
    }

    /// Plans a `COPY … TO` and starts it; its row is the number of rows written.
    ///
    /// # Errors
    /// The session may not write files, or not this one; the statement cannot be planned.
    pub(crate) async fn copy_to(
        &self,
        shared: &Shared,
        catalog: &Arc<Catalog>,
        statement: Parsed,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        if shared.options.read_only && !shared.options.allow_writing_files {
            return Err(EngineError::MayNotWriteFiles { what: "COPY … TO" });
        }
        let state = self.at(Arc::clone(catalog));
        let logical = plan(&state, catalog, statement).await?;
        let files = OutputFiles::new(shared.pool.path());
        if let LogicalPlan::Copy(copy) = &logical {
            files.check_url(&copy.output_url)?;
        }
        let physical = state.create_physical_plan(&logical).await?;
        let context = TaskContext::from(&state).with_runtime(files.runtime(&shared.runtime)?);
        let rows = stack::execute(physical, Arc::new(context))?;
        Ok(files.publish_with(rows))
    }

    /// Plans a statement that gives rows, and runs nothing; what it would ask of an index is noted.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) async fn plan_only(
        &self,
        catalog: &Arc<Catalog>,
        statement: Parsed,
        recorder: &Arc<Recorder>,
    ) -> Result<(), EngineError> {
        let mut state = self.at(Arc::clone(catalog));
        let extensions = &mut state.config_mut().options_mut().extensions;
        if let Some(settings) = extensions.get_mut::<Settings>() {
            settings.recorder = Some(Arc::clone(recorder));
        }
        let logical = plan(&state, catalog, statement).await?;
        state.create_physical_plan(&logical).await?;
        Ok(())
    }

    /// Changes the session's settings, or those of the database.
    ///
    /// # Errors
    /// No such setting or value.
    pub(crate) async fn set(&self, shared: &Arc<Shared>, statement: Parsed) -> Result<(), EngineError> {
        let default = match &statement {
            Parsed::Reset(ResetStatement::Variable(name)) => default_of(&name.to_string(), shared)?,
            _ => None,
        };
        let statement = default.unwrap_or(statement);
        let text = statement.to_string().to_ascii_lowercase();
        let of = |setting: &str| text.contains(setting);
        let (of_compaction, of_budget) = (of("halocline.compaction"), of("halocline.dram_budget"));
        let (of_verify, of_scrub) = (of("halocline.verify"), of("halocline.scrub"));
        let plan = self.context.state().statement_to_plan(statement).await?;
        let partitions = self.target_partitions();
        self.context.execute_logical_plan(plan).await?;
        let set = self.target_partitions();
        if set > MOST_THREADS {
            let state = self.context.state_ref();
            let mut state = state.write();
            state.config_mut().options_mut().execution.target_partitions = partitions;
            return Err(EngineError::Query(format!(
                "datafusion.execution.target_partitions is {MOST_THREADS} at most, not {set}"
            )));
        }
        let state = self.context.state();
        let settings = state.config_options().extensions.get::<Settings>();
        if of_compaction {
            Background::set(
                shared,
                settings.map_or(Compaction::Off, |settings| settings.compaction),
            );
        }
        if of_verify {
            let Verify(mode) = settings.map_or(Verify::default(), |settings| settings.verify);
            shared.pool.set_verify_mode(mode);
        }
        if of_scrub {
            Scrub::set(shared, settings.and_then(|settings| settings.scrub));
        }
        if of_budget {
            let limit = settings.and_then(|settings| settings.dram_budget);
            let shared = Arc::clone(shared);
            // What was placed is placed anew, which may take a while.
            let set = tokio::task::spawn_blocking(move || shared.set_dram_budget(limit)).await;
            set.map_err(|error| EngineError::Query(format!("the statement failed: {error}")))??;
        }
        Ok(())
    }

    /// Remembers a table over files.
    ///
    /// # Errors
    /// Its name is taken; the files cannot be read.
    pub(crate) async fn remember(&self, shared: &Shared, statement: Parsed) -> Result<(), EngineError> {
        let context = SessionContext::new_with_state(self.at(self.peek(shared)?));
        let mut plan = context.state().statement_to_plan(statement).await?;
        if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) = &mut plan
            && let Some(table) = external_csv(create).await?
        {
            let exists = context.table_exist(create.name.clone())?;
            return match (exists, create.if_not_exists, create.or_replace) {
                (true, true, _) => Ok(()),
                (true, false, false) => Err(EngineError::Exists {
                    kind: "table",
                    name: create.name.table().to_string(),
                    instead: "drop it first, or choose another name for the external table",
                }),
                _ => {
                    context.register_table(create.name.clone(), table)?;
                    Ok(())
                }
            };
        }
        context.execute_logical_plan(plan).await?;
        Ok(())
    }

    fn target_partitions(&self) -> usize {
        self.context.state_ref().read().config().target_partitions()
    }

    /// The open transaction's place.
    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }
}

/// What sets a setting of ours to what it was when the database was opened; none for those of DataFusion, which knows how
/// to reset them.
fn default_of(setting: &str, shared: &Shared) -> Result<Option<Parsed>, EngineError> {
    let setting = setting.to_ascii_lowercase();
    let Some(ours) = setting.strip_prefix("halocline.") else {
        return Ok(None);
    };
    let value = match ours {
        "index" => IndexMode::default().to_string(),
        "star_join" => Switch::default().to_string(),
        "compaction" => shared.options.compaction.to_string(),
        "verify" => Verify::default().to_string(),
        "scrub" => "off".into(),
        "dram_budget" => write_limit(shared.default_dram_budget()),
        "lock_wait" => LockWait(shared.lock_wait()).to_string(),
        // Setting it tells which ones there are.
        _ => String::new(),
    };
    Ok(DFParser::parse_sql(&format!("SET {setting} = '{value}'"))?.pop_front())
}

/// The logical plan of a statement.
async fn plan(
    state: &SessionState,
    catalog: &Catalog,
    mut statement: Parsed,
) -> Result<LogicalPlan, EngineError> {
    semantics::refine(&mut statement);
    let planned = state.statement_to_plan(statement).await;
    planned.map_err(|error| missing_table(error, catalog))
}

/// Plans a statement that gives rows and starts it.
async fn rows(
    state: &SessionState,
    catalog: &Catalog,
    statement: Parsed,
) -> Result<SendableRecordBatchStream, EngineError> {
    let logical = plan(state, catalog, statement).await?;
    let physical = state.create_physical_plan(&logical).await?;
    stack::execute(physical, Arc::new(TaskContext::from(state)))
}

/// Tells which tables there are when a query names one that is not.
fn missing_table(error: DataFusionError, catalog: &Catalog) -> EngineError {
    let error = EngineError::from(error);
    let EngineError::Query(text) = &error else {
        return error;
    };
    let name = text
        .strip_prefix("table '")
        .and_then(|rest| rest.strip_suffix("' not found"));
    let Some(name) = name.and_then(|name| name.strip_prefix(&format!("{CATALOG}.{SCHEMA}."))) else {
        return error;
    };
    if name.contains(['/', '.']) {
        return EngineError::Query(format!(
            "there is neither a table nor a Parquet or CSV file '{name}'"
        ));
    }
    catalog.no_table(name)
}
