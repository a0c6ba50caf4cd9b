//! The views that a statement reads, those that others read first.
//!
//! Views are planned one after the other in this order, so that the stack that planning takes does not grow
//! with the number of views over views. A view that reads itself, or is nested too deeply, has an error in
//! place of its query.

use std::collections::BTreeMap;

use datafusion::common::TableReference;
use datafusion::sql::parser::Statement as Parsed;
use halocline_catalog::Catalog;
use halocline_scan::views::ViewKey;
use halocline_sql::stack::StackSize;
use halocline_sql::syntax::visit_mut;
use halocline_sql::{CATALOG, POOL_SCHEMA, SCHEMA};

use super::definition::references;
use super::{ViewDefinition, ViewMap};
use crate::macros::expanded;

/// Views that may read each other in a chain.
pub(crate) const MAX_VIEW_DEPTH: usize = 32;

/// The views that names can stand for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewScope<'a> {
    /// The version of the database.
    pub(crate) catalog: &'a Catalog,
    /// The views of the session; `None` for the query of a stored view, which does not see them.
    pub(crate) temporary: Option<&'a ViewMap>,
}

impl ViewScope<'_> {
    /// Returns the view that a name stands for; `None` if it stands for something else, or for nothing.
    fn view(self, name: &TableReference) -> Option<ViewKey> {
        let key = |temporary| ViewKey {
            temporary,
            name: name.table().to_owned(),
        };
        let is_own = name.catalog().is_none_or(|catalog| catalog == CATALOG);
        let sees_session = match name.schema() {
            _ if !is_own => return None,
            None | Some(SCHEMA) => true,
            Some(POOL_SCHEMA) => false,
            Some(_) => return None,
        };
        let is_temporary = |views: &&ViewMap| sees_session && views.contains_key(name.table());
        if self.temporary.as_ref().is_some_and(is_temporary) {
            return Some(key(true));
        }
        let is_stored = self.catalog.has_view(name.table()) && !self.catalog.has_table(name.table());
        is_stored.then(|| key(false))
    }

    /// Returns the size of the stack on which the query of each view can be parsed and dropped.
    pub(crate) fn stack(self) -> StackSize {
        let stored = self.catalog.view_names();
        let records = stored.iter().filter_map(|name| self.catalog.objects().view(name));
        let temporary = self.temporary.into_iter().flat_map(|views| views.values());
        let lengths = records
            .map(<[u8]>::len)
            .chain(temporary.map(|view| view.query.len()));
        StackSize::for_len(lengths.max().unwrap_or(0))
    }

    /// Returns the definition of a view.
    fn definition(self, key: &ViewKey) -> Result<ViewDefinition, String> {
        let gone = || "it is not there any more".to_owned();
        if key.temporary {
            let found = self.temporary.and_then(|views| views.get(&key.name));
            return found.map(|view| ViewDefinition::clone(view)).ok_or_else(gone);
        }
        let record = self.catalog.objects().view(&key.name).ok_or_else(gone)?;
        ViewDefinition::decode(record)
    }
}

/// A view that a statement reads.
#[derive(Debug)]
pub(crate) struct NamedView {
    /// Its name and place.
    pub(crate) key: ViewKey,
    /// Its definition and the syntax tree of its query, or the reason why it has none.
    pub(crate) query: Result<(ViewDefinition, Parsed), String>,
    /// True if the statement reads it, false if it only lists it.
    pub(crate) is_read: bool,
}

/// Finds views with all that they read.
pub(crate) struct ViewOrder<'a> {
    scope: ViewScope<'a>,
    found: Vec<NamedView>,
    /// The views that were visited, with the number of views in the longest chain from each.
    seen: BTreeMap<ViewKey, usize>,
    /// The views that are being visited, each of which reads the next one.
    above: Vec<ViewKey>,
    is_read: bool,
}

impl<'a> ViewOrder<'a> {
    /// Creates an order without views.
    pub(crate) fn new(scope: ViewScope<'a>) -> Self {
        Self {
            scope,
            found: Vec::new(),
            seen: BTreeMap::new(),
            above: Vec::new(),
            is_read: true,
        }
    }

    /// Adds the views that names stand for, and returns the number of views in the longest chain from one of
    /// them.
    pub(crate) fn read<'n>(&mut self, names: impl IntoIterator<Item = &'n TableReference>) -> usize {
        self.is_read = true;
        let mut longest = 0;
        for name in names {
            if let Some(key) = self.scope.view(name) {
                // A view that cannot be planned has its error in place of its query.
                longest = longest.max(self.visit(key).unwrap_or(1));
            }
        }
        longest
    }

    /// Adds all views that there are, which the statement lists.
    pub(crate) fn list(&mut self) {
        self.is_read = false;
        let stored = self.scope.catalog.view_names().into_iter();
        let mut keys: Vec<ViewKey> = stored
            .map(|name| ViewKey {
                temporary: false,
                name,
            })
            .collect();
        let temporary = self.scope.temporary.into_iter().flat_map(|views| views.keys());
        keys.extend(temporary.map(|name| ViewKey {
            temporary: true,
            name: name.clone(),
        }));
        for key in keys {
            let _ = self.visit(key);
        }
    }

    /// Returns the views in their order.
    pub(crate) fn into_views(self) -> Vec<NamedView> {
        self.found
    }

    /// Adds a view after those that it reads, and returns the number of views in the longest chain from it.
    ///
    /// # Errors
    /// The reason why a view that reads it cannot be planned.
    fn visit(&mut self, key: ViewKey) -> Result<usize, String> {
        if self.above.contains(&key) {
            return Err(format!("it reads view {}, which reads it in turn", key.name));
        }
        if let Some(chain) = self.seen.get(&key) {
            return Ok(*chain);
        }
        if self.above.len() >= MAX_VIEW_DEPTH {
            return Err(too_deep());
        }
        let mut chain = 1;
        self.above.push(key.clone());
        let query = self.query(&key, &mut chain);
        self.above.pop();
        self.seen.insert(key.clone(), chain);
        let is_read = self.is_read;
        self.found.push(NamedView { key, query, is_read });
        Ok(chain)
    }

    /// Reads the query of a view, and visits the views that it reads. `chain` becomes the number of views in
    /// the longest chain from it.
    fn query(&mut self, key: &ViewKey, chain: &mut usize) -> Result<(ViewDefinition, Parsed), String> {
        let definition = self.scope.definition(key)?;
        let mut query = definition.parse().map_err(|error| error.to_string())?;
        expanded(self.scope.catalog, |expander| visit_mut(&mut query, expander))
            .map_err(|error| error.to_string())?;
        let names = references(&query).map_err(|error| error.to_string())?;
        let scope = ViewScope {
            temporary: self.scope.temporary.filter(|_| key.temporary),
            ..self.scope
        };
        for name in &names {
            if let Some(read) = scope.view(name) {
                *chain = (*chain).max(1 + self.visit(read)?);
            }
        }
        if *chain > MAX_VIEW_DEPTH {
            return Err(too_deep());
        }
        Ok((definition, query))
    }
}

/// Returns the reason why a view over too long a chain cannot be planned.
pub(crate) fn too_deep() -> String {
    format!(
        "more than {MAX_VIEW_DEPTH} views read each other in a chain; store one of them with CREATE TABLE … AS"
    )
}
