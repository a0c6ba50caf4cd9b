//! Access for programs that use DataFusion themselves: [`Database::context`] and
//! [`Database::table_provider`].

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::prelude::SessionContext;
use halocline_scan::plan::PoolTable;
use halocline_sql::EngineError;

use crate::Database;

impl Database {
    /// Returns a DataFusion context with the settings of the session, whose tables are those of the database
    /// as they are now: later changes are not seen. It has the optimizer rules of the engine, so that
    /// queries use indexes and star joins. Use it for the `DataFrame` interface, or to register functions
    /// and tables of your own beside those of the pool.
    ///
    /// SQL is better run with [`sql`](Self::sql), also on a [`session`](Self::session) of its own: this
    /// context plans text as DataFusion alone does, and does not write to the pool.
    ///
    /// # Errors
    /// The pool cannot be read; a statement of the open transaction is running.
    pub fn context(&self) -> Result<SessionContext, EngineError> {
        let catalog = self.session.catalog(&self.engine)?;
        let state = self.session.planner(&catalog).state().clone();
        Ok(SessionContext::new_with_state(state))
    }

    /// Returns a table as it is now, for a DataFusion context of your own. Its scans push down filters and
    /// use indexes; star joins need the rules of [`context`](Self::context).
    ///
    /// # Errors
    /// There is no such table; it is damaged.
    pub fn table_provider(&self, name: &str) -> Result<Arc<dyn TableProvider>, EngineError> {
        let catalog = self.session.catalog(&self.engine)?;
        Ok(Arc::new(PoolTable::new(catalog.table(name)?)))
    }
}
