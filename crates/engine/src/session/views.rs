//! The views that a statement names: they are planned before it, and looked up by their names while it is.
//!
//! The query of a stored view is planned over what is stored in the pool alone, that of a temporary view over
//! what the session sees. A view that cannot be planned fails the statement only if the statement reads it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::resolve::resolve_table_references;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_scan::provider::MissingTables;
use halocline_scan::views::{BrokenView, PlannedViews, ViewKey};
use halocline_sql::stack::StackSize;
use halocline_sql::syntax::{RelationNames, visit_mut};
use halocline_sql::{EngineError, POOL_SCHEMA};

use super::{DatabaseSession, StatementPlanner};
use crate::macros::{MacroExpander, expanded};
use crate::temporary::TableMap;
use crate::views::{MAX_VIEW_DEPTH, NamedView, ViewDefinition, ViewMap, ViewOrder, ViewScope, too_deep};

/// The schema of the tables that list tables, columns and views.
const INFORMATION_SCHEMA: &str = "information_schema";

/// The views of a statement, and the names that it looks up in vain. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct StatementNames {
    /// The views that are planned.
    pub(super) views: PlannedViews,
    /// The views of the session.
    pub(super) temporary: Arc<ViewMap>,
    /// The tables of the session.
    pub(super) tables: Arc<TableMap>,
    /// True if the statement calls macros.
    pub(super) calls_macros: Arc<AtomicBool>,
    /// The names of what is not there.
    pub(super) missing: MissingTables,
}

impl StatementNames {
    /// Returns the tables of the session for the planner.
    pub(super) fn providers(&self) -> BTreeMap<String, Arc<dyn TableProvider>> {
        let tables = self.tables.iter();
        let providers = tables.filter_map(|(name, table)| Some((name.clone(), table.provider().ok()?)));
        providers.collect()
    }
}

impl StatementPlanner {
    /// Plans the views that a statement reads or lists.
    ///
    /// # Errors
    /// A name of the statement has too many parts.
    pub(super) async fn plan_views_of(&self, statement: &Parsed) -> Result<(), EngineError> {
        if self.may_name_views() {
            let (names, _) = resolve_table_references(statement, true)?;
            self.plan_views(&names).await;
        }
        Ok(())
    }

    /// Plans the views among these names.
    ///
    /// # Errors
    /// A name has too many parts.
    pub(super) async fn plan_views_named(&self, names: &RelationNames) -> Result<(), EngineError> {
        if self.may_name_views() {
            let names = names.0.iter().cloned();
            let names: Result<Vec<_>, _> = names
                .map(|name| object_name_to_table_reference(name, true))
                .collect();
            self.plan_views(&names?).await;
        }
        Ok(())
    }

    /// Replaces the calls of macros in a syntax tree, which `walk` visits.
    ///
    /// # Errors
    /// A call cannot be expanded.
    pub(super) fn expand_macros(
        &self,
        walk: impl FnOnce(&mut MacroExpander<'_>) -> ControlFlow<EngineError>,
    ) -> Result<(), EngineError> {
        if expanded(&self.catalog, walk)? {
            self.names.calls_macros.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns true if the statement names views or calls macros: its plan depends on their texts.
    pub(crate) fn depends_on_texts(&self) -> bool {
        !self.names.views.is_empty() || self.names.calls_macros.load(Ordering::Relaxed)
    }

    /// Plans the query of a view that is to be created.
    ///
    /// # Errors
    /// It cannot be planned.
    pub(crate) async fn check_view(
        &self,
        definition: &ViewDefinition,
        temporary: bool,
    ) -> Result<(), EngineError> {
        let planner = if temporary {
            None
        } else {
            Some(self.for_stored_views())
        };
        let planner = planner.as_ref().unwrap_or(self);
        let query = self.query_of(definition)?;
        let (names, _) = resolve_table_references(&query, true)?;
        let mut order = ViewOrder::new(ViewScope {
            temporary: temporary.then_some(&*self.names.temporary),
            catalog: &self.catalog,
        });
        if order.read(&names) >= MAX_VIEW_DEPTH {
            return Err(EngineError::Query(too_deep()));
        }
        self.plan_all(order.into_views()).await;
        planner.plan_view(definition, query).await.map(drop)
    }

    /// Returns the syntax tree of the query of a view, without macros.
    ///
    /// # Errors
    /// The text is no query; a call of a macro cannot be expanded.
    fn query_of(&self, definition: &ViewDefinition) -> Result<Parsed, EngineError> {
        let mut query = definition.parse()?;
        self.expand_macros(|expander| visit_mut(&mut query, expander))?;
        Ok(query)
    }

    /// Returns true if a view of the session that is to get this name reads itself, directly or through
    /// others.
    ///
    /// # Errors
    /// The definition has no query.
    pub(crate) fn reads_temporary(
        &self,
        definition: &ViewDefinition,
        name: &str,
    ) -> Result<bool, EngineError> {
        let (names, _) = resolve_table_references(&self.query_of(definition)?, true)?;
        let mut views = ViewMap::clone(&self.names.temporary);
        // The view may not be there yet. Its text does not matter for the views that read it.
        let definition = ViewDefinition {
            columns: Vec::new(),
            query: "SELECT 1".into(),
        };
        views.insert(name.to_owned(), Arc::new(definition));
        let mut order = ViewOrder::new(ViewScope {
            catalog: &self.catalog,
            temporary: Some(&views),
        });
        order.read(&names);
        let key = ViewKey {
            temporary: true,
            name: name.to_owned(),
        };
        Ok(order.into_views().iter().any(|view| view.key == key))
    }

    fn may_name_views(&self) -> bool {
        self.catalog.has_views() || !self.names.temporary.is_empty()
    }

    async fn plan_views(&self, names: &[TableReference]) {
        let mut order = ViewOrder::new(ViewScope {
            catalog: &self.catalog,
            temporary: Some(&self.names.temporary),
        });
        order.read(names);
        if names.iter().any(|name| name.schema() == Some(INFORMATION_SCHEMA)) {
            order.list();
        }
        self.plan_all(order.into_views()).await;
    }

    /// Plans views, each of which follows those that it reads.
    async fn plan_all(&self, views: Vec<NamedView>) {
        let mut stored = None;
        for NamedView { key, query, is_read } in views {
            if self.names.views.has(&key) {
                continue;
            }
            let planner: &Self = if key.temporary {
                self
            } else {
                stored.get_or_insert_with(|| self.for_stored_views())
            };
            let text = query.as_ref().map_or_else(
                |_| String::new(),
                |(definition, _)| definition.statement(&key.name, key.temporary),
            );
            let planned = match query {
                Ok((definition, query)) => planner.plan_view(&definition, query).await,
                Err(reason) => Err(EngineError::Query(reason)),
            };
            let planned = match planned {
                Ok(plan) => Ok(Arc::new(ViewTable::new(plan, Some(text))) as Arc<dyn TableProvider>),
                Err(error) if is_read => Err(reason_of(error)),
                Err(error) => Ok(
                    Arc::new(BrokenView::new(key.name.clone(), text, reason_of(error)))
                        as Arc<dyn TableProvider>,
                ),
            };
            self.names.views.insert(key, planned);
        }
    }

    /// Plans the query of a view over views that are planned.
    async fn plan_view(
        &self,
        definition: &ViewDefinition,
        query: Parsed,
    ) -> Result<LogicalPlan, EngineError> {
        Ok(definition.named(self.plan_over_views(query).await?)?)
    }

    /// Returns a planner of the same version of the database for the queries of stored views.
    fn for_stored_views(&self) -> Self {
        Self::new(
            Arc::clone(self.states()),
            &self.catalog,
            self.tables.without_session(),
            self.names.clone(),
        )
    }
}

/// Returns the reason why a view cannot be planned.
fn reason_of(error: EngineError) -> String {
    match error {
        // The views of the chain add nothing.
        EngineError::View { reason, .. } if reason == too_deep() => reason,
        // What to do about the inner view is what to do about the outer one.
        EngineError::View { name, reason } => format!("view {name}: {reason}"),
        other => other.to_string(),
    }
}

impl DatabaseSession {
    /// Returns the size of the stack that a statement of this text needs, with the views that it may name.
    pub(crate) fn stack_for_text(&self, engine: &EngineContext, text: &str) -> StackSize {
        let temporary = self.temporaries.now().views;
        let views = self.peek(engine).map_or(0, |catalog| {
            if temporary.is_empty() && !catalog.has_views() {
                return 0;
            }
            let mut text = text.to_lowercase();
            for name in catalog.objects().macro_names() {
                // Its expression may name views, too.
                let record = catalog.objects().macro_record(&name).unwrap_or_default();
                text += &String::from_utf8_lossy(record).to_lowercase();
            }
            // A quote within a name is doubled in the text.
            let may_name = |name: &str| name.contains('"') || text.contains(&name.to_lowercase());
            let stored = catalog.view_names().into_iter();
            let names = stored.chain(temporary.keys().cloned());
            let names = names.filter(|name| may_name(name));
            let names: Vec<_> = names.map(TableReference::bare).collect();
            bytes_of_views(&catalog, &temporary, &names)
        });
        StackSize::for_len(text.len().saturating_add(views))
    }

    /// Returns the size of the stack that the views need which a statement names.
    pub(crate) fn stack_for_views(&self, engine: &EngineContext, statement: &Parsed) -> StackSize {
        let temporary = self.temporaries.now().views;
        let views = self.peek(engine).map_or(0, |catalog| {
            if temporary.is_empty() && !catalog.has_views() {
                return 0;
            }
            let names = resolve_table_references(statement, true);
            names.map_or(0, |(names, _)| bytes_of_views(&catalog, &temporary, &names))
        });
        StackSize::for_len(views)
    }
}

/// Returns the length of the texts of views and of all that they read.
fn bytes_of_views(catalog: &Catalog, temporary: &ViewMap, names: &[TableReference]) -> usize {
    let scope = ViewScope {
        catalog,
        temporary: Some(temporary),
    };
    scope.stack().call(|| {
        let mut order = ViewOrder::new(scope);
        order.read(names);
        // A temporary view may hide a stored one, which the statement names by its schema.
        for name in names {
            order.read([&TableReference::partial(POOL_SCHEMA, name.table())]);
        }
        let views = order.into_views();
        let bytes = |view: &NamedView| view.query.as_ref().map_or(0, |(view, _)| view.query.len());
        views.iter().map(bytes).sum()
    })
}

/// Returns true if a stored view reads another one of this name, directly or through others.
///
/// # Errors
/// The definition has no query.
pub(crate) fn reads_view(
    catalog: &Catalog,
    definition: &ViewDefinition,
    name: &str,
) -> Result<bool, EngineError> {
    let mut query = definition.parse()?;
    expanded(catalog, |expander| visit_mut(&mut query, expander))?;
    let (names, _) = resolve_table_references(&query, true)?;
    let mut order = ViewOrder::new(ViewScope {
        catalog,
        temporary: None,
    });
    order.read(&names);
    let key = ViewKey {
        temporary: false,
        name: name.to_owned(),
    };
    Ok(order.into_views().iter().any(|view| view.key == key))
}
