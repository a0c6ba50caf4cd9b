//! One statement's view of the catalog for DataFusion: `halocline.public`, with the pool's tables and views
//! at one snapshot, the session's external tables and temporary views beside them, and files by their
//! paths.
//!
//! The schema `main` has the same tables and views, but nothing of the session. The queries of stored views
//! are planned over these alone, so that a view is the same in every session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider, UrlTableFactory,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use halocline_catalog::Catalog;
use halocline_sql::EngineError;
use halocline_sql::error::external;
use halocline_sql::{CATALOG, POOL_SCHEMA, SCHEMA};

use super::damaged::DamagedTable;
use crate::files::FileTables;
use crate::keyed::{KeyedProvider, KeyedReads};
use crate::plan::PoolTable;
use crate::views::PlannedViews;

/// Names that a statement looked up in the schema in vain. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct MissingTables(Arc<Mutex<Vec<String>>>);

impl MissingTables {
    fn add(&self, name: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.push(name.to_owned());
    }

    /// Returns the name whose absence is the cause of an error of the planner, which also looks for tables
    /// of the names of table functions.
    pub fn cause(&self, error: &DataFusionError) -> Option<String> {
        let DataFusionError::Plan(text) = error.find_root() else {
            return None;
        };
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_named =
            |name: &&String| text.starts_with("table '") && text.ends_with(&format!("{name}' not found"));
        names.iter().find(is_named).cloned()
    }
}

/// The external tables of a session. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Externals(Arc<RwLock<BTreeMap<String, Arc<dyn TableProvider>>>>);

impl Externals {
    fn get(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .cloned()
            .collect()
    }

    fn insert(&self, name: String, table: Arc<dyn TableProvider>) -> Option<Arc<dyn TableProvider>> {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, table)
    }

    /// Returns true if there is a table of this name.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Removes a table and returns it if it was there.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name)
    }
}

/// The relations that a statement can name.
#[derive(Debug)]
pub struct StatementTables {
    /// The version of the database.
    pub catalog: Arc<Catalog>,
    /// The external tables of the session.
    pub externals: Externals,
    /// Tables of files, named by their paths.
    pub files: Arc<FileTables>,
    /// Tables with a primary key.
    pub keyed: Arc<KeyedReads>,
    /// The views that the statement names.
    pub views: PlannedViews,
    /// Names of the views of the session.
    pub temporary_views: BTreeSet<String>,
    /// Tables of the session, which hide whatever has their names.
    pub temporary_tables: BTreeMap<String, Arc<dyn TableProvider>>,
    /// Receives the names that the statement looks up in vain.
    pub missing: MissingTables,
}

/// The list of catalogs, which has one entry.
#[derive(Debug, Clone)]
pub struct PoolCatalogList(Arc<PoolCatalog>);

impl PoolCatalogList {
    /// Returns the catalog of one statement.
    pub fn new(tables: StatementTables) -> Self {
        let pool = Arc::new(PoolSchema(StatementTables {
            catalog: Arc::clone(&tables.catalog),
            externals: Externals::default(),
            files: Arc::clone(&tables.files),
            keyed: Arc::clone(&tables.keyed),
            views: tables.views.clone(),
            temporary_views: BTreeSet::new(),
            temporary_tables: BTreeMap::new(),
            missing: tables.missing.clone(),
        }));
        let public = Arc::new(PoolSchema(tables));
        Self(Arc::new(PoolCatalog { public, pool }))
    }

    /// Returns the catalog without the tables and views of the session, for the queries of stored views.
    pub fn without_session(&self) -> Self {
        let pool = &self.0.pool;
        Self(Arc::new(PoolCatalog {
            public: Arc::clone(pool),
            pool: Arc::clone(pool),
        }))
    }

    /// Returns the table of this name in the one schema; `None` if there is none.
    ///
    /// # Errors
    /// The table cannot be read.
    pub async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.0.public.table(name).await
    }
}

impl CatalogProviderList for PoolCatalogList {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_string()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::clone(&self.0) as Arc<dyn CatalogProvider>)
    }
}

#[derive(Debug)]
struct PoolCatalog {
    /// The default schema.
    public: Arc<PoolSchema>,
    /// The same without the tables and views of the session.
    pool: Arc<PoolSchema>,
}

impl CatalogProvider for PoolCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_string()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(Arc::clone(&self.public) as Arc<dyn SchemaProvider>),
            POOL_SCHEMA => Some(Arc::clone(&self.pool) as Arc<dyn SchemaProvider>),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct PoolSchema(StatementTables);

impl PoolSchema {
    /// Returns true if there is a view of this name, of the session or in the pool.
    fn has_view(&self, name: &str) -> bool {
        self.0.temporary_views.contains(name) || self.0.catalog.has_view(name)
    }
}

#[async_trait]
impl SchemaProvider for PoolSchema {
    fn table_names(&self) -> Vec<String> {
        let tables = &self.0;
        let mut names = tables.catalog.table_names();
        names.extend(tables.externals.names());
        names.extend(tables.keyed.names());
        names.extend(tables.catalog.view_names());
        names.extend(tables.temporary_views.iter().cloned());
        names.extend(tables.temporary_tables.keys().cloned());
        names.sort_unstable();
        // A name stands for what hides the others.
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let tables = &self.0;
        if let Some(table) = tables.temporary_tables.get(name) {
            return Ok(Some(Arc::clone(table)));
        }
        if tables.temporary_views.contains(name) {
            return tables.views.table(name, true);
        }
        if tables.catalog.has_table(name) {
            return match tables.catalog.table(name) {
                Ok(open) => Ok(Some(Arc::new(PoolTable::new(open)))),
                Err(error) if error.is_damage() => match DamagedTable::new(&tables.catalog, name) {
                    Ok(damaged) => Ok(Some(Arc::new(damaged))),
                    Err(_) => Err(external(error)),
                },
                Err(error) => Err(external(error)),
            };
        }
        if let Some(external) = tables.externals.get(name) {
            return Ok(Some(external));
        }
        let keyed = tables.keyed.table(name);
        if let Ok(Some((table, view))) = keyed {
            return Ok(Some(Arc::new(KeyedProvider::new(table, view))));
        }
        if tables.catalog.has_view(name) {
            return tables.views.table(name, false);
        }
        let file = tables.files.try_new(name).await?;
        match (&file, keyed) {
            (Some(_), _) => {}
            // The name may be that of a table that cannot be seen.
            (None, Err(error)) => return Err(external(error)),
            (None, Ok(_)) => tables.missing.add(name),
        }
        Ok(file)
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let tables = &self.0;
        let is_taken = tables.catalog.has_table(&name)
            || tables.keyed.has(&name)
            || tables.temporary_tables.contains_key(&name)
            || self.has_view(&name);
        if is_taken {
            let instead = "drop it first, or choose another name for the external table";
            let error = EngineError::Exists {
                kind: if self.has_view(&name) { "view" } else { "table" },
                name,
                instead,
            };
            return Err(external(error));
        }
        Ok(tables.externals.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.0.externals.remove(name))
    }

    /// Opens nothing, so that a damaged table does not keep others from being listed.
    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        let tables = &self.0;
        if tables.temporary_tables.contains_key(name) {
            return Ok(Some(TableType::Temporary));
        }
        if tables.temporary_views.contains(name) {
            return Ok(Some(TableType::View));
        }
        if tables.catalog.has_table(name) || tables.keyed.has(name) {
            return Ok(Some(TableType::Base));
        }
        let external = tables.externals.get(name).map(|table| table.table_type());
        Ok(external.or_else(|| self.has_view(name).then_some(TableType::View)))
    }

    fn table_exist(&self, name: &str) -> bool {
        let tables = &self.0;
        tables.temporary_tables.contains_key(name)
            || tables.catalog.has_table(name)
            || tables.externals.get(name).is_some()
            || tables.keyed.has(name)
            || self.has_view(name)
    }
}
