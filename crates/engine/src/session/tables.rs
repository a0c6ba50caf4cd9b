//! The tables that a statement of a session sees, and its planner.

use std::sync::Arc;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::resolve::resolve_table_references;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_keyed::KeyedView;
use halocline_scan::keyed::KeyedReads;
use halocline_scan::provider::{PoolCatalogList, StatementTables};
use halocline_sql::EngineError;
use halocline_store::Stores;

use super::views::StatementNames;
use super::{DatabaseSession, StatementPlanner};

impl DatabaseSession {
    /// Returns the planner of one statement, which sees this version of the database.
    pub(crate) fn planner(&self, catalog: &Arc<Catalog>) -> StatementPlanner {
        self.planner_with(catalog, None)
    }

    /// Does the same as [`planner`](Self::planner) with a given version of the tables with a primary key.
    pub(crate) fn planner_with(&self, catalog: &Arc<Catalog>, view: Option<KeyedView>) -> StatementPlanner {
        let names = self.statement_names();
        let tables = self.tables_with(catalog, self.reads(view), &names);
        StatementPlanner::new(self.states(), catalog, tables, names)
    }

    /// Returns a planner for statements that are not run: the open transaction does not count as one that
    /// has read what they name.
    ///
    /// # Errors
    /// Those of [`peek`](Self::peek).
    pub(crate) fn schema_planner(&self, engine: &EngineContext) -> Result<StatementPlanner, EngineError> {
        let catalog = self.peek(engine)?;
        let names = self.statement_names();
        let outside = KeyedReads::new(&self.stores, &Arc::default());
        let tables = self.tables_with(&catalog, outside, &names);
        Ok(StatementPlanner::new(self.states(), &catalog, tables, names))
    }

    /// Returns the tables of a version of the database as a statement looks them up, without stored views.
    pub(crate) fn tables(&self, catalog: &Arc<Catalog>, view: Option<KeyedView>) -> PoolCatalogList {
        self.tables_with(catalog, self.reads(view), &self.statement_names())
    }

    /// Opens the stores of the pool if a statement names what may be a table in them, so that the versions of
    /// both kinds of tables are those of one moment. Stores that cannot be opened are an error of whoever reads
    /// from them.
    pub(super) fn open_named_stores(&self, engine: &EngineContext, statement: &Parsed) {
        // Most pools have no stores, which takes less time to see than what is named.
        if self.stores.if_open().is_some() || !matches!(Stores::exist_in(&engine.pool), Ok(true)) {
            return;
        }
        let (Ok((names, _)), Ok(catalog)) = (resolve_table_references(statement, true), engine.catalog())
        else {
            return;
        };
        if names.iter().any(|name| !catalog.has_table(name.table())) {
            self.stores.open_existing();
        }
    }

    fn tables_with(
        &self,
        catalog: &Arc<Catalog>,
        reads: KeyedReads,
        names: &StatementNames,
    ) -> PoolCatalogList {
        PoolCatalogList::new(StatementTables {
            catalog: Arc::clone(catalog),
            externals: self.externals.clone(),
            files: Arc::clone(&self.files),
            keyed: Arc::new(reads),
            views: names.views.clone(),
            temporary_views: names.temporary.keys().cloned().collect(),
            temporary_tables: names.providers(),
            missing: names.missing.clone(),
        })
    }

    /// Returns the names that a statement sees beside those of the pool, before its views are planned.
    fn statement_names(&self) -> StatementNames {
        let now = self.temporaries.now();
        StatementNames {
            temporary: now.views,
            tables: now.tables,
            ..StatementNames::default()
        }
    }

    fn reads(&self, view: Option<KeyedView>) -> KeyedReads {
        let reads = KeyedReads::new(&self.stores, &self.slot);
        match view {
            Some(view) => reads.with_view(view),
            None => reads,
        }
    }
}
