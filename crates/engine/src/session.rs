//! A session: settings, external tables, and the way of a statement through DataFusion.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::catalog::{CatalogProviderList, DynamicFileCatalog, UrlTableFactory};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParser, ResetStatement, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{self, Query};

use crate::advise::Recorder;
use crate::background::Background;
use crate::catalog::{CATALOG, Catalog, Externals, PoolCatalogList, SCHEMA};
use crate::config::{IndexMode, Settings, Switch, Unit, write_limit};
use crate::database::Shared;
use crate::star::{StarQueryPlanner, StarRule};
use crate::statement::drop_tables;
use crate::transaction::{Held, NEVER, Slot, Transaction};
use crate::{Compaction, EngineError};

/// Settings, external tables and the open transaction. Statements of one session may run at the same time, those of one
/// transaction one after the other.
pub(crate) struct Session {
    /// Holds the settings; its own catalog is never asked.
    context: SessionContext,
    files: Arc<DynamicListTableFactory>,
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
                ..Settings::default()
            });
        let emulated = shared.options.medium.as_ref();
        let unit = emulated.map_or_else(|| shared.pool.kind().unit(), |spec| spec.profile.unit);
        config = config
            .with_extension(Arc::clone(&shared.threads))
            .with_extension(Arc::new(Unit(unit)));
        if let Some(threads) = shared.options.threads {
            config = config.with_target_partitions(threads.max(1));
        }
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(Arc::clone(&shared.runtime))
            .with_default_features()
            .with_query_planner(Arc::new(StarQueryPlanner))
            .with_optimizer_rule(Arc::new(StarRule))
            .build();
        let context = SessionContext::new_with_state(state);
        let files = Arc::new(DynamicListTableFactory::default());
        files.session_store().with_state(context.state_weak_ref());
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
        match self.slot.catalog()? {
            Some(catalog) => Ok(catalog),
            None => shared.catalog(),
        }
    }

    /// Runs a change in the open transaction, or else in one of its own, whose commit hears `cancel`. Blocks.
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
        let mut held = Held::take(&self.slot, shared, what)?;
        let result = change(&mut held.transaction);
        held.finish(result, cancel)
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
        let catalog = self.catalog(shared)?;
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
        let pool: Arc<dyn CatalogProviderList> =
            Arc::new(PoolCatalogList::new(catalog, self.externals.clone()));
        let files = Arc::clone(&self.files) as Arc<dyn UrlTableFactory>;
        state.register_catalog_list(Arc::new(DynamicFileCatalog::new(pool, files)));
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
        let logical = state
            .statement_to_plan(statement)
            .await
            .map_err(|error| missing_table(error, catalog))?;
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
        let plan = self.context.state().statement_to_plan(statement).await?;
        self.context.execute_logical_plan(plan).await?;
        let state = self.context.state();
        let settings = state.config_options().extensions.get::<Settings>();
        if of_compaction {
            Background::set(
                shared,
                settings.map_or(Compaction::Off, |settings| settings.compaction),
            );
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
        let context = SessionContext::new_with_state(self.at(self.catalog(shared)?));
        let plan = context.state().statement_to_plan(statement).await?;
        context.execute_logical_plan(plan).await?;
        Ok(())
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
        "dram_budget" => write_limit(shared.default_dram_budget()),
        // Setting it tells which ones there are.
        _ => String::new(),
    };
    Ok(DFParser::parse_sql(&format!("SET {setting} = '{value}'"))?.pop_front())
}

/// Plans a statement that gives rows and starts it.
async fn rows(
    state: &SessionState,
    catalog: &Catalog,
    statement: Parsed,
) -> Result<SendableRecordBatchStream, EngineError> {
    let logical = state
        .statement_to_plan(statement)
        .await
        .map_err(|e| missing_table(e, catalog))?;
    let physical = state.create_physical_plan(&logical).await?;
    Ok(execute_stream(physical, Arc::new(TaskContext::from(state)))?)
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
