//! A table of the pool without its rows, as the scan of a template refers to it.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::logical_expr::TableSource;
use halocline_scan::keyed::KeyedProvider;
use halocline_scan::plan::PoolTable;
use halocline_sql::{CATALOG, SCHEMA};

/// The kind of a table, on which its pushdown of filters depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DetachedKind {
    /// A table of columns.
    Pool,
    /// A table with a primary key.
    Keyed,
}

impl DetachedKind {
    fn from_provider(provider: &Arc<dyn TableProvider>) -> Option<Self> {
        if provider.is::<PoolTable>() {
            return Some(Self::Pool);
        }
        provider.is::<KeyedProvider>().then_some(Self::Keyed)
    }
}

/// The name, kind and schema of the table of a template. It takes no filters, so that they stay where
/// parameters are replaced.
#[derive(Debug)]
pub(crate) struct DetachedTable {
    name: String,
    kind: DetachedKind,
    schema: SchemaRef,
}

impl DetachedTable {
    /// Returns the table of a provider; `None` unless it is one of the pool.
    pub(super) fn from_provider(name: &TableReference, provider: &Arc<dyn TableProvider>) -> Option<Self> {
        let name = name.clone().resolve(CATALOG, SCHEMA);
        let is_in_pool = *name.catalog == *CATALOG && *name.schema == *SCHEMA;
        Some(Self {
            name: name.table.to_string(),
            kind: DetachedKind::from_provider(provider).filter(|_| is_in_pool)?,
            schema: provider.schema(),
        })
    }

    /// Returns the name of the table.
    pub(super) fn table(&self) -> &str {
        &self.name
    }

    /// Returns true if plans for this table are also plans for the table of a provider.
    pub(super) fn fits(&self, provider: &Arc<dyn TableProvider>) -> bool {
        let schema = provider.schema();
        DetachedKind::from_provider(provider) == Some(self.kind)
            && (Arc::ptr_eq(&schema, &self.schema) || schema == self.schema)
    }
}

impl TableSource for DetachedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
