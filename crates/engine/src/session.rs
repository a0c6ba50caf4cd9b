//! A session: settings, external tables, and the way of a statement through DataFusion.

use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, DynamicFileCatalog, UrlTableFactory};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{self, Query};
use halocline_pool::Txn;

use crate::catalog::{CATALOG, Catalog, Externals, PoolCatalogList, SCHEMA};
use crate::config::Settings;
use crate::database::{DatabaseOptions, Shared};
use crate::statement::{
    CreateTable, Statement, begin, build_index, create_table_as, drop_indexes, drop_tables,
};
use crate::{EngineError, QueryResult};

/// Settings and external tables. Statements of one session may run at the same time.
pub(crate) struct Session {
    /// Holds the settings; its own catalog is never asked.
    context: SessionContext,
    files: Arc<DynamicListTableFactory>,
    externals: Externals,
}

impl Session {
    pub(crate) fn new(options: &DatabaseOptions) -> Self {
        let mut config = SessionConfig::new()
            .with_information_schema(true)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false)
            .with_option_extension(Settings::default());
        if let Some(threads) = options.threads {
            config = config.with_target_partitions(threads.max(1));
        }
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .build();
        let context = SessionContext::new_with_state(state);
        let files = Arc::new(DynamicListTableFactory::default());
        files.session_store().with_state(context.state_weak_ref());
        Self {
            context,
            files,
            externals: Externals::default(),
        }
    }

    /// The session's tables over files.
    pub(crate) fn externals(&self) -> &Externals {
        &self.externals
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

    /// Runs a statement.
    pub(crate) async fn run(
        &self,
        shared: &Arc<Shared>,
        statement: Statement,
    ) -> Result<QueryResult, EngineError> {
        match statement {
            Statement::Plan(parsed) => {
                let catalog = shared.catalog()?;
                let state = self.at(Arc::clone(&catalog));
                Ok(QueryResult::rows(rows(&state, &catalog, parsed).await?))
            }
            Statement::Setting(parsed) => {
                let plan = self.context.state().statement_to_plan(parsed).await?;
                self.context.execute_logical_plan(plan).await?;
                Ok(QueryResult::done("set"))
            }
            Statement::External(parsed) => {
                let context = SessionContext::new_with_state(self.at(shared.catalog()?));
                let plan = context.state().statement_to_plan(parsed).await?;
                context.execute_logical_plan(plan).await?;
                Ok(QueryResult::done("external table created for this session"))
            }
            Statement::CreateTable {
                name,
                if_not_exists,
                or_replace,
                query,
            } => {
                self.create_table(shared, &name, if_not_exists, or_replace, query)
                    .await
            }
            Statement::DropTables { names, if_exists } => {
                let externals = self.externals.clone();
                blocking(shared, move |shared| {
                    drop_tables(shared, &externals, &names, if_exists)
                })
                .await
            }
            Statement::DropIndexes { names, if_exists } => {
                blocking(shared, move |shared| drop_indexes(shared, &names, if_exists)).await
            }
            Statement::CreateIndex { spec, if_not_exists } => {
                blocking(shared, move |shared| {
                    Ok(match build_index(shared, &spec, if_not_exists)? {
                        Some(_) => format!("index {} on {}", spec.name, spec.table),
                        None => format!("index {} is there already", spec.name),
                    })
                })
                .await
            }
        }
    }

    async fn create_table(
        &self,
        shared: &Arc<Shared>,
        name: &str,
        if_not_exists: bool,
        or_replace: bool,
        query: Box<Query>,
    ) -> Result<QueryResult, EngineError> {
        // The lock first: what the query sees is what the new table is published beside.
        let txn: Txn = begin(shared, "CREATE TABLE")?;
        let catalog = shared.catalog()?;
        let exists = catalog.has_table(name);
        if exists && if_not_exists {
            return Ok(QueryResult::done(format!("table {name} is there already")));
        }
        if exists && !or_replace {
            let instead = "drop it first, choose another name, or use CREATE OR REPLACE TABLE";
            return Err(EngineError::Exists {
                kind: "table",
                name: name.to_string(),
                instead,
            });
        }
        let replaced_indexes = if exists {
            catalog.indexes_of(name)
        } else {
            Vec::new()
        };
        let state = self.at(Arc::clone(&catalog));
        let statement = Parsed::Statement(Box::new(ast::Statement::Query(query)));
        let rows = rows(&state, &catalog, statement).await?;
        drop(catalog);
        let table = CreateTable {
            name: name.to_string(),
            replaced_indexes,
        };
        let stats = create_table_as(txn, table, rows).await?;
        shared.cache.forget();
        Ok(QueryResult::done(format!("table {name}: {} rows", stats.rows)))
    }
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

/// Runs a change on a thread that may block.
async fn blocking(
    shared: &Arc<Shared>,
    change: impl FnOnce(&Shared) -> Result<String, EngineError> + Send + 'static,
) -> Result<QueryResult, EngineError> {
    let shared = Arc::clone(shared);
    match tokio::task::spawn_blocking(move || change(&shared)).await {
        Ok(message) => Ok(QueryResult::done(message?)),
        Err(error) => Err(EngineError::Query(format!("the statement failed: {error}"))),
    }
}
