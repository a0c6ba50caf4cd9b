//! The views of a session.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::ViewDefinition;

/// Views by name.
pub(crate) type ViewMap = BTreeMap<String, Arc<ViewDefinition>>;

/// The views that a session has created for itself. A statement sees those of its start.
#[derive(Debug, Default)]
pub(crate) struct TemporaryViews(RwLock<Arc<ViewMap>>);

impl TemporaryViews {
    /// Returns the views there are now.
    pub(crate) fn now(&self) -> Arc<ViewMap> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a view, in place of one of its name.
    pub(crate) fn insert(&self, name: &str, definition: ViewDefinition) {
        let mut views = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut views).insert(name.to_owned(), Arc::new(definition));
    }

    /// Removes a view, if it is there.
    pub(crate) fn remove(&self, name: &str) {
        let mut views = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut views).remove(name);
    }
}
