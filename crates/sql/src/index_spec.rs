//! The definition of an index.

use halocline_elf::{Layout, Order};

/// The definition of an index to build.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSpec {
    /// Its name.
    pub name: String,
    /// The table.
    pub table: String,
    /// The columns.
    pub columns: Vec<String>,
    /// Layout of the tree.
    pub layout: Layout,
    /// Order of its dimensions.
    pub order: Order,
}

impl IndexSpec {
    /// Returns the definition of an index on columns of a table, with the layout and order by default.
    pub fn new(
        name: impl Into<String>,
        table: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            name: name.into(),
            table: table.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            layout: Layout::default(),
            order: Order::default(),
        }
    }

    /// Sets [`layout`](Self::layout).
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Sets [`order`](Self::order).
    #[must_use]
    pub fn with_order(self, order: Order) -> Self {
        Self { order, ..self }
    }
}
