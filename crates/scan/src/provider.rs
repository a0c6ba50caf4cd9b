//! One statement's view of the catalog for DataFusion: `halocline.public`, with the pool's tables at one
//! snapshot, the session's external tables beside them, and files by their paths.

use std::collections::BTreeMap;
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
use halocline_sql::{CATALOG, SCHEMA};

use super::damaged::DamagedTable;
use crate::files::FileTables;
use crate::keyed::{KeyedProvider, KeyedReads};
use crate::plan::PoolTable;

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

/// The list of catalogs, which has one entry.
#[derive(Debug, Clone)]
pub struct PoolCatalogList(Arc<PoolCatalog>);

impl PoolCatalogList {
    /// Returns the catalog of one version of the database.
    pub fn new(
        catalog: Arc<Catalog>,
        externals: Externals,
        files: Arc<FileTables>,
        keyed: KeyedReads,
        missing: MissingTables,
    ) -> Self {
        Self(Arc::new(PoolCatalog(Arc::new(PoolSchema {
            catalog,
            externals,
            keyed,
            files,
            missing,
        }))))
    }

    /// Returns the table of this name in the one schema; `None` if there is none.
    ///
    /// # Errors
    /// The table cannot be read.
    pub async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.0.0.table(name).await
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
struct PoolCatalog(Arc<PoolSchema>);

impl CatalogProvider for PoolCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_string()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == SCHEMA).then(|| Arc::clone(&self.0) as Arc<dyn SchemaProvider>)
    }
}

#[derive(Debug)]
struct PoolSchema {
    catalog: Arc<Catalog>,
    externals: Externals,
    keyed: KeyedReads,
    /// Tables of files, named by their paths.
    files: Arc<FileTables>,
    missing: MissingTables,
}

#[async_trait]
impl SchemaProvider for PoolSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.catalog.table_names();
        names.extend(self.externals.names());
        names.extend(self.keyed.names());
        names.sort_unstable();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.catalog.has_table(name) {
            return match self.catalog.table(name) {
                Ok(open) => Ok(Some(Arc::new(PoolTable::new(open)))),
                Err(error) if error.is_damage() => match DamagedTable::new(&self.catalog, name) {
                    Ok(damaged) => Ok(Some(Arc::new(damaged))),
                    Err(_) => Err(external(error)),
                },
                Err(error) => Err(external(error)),
            };
        }
        if let Some(external) = self.externals.get(name) {
            return Ok(Some(external));
        }
        let keyed = self.keyed.table(name);
        if let Ok(Some((table, view))) = keyed {
            return Ok(Some(Arc::new(KeyedProvider::new(table, view))));
        }
        let file = self.files.try_new(name).await?;
        match (&file, keyed) {
            (Some(_), _) => {}
            // The name may be that of a table that cannot be seen.
            (None, Err(error)) => return Err(external(error)),
            (None, Ok(_)) => self.missing.add(name),
        }
        Ok(file)
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.catalog.has_table(&name) || self.keyed.has(&name) {
            let instead = "drop it first, or choose another name for the external table";
            let error = EngineError::Exists {
                kind: "table",
                name,
                instead,
            };
            return Err(external(error));
        }
        Ok(self.externals.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.externals.remove(name))
    }

    /// Opens nothing, so that a damaged table does not keep others from being listed.
    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if self.catalog.has_table(name) || self.keyed.has(name) {
            return Ok(Some(TableType::Base));
        }
        Ok(self.externals.get(name).map(|table| table.table_type()))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.catalog.has_table(name) || self.externals.get(name).is_some() || self.keyed.has(name)
    }
}
