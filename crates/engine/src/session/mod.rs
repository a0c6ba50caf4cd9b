//! Sessions: settings, external and temporary tables, temporary views, the open transaction, and statements
//! that DataFusion runs.

mod disabled;
mod planning;
mod renewed;
mod repeated;
mod rules;
mod second_try;
mod select;
mod settings;
mod shape;
mod states;
mod string_keys;
mod tables;
mod times;
mod views;
mod widened;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use datafusion::common::config::TableOptions;
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{self, Query};
use halocline_keyed::KeyedView;

pub(crate) use planning::StatementPlanner;
pub(crate) use renewed::run_until_current;
pub(crate) use rules::{COMMON_SUBEXPRESSIONS, LogicalRule, logical_rules, own_logical_rules};
pub(crate) use shape::{PlanShape, is_simple};
pub(crate) use states::SessionStates;
pub(crate) use times::{CacheUse, StatementTimes};
pub(crate) use views::reads_view;
pub(crate) use widened::run_until_settled;

use crate::copy_to::{OutputFiles, in_order, of_files_in_order};
use crate::prepared::{PlanCache, PreparedNames};
use crate::statement::{AFTER_LARGE, give_back};
use crate::temporary::{Temporaries, TemporaryTable};
use crate::views::ViewDefinition;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_catalog::settings::{ByteLimit, LockWait, MediumUnit, MemorySize, SessionSettings};
use halocline_catalog::stores::OpenStores;
use halocline_catalog::transaction::{Transaction, TransactionGuard, TransactionSlot};
use halocline_planner::coded_join::CodedJoinRule;
use halocline_planner::count::CountRule;
use halocline_planner::dynamic::DynamicFilterRule;
use halocline_planner::equi_keys;
use halocline_planner::first_rows::FirstRowsRule;
use halocline_planner::join_order::{JoinOrderRule, OuterJoinRule, physical_rules};
use halocline_planner::large_limits::LargeLimitRule;
use halocline_planner::late::LateMaterializationRule;
use halocline_planner::materialized::ShareRows;
use halocline_planner::nested_loops::NestedLoopsRule;
use halocline_planner::sort_aggregate::SortAggregateRule;
use halocline_planner::spill_window::SpillingWindowRule;
use halocline_planner::star::{StarQueryPlanner, StarRule};
use halocline_planner::string_views::StringViewsRule;
use halocline_planner::unnest::ReducePartners;
use halocline_scan::files::{CsvFiles, FileTables, ParquetFiles, ScanState, external_csv};
use halocline_scan::plan::ScanRecorder;
use halocline_scan::provider::Externals;
use halocline_sql::EngineError;
use halocline_sql::semantics;
use halocline_sql::stack;
use halocline_sql::{CATALOG, SCHEMA};

/// Number of keys of a join's build side up to which scans of the other side get them as a list.
const LISTED_KEYS: usize = 8192;
/// Bytes of these keys.
const LISTED_BYTES: usize = 1 << 20;

/// Settings, external and temporary tables, temporary views, plans and the open transaction. Statements of
/// one session may run at the same time, those of one transaction one after the other.
pub(crate) struct DatabaseSession {
    /// Holds the settings; its own catalog is never used.
    context: SessionContext,
    /// Copies of its state for planning, for the settings there are.
    states: RwLock<Arc<SessionStates>>,
    plans: PlanCache,
    prepared: PreparedNames,
    files: Arc<FileTables>,
    externals: Externals,
    temporaries: Temporaries,
    /// Tables with a primary key.
    stores: Arc<OpenStores>,
    slot: Arc<TransactionSlot>,
}

impl DatabaseSession {
    pub(crate) fn new(engine: &EngineContext) -> Self {
        let mut config = SessionConfig::new()
            .with_information_schema(true)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false)
            .with_option_extension(SessionSettings {
                compaction: engine.options.compaction,
                dram_budget: ByteLimit(engine.dram_budget()),
                memory: MemorySize(engine.budget().bytes() as u64),
                query_memory: Some(Arc::clone(&engine.query_memory)),
                lock_wait: LockWait(engine.lock_wait()),
                ..SessionSettings::default()
            });
        let emulated = engine.options.medium.as_ref();
        let unit = emulated.map_or_else(|| engine.pool.kind().unit(), |spec| spec.profile.unit);
        config = config
            .with_extension(Arc::clone(&engine.threads))
            .with_extension(Arc::new(MediumUnit(unit)))
            .with_extension(Arc::clone(&engine.spill_files));
        config = engine.budget().configure(config, engine.query_threads());
        semantics::configure(config.options_mut());
        // Nanoseconds end in the year 2262, which timestamps of 96 bits do not.
        config.options_mut().execution.parquet.coerce_int96 = Some("us".into());
        // Scans translate lists of keys to codes, which is cheaper than to look each row up in the hash
        // table.
        let optimizer = &mut config.options_mut().optimizer;
        optimizer.hash_join_inlist_pushdown_max_distinct_values = LISTED_KEYS;
        optimizer.hash_join_inlist_pushdown_max_size = LISTED_BYTES;
        // COPY … TO writes timestamps as SQL prints them and as an import takes them.
        let mut files = TableOptions::default_from_session_config(config.options());
        files.csv.timestamp_format = Some("%Y-%m-%d %H:%M:%S%.f".into());
        let builder = SessionStateBuilder::new()
            .with_table_options(files)
            .with_config(config)
            .with_runtime_env(Arc::clone(&engine.runtime))
            .with_expr_planners(semantics::planners())
            .with_default_features()
            .with_query_planner(Arc::new(StarQueryPlanner))
            .with_optimizer_rules(semantics::corrected(equi_keys::logical_rules()))
            .with_optimizer_rule(Arc::new(OuterJoinRule))
            .with_optimizer_rule(Arc::new(ReducePartners))
            .with_optimizer_rule(Arc::new(CountRule))
            .with_optimizer_rule(Arc::new(StarRule))
            .with_optimizer_rule(Arc::new(JoinOrderRule))
            .with_physical_optimizer_rules(physical_rules())
            .with_physical_optimizer_rule(Arc::new(LargeLimitRule))
            .with_physical_optimizer_rule(Arc::new(FirstRowsRule))
            .with_physical_optimizer_rule(Arc::new(LateMaterializationRule))
            .with_physical_optimizer_rule(Arc::new(CodedJoinRule))
            .with_physical_optimizer_rule(Arc::new(DynamicFilterRule))
            .with_physical_optimizer_rule(Arc::new(SortAggregateRule))
            .with_physical_optimizer_rule(Arc::new(SpillingWindowRule))
            .with_physical_optimizer_rule(Arc::new(StringViewsRule))
            .with_physical_optimizer_rule(Arc::new(ShareRows))
            .with_physical_optimizer_rule(Arc::new(NestedLoopsRule));
        let mut state = semantics::register(rules::with_analyzer_rules(builder).build());
        // Registering fails only for what must not be replaced.
        let _ = state.register_file_format(Arc::new(CsvFiles::default()), true);
        let _ = state.register_file_format(Arc::new(ParquetFiles::default()), true);
        let context = SessionContext::new_with_state(state);
        let listing = DynamicListTableFactory::default();
        listing.session_store().with_state(context.state_weak_ref());
        let files = Arc::new(FileTables::new(listing));
        Self {
            states: RwLock::new(Arc::new(SessionStates::new(context.state()))),
            context,
            plans: PlanCache::default(),
            prepared: PreparedNames::default(),
            files,
            externals: Externals::default(),
            temporaries: Temporaries::default(),
            stores: Arc::clone(&engine.stores),
            slot: Arc::default(),
        }
    }

    /// Returns the version that the next statement of the session sees.
    ///
    /// # Errors
    /// The pool cannot be read; a statement of the open transaction is running, or was interrupted.
    pub(crate) fn catalog(&self, engine: &EngineContext) -> Result<Arc<Catalog>, EngineError> {
        match self.slot.catalog(engine)? {
            Some(catalog) => Ok(catalog),
            None => engine.catalog(),
        }
    }

    /// Returns the version of both kinds of tables that the next query of the session sees, which is
    /// `statement` unless it was planned before. That of tables with a primary key is `None` if the
    /// transaction determines it, or the query reads none.
    ///
    /// # Errors
    /// Those of [`catalog`](Self::catalog).
    pub(crate) fn versions(
        &self,
        engine: &EngineContext,
        statement: Option<&Parsed>,
    ) -> Result<(Arc<Catalog>, Option<KeyedView>), EngineError> {
        if let Some(statement) = statement {
            self.open_named_stores(engine, statement);
        }
        if let Some(catalog) = self.slot.catalog(engine)? {
            return Ok((catalog, None));
        }
        engine.moment(|stores| KeyedView::Snapshot(stores.snapshot()))
    }

    /// Returns the same as [`catalog`](Self::catalog), for names that a writing statement looks up again
    /// under the lock.
    ///
    /// # Errors
    /// Those of [`catalog`](Self::catalog).
    pub(crate) fn peek(&self, engine: &EngineContext) -> Result<Arc<Catalog>, EngineError> {
        match self.slot.peek(engine)? {
            Some(catalog) => Ok(catalog),
            None => engine.catalog(),
        }
    }

    /// Returns how long a writing statement waits for another writer.
    pub(crate) fn lock_wait(&self) -> Duration {
        let states = self.states();
        states
            .settings()
            .map_or_else(Duration::default, |settings| settings.lock_wait.0)
    }

    /// Returns the states to plan with.
    pub(crate) fn states(&self) -> Arc<SessionStates> {
        Arc::clone(&self.states.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the states for planning anew after a change of the settings.
    fn renew_states(&self) {
        let states = Arc::new(SessionStates::new(self.context.state()));
        *self.states.write().unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// Returns the statements that the session has prepared.
    pub(crate) fn prepared(&self) -> &PreparedNames {
        &self.prepared
    }

    /// Runs a change in the open transaction, or else in one of its own. `cancel` is polled while the change
    /// waits for another writer and when it commits. Blocks.
    ///
    /// # Errors
    /// Those of the change, of begin and commit.
    pub(crate) fn change<T>(
        &self,
        engine: &Arc<EngineContext>,
        what: &str,
        cancel: &AtomicBool,
        change: impl FnOnce(&mut Transaction) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut held = TransactionGuard::take(&self.slot, engine, what, self.lock_wait(), cancel)?;
        let result = change(&mut held.transaction);
        held.finish(result, cancel)
    }

    /// Runs a change as [`change`](Self::change) does that writes much more than it retains: outside of a
    /// transaction, the unused space is then returned to the file system.
    ///
    /// # Errors
    /// Those of [`change`](Self::change).
    pub(crate) fn change_large<T>(
        &self,
        engine: &Arc<EngineContext>,
        what: &str,
        cancel: &AtomicBool,
        change: impl FnOnce(&mut Transaction) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let value = self.change(engine, what, cancel, change)?;
        if self.slot.must_be_idle("").is_ok() {
            give_back(engine, AFTER_LARGE);
        }
        Ok(value)
    }

    /// Plans a query whose rows are stored, over a version of the database, and starts it. Rows of CSV files
    /// in place keep their order.
    ///
    /// # Errors
    /// The query cannot be planned.
    pub(crate) async fn query(
        &self,
        catalog: &Arc<Catalog>,
        query: Box<Query>,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        let statement = Parsed::Statement(Box::new(ast::Statement::Query(query)));
        let planner = self.planner(catalog);
        let plan = planner.plan(statement).await?;
        match of_files_in_order(planner.state(), &plan).await? {
            Some(physical) => stack::execute(physical, Arc::new(TaskContext::from(planner.state()))),
            None => planner.start(&plan).await,
        }
    }

    /// Plans a statement that returns rows and starts it, over [`versions`](Self::versions) of the tables.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) async fn rows(
        &self,
        catalog: &Arc<Catalog>,
        view: Option<KeyedView>,
        statement: Parsed,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        let planner = self.planner_with(catalog, view);
        planner.start(&planner.plan(statement).await?).await
    }

    /// Plans a `COPY … TO` and starts it; its row is the number of rows written.
    ///
    /// # Errors
    /// The session may not write files, or not this one; the statement cannot be planned.
    pub(crate) async fn copy_to(
        &self,
        engine: &EngineContext,
        statement: Parsed,
    ) -> Result<SendableRecordBatchStream, EngineError> {
        if engine.options.read_only && !engine.options.allow_writing_files {
            return Err(EngineError::MayNotWriteFiles { what: "COPY … TO" });
        }
        let (catalog, view) = self.versions(engine, Some(&statement))?;
        let planner = self.planner_with(&catalog, view);
        let logical = planner.plan(statement).await?;
        let files = OutputFiles::new(engine.pool.path());
        if let LogicalPlan::Copy(copy) = &logical {
            files.check_url(&copy.output_url)?;
        }
        let physical = in_order(planner.state(), &logical).await?;
        let context = TaskContext::from(planner.state()).with_runtime(files.runtime(&engine.runtime)?);
        let rows = stack::execute(physical, Arc::new(context))?;
        Ok(files.publish_with(rows))
    }

    /// Plans a statement that returns rows without running it, and records what its scans select.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) async fn plan_only(
        &self,
        catalog: &Arc<Catalog>,
        statement: Parsed,
        recorder: Arc<dyn ScanRecorder>,
    ) -> Result<(), EngineError> {
        let mut planner = self.planner(catalog);
        planner.record(recorder);
        let logical = planner.plan(statement).await?;
        planner.state().create_physical_plan(&logical).await?;
        Ok(())
    }

    /// Returns the scans of CSV files that statements of the session have started lately.
    pub(crate) fn csv_scans(&self) -> Vec<Arc<ScanState>> {
        self.files.scans().take()
    }

    /// Adds an external table to the session.
    ///
    /// # Errors
    /// Its name is taken; the files cannot be read.
    pub(crate) async fn remember(
        &self,
        engine: &EngineContext,
        statement: Parsed,
    ) -> Result<(), EngineError> {
        let planner = self.planner(&self.peek(engine)?);
        let context = SessionContext::new_with_state(planner.state().clone());
        let mut plan = context.state().statement_to_plan(statement).await?;
        if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) = &mut plan
            && let Some(table) = external_csv(create, self.files.scans()).await?
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

    /// Returns the temporary tables and views of the session.
    pub(crate) fn temporaries(&self) -> &Temporaries {
        &self.temporaries
    }

    /// Adds a temporary view, or removes one if there is no definition. Plans that the session keeps are
    /// forgotten: names may stand for other things now.
    pub(crate) fn set_temporary_view(&self, name: &str, definition: Option<ViewDefinition>) {
        self.temporaries.set_view(name, definition);
        self.renew_states();
    }

    /// Adds a temporary table, or removes one if there is none; plans are forgotten, too.
    pub(crate) fn set_temporary_table(&self, name: &str, table: Option<TemporaryTable>) {
        self.temporaries.set_table(name, table);
        self.renew_states();
    }

    /// Commits the open transaction.
    ///
    /// # Errors
    /// Those of [`TransactionSlot::commit`].
    pub(crate) fn commit(&self, cancel: &AtomicBool) -> Result<(), EngineError> {
        match self.slot.commit(cancel) {
            Ok(()) => self.temporaries.commit(),
            // The transaction goes on.
            Err(EngineError::TransactionBusy) => return Err(EngineError::TransactionBusy),
            Err(error) => {
                self.undo_temporaries();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes the open transaction back.
    ///
    /// # Errors
    /// Those of [`TransactionSlot::roll_back`].
    pub(crate) fn roll_back(&self) -> Result<(), EngineError> {
        self.slot.roll_back()?;
        self.undo_temporaries();
        Ok(())
    }

    fn undo_temporaries(&self) {
        self.temporaries.roll_back();
        self.renew_states();
    }

    /// Returns the external tables of the session.
    pub(crate) fn externals(&self) -> &Externals {
        &self.externals
    }

    /// Returns the slot of the open transaction.
    pub(crate) fn slot(&self) -> &Arc<TransactionSlot> {
        &self.slot
    }
}
