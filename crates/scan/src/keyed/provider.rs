//! The table provider: a table with a primary key as DataFusion sees it.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use halocline_keyed::{KeyedTable, KeyedView};
use halocline_sql::error::external;

use super::conditions::conditions;
use super::scan_node::{KeyedScanNode, KeyedScanSpec};
use crate::leaf::LeafExec;
use crate::plan::ADDRESS;

/// A reference to a table with a primary key in one statement.
#[derive(Debug)]
pub struct KeyedProvider {
    table: Arc<KeyedTable>,
    view: KeyedView,
    /// The columns of the table, followed by the encoded key if the statement changes rows.
    schema: SchemaRef,
    /// The primary key, which determines the other columns in `GROUP BY` and in correlated subqueries.
    constraints: Constraints,
}

impl KeyedProvider {
    /// Returns a table as a view of its store shows it.
    pub fn new(table: Arc<KeyedTable>, view: KeyedView) -> Self {
        Self {
            schema: Arc::clone(table.schema()),
            constraints: primary_key(&table),
            table,
            view,
        }
    }

    /// Adds a column with the encoded keys of the rows, for statements that change them.
    pub fn with_addresses(table: Arc<KeyedTable>, view: KeyedView) -> Self {
        let mut fields = table.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(ADDRESS, DataType::BinaryView, false)));
        Self {
            schema: Arc::new(Schema::new(fields)),
            constraints: primary_key(&table),
            table,
            view,
        }
    }
}

fn primary_key(table: &KeyedTable) -> Constraints {
    let key = table.definition().key().to_vec();
    Constraints::new_unverified(vec![Constraint::PrimaryKey(key)])
}

#[async_trait]
impl TableProvider for KeyedProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Returns `Inexact` for conditions on key columns: they narrow the key ranges, and rows are still
    /// filtered.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let answer = |filter: &&Expr| {
            if conditions(filter, &self.table).is_empty() {
                TableProviderFilterPushDown::Unsupported
            } else {
                TableProviderFilterPushDown::Inexact
            }
        };
        Ok(filters.iter().map(answer).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let given: Vec<_> = filters
            .iter()
            .flat_map(|filter| conditions(filter, &self.table))
            .collect();
        let ranges = self.table.ranges(&given).map_err(external)?;
        let spec = KeyedScanSpec {
            table: Arc::clone(&self.table),
            view: self.view.clone(),
            ranges,
            schema: Arc::new(self.schema.project(&projection)?),
            projection,
        };
        Ok(Arc::new(LeafExec(KeyedScanNode::new(spec, limit))))
    }
}
