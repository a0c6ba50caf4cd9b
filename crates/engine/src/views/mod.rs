//! Views: their definitions, and the order in which the views of a statement are planned.
//!
//! A view is the text of a query. It is stored in the pool as an object of its own, or kept by a session, and
//! planned anew for each statement that names it, so that it always is what its text says of the tables as
//! they are.

mod definition;
mod order;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use definition::ViewDefinition;
pub(crate) use order::{MAX_VIEW_DEPTH, NamedView, ViewOrder, ViewScope, too_deep};

/// Views by name.
pub(crate) type ViewMap = BTreeMap<String, Arc<ViewDefinition>>;
