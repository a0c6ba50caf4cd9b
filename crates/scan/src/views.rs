//! The views that one statement names, planned before the statement itself.
//!
//! A view is planned by the engine, and looked up here by the planner of the statement. A temporary view
//! hides whatever has its name in the pool; a stored one comes after the tables.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use halocline_sql::EngineError;
use halocline_sql::error::external;

/// The name of a view, and the place where it is defined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ViewKey {
    /// True for a view of the session, false for one in the pool.
    pub temporary: bool,
    /// Its name.
    pub name: String,
}

/// The plan of a view as a table, or the reason why it cannot be planned.
type PlannedView = std::result::Result<Arc<dyn TableProvider>, String>;

/// The views that a statement names. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct PlannedViews(Arc<RwLock<BTreeMap<ViewKey, PlannedView>>>);

impl PlannedViews {
    /// Adds a view.
    pub fn insert(&self, key: ViewKey, planned: PlannedView) {
        let mut views = self.0.write().unwrap_or_else(PoisonError::into_inner);
        views.insert(key, planned);
    }

    /// Returns true if a view was added.
    pub fn has(&self, key: &ViewKey) -> bool {
        let views = self.0.read().unwrap_or_else(PoisonError::into_inner);
        views.contains_key(key)
    }

    /// Returns true if no view was added.
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns a view; `None` if it was not added.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) fn table(&self, name: &str, temporary: bool) -> Result<Option<Arc<dyn TableProvider>>> {
        let key = ViewKey {
            temporary,
            name: name.to_owned(),
        };
        let views = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match views.get(&key) {
            None => Ok(None),
            Some(Ok(view)) => Ok(Some(Arc::clone(view))),
            Some(Err(reason)) => Err(external(EngineError::View {
                name: name.to_owned(),
                reason: reason.clone(),
            })),
        }
    }
}

/// A view that cannot be planned, in lists of all views: it has a text and no columns.
#[derive(Debug)]
pub struct BrokenView {
    name: String,
    definition: String,
    reason: String,
    schema: SchemaRef,
}

impl BrokenView {
    /// Returns the view of this name and text, and the reason why it cannot be planned.
    pub fn new(name: String, definition: String, reason: String) -> Self {
        let schema = Arc::new(Schema::empty());
        Self {
            name,
            definition,
            reason,
            schema,
        }
    }
}

#[async_trait]
impl TableProvider for BrokenView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.definition)
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(external(EngineError::View {
            name: self.name.clone(),
            reason: self.reason.clone(),
        }))
    }
}
