//! The table provider of a damaged table: its columns can be listed, and reading it fails.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use halocline_catalog::Catalog;
use halocline_sql::EngineError;
use halocline_sql::error::external;

use crate::plan::PoolTable;

/// A damaged table with the columns that its metadata lists.
#[derive(Debug)]
pub(super) struct DamagedTable {
    catalog: Arc<Catalog>,
    name: String,
    schema: SchemaRef,
}

impl DamagedTable {
    /// Returns the provider of the damaged table of this name.
    ///
    /// # Errors
    /// Its metadata cannot be read either.
    pub(super) fn new(catalog: &Arc<Catalog>, name: &str) -> Result<Self, EngineError> {
        Ok(Self {
            catalog: Arc::clone(catalog),
            name: name.to_owned(),
            schema: catalog.objects().table_head(name)?.schema,
        })
    }
}

#[async_trait]
impl TableProvider for DamagedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Fails as opening the table does.
    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let open = self.catalog.table(&self.name).map_err(external)?;
        PoolTable::new(open).scan(state, projection, filters, limit).await
    }
}
